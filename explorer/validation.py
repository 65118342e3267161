"""One place where arguments are checked: every error names the parameter, its value and the rule it broke."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

_T = TypeVar("_T")


def real_array(
    name: str,
    value: ArrayLike,
    *,
    rule: str = "a real number",
    valid: Callable[[NDArray[np.float64]], Any] = lambda x: ~np.isnan(x),
) -> NDArray[np.float64]:
    """`value` as a float array of its own shape.

    Parameters
    ----------
    name : str, the parameter's name as the caller knows it
    value : array_like, any shape (an empty array passes)
    rule : str, completes the sentence "<name> must be <rule>"
    valid : callable, float array to boolean array of the same shape

    Raises
    ------
    ValueError if `value` is not numeric or an element breaks the rule; the message shows the first such element.
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "iufO":  # no booleans, complex numbers, strings or dates
            raise TypeError
        array = array.astype(float, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {rule}: got {name}={shorten(value)}") from None
    good = np.asarray(valid(array))
    if not good.all():
        raise ValueError(f"{name} must be {rule}: got {name}={float(array[~good].flat[0])!r}")
    return array


def real(
    name: str,
    value: ArrayLike,
    *,
    rule: str = "a finite number",
    valid: Callable[[NDArray[np.float64]], Any] = np.isfinite,
) -> float:
    """`value` as a float; raises ValueError, naming the parameter, unless it is one number that obeys the rule."""
    array = real_array(name, value, rule=rule, valid=valid)
    if array.ndim:
        raise ValueError(f"{name} must be a single number: got {name}={shorten(value)}")
    return float(array)


def positive(name: str, value: ArrayLike) -> float:
    """`value` as a finite float > 0."""
    if type(value) is float and 0 < value < math.inf:  # every root search builds mechanisms: skip the array for these
        return value
    return real(name, value, rule="a finite number > 0", valid=lambda x: np.isfinite(x) & (x > 0))


def magnitude(name: str, value: ArrayLike) -> float:
    """`value` as a float in [1e-100, 1e100], the range of norms whose square and inverse are floating-point numbers."""
    return real(name, positive(name, value), rule="a number from 1e-100 to 1e100", valid=is_magnitude)


def is_magnitude(x: ArrayLike) -> Any:
    """Whether x, a number or an array, is in the range of `magnitude`."""
    x = np.asarray(x)
    return (x >= 1e-100) & (x <= 1e100)


def non_negative(name: str, value: ArrayLike) -> float:
    """`value` as a finite float >= 0."""
    return real(name, value, rule="a finite number >= 0", valid=lambda x: np.isfinite(x) & (x >= 0))


def natural(name: str, value: ArrayLike) -> int:
    """`value` as an int >= 1."""
    rule = "an integer >= 1"
    return int(real(name, value, rule=rule, valid=lambda x: np.isfinite(x) & (x >= 1) & (x == np.floor(x))))


def epsilon_array(value: ArrayLike) -> NDArray[np.float64]:
    """Privacy parameters epsilon as a float array; any real number or infinity is valid."""
    return real_array("epsilon", value)


def delta_array(value: ArrayLike) -> NDArray[np.float64]:
    """Privacy parameters delta as a float array, each inside (0, 1)."""
    return real_array("delta", value, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1))


def order_array(value: ArrayLike) -> NDArray[np.float64]:
    """Renyi orders alpha as a float array, each >= 1 (1: Kullback-Leibler, infinity: max-divergence)."""
    return real_array("alpha", value, rule=">= 1", valid=lambda x: x >= 1)


def instance(name: str, value: object, types: type[_T] | tuple[type[_T], ...]) -> _T:
    """`value`, which must be an instance of one of `types`; else TypeError with the accepted types and the value."""
    if not isinstance(value, types):
        accepted = " or ".join(t.__name__ for t in (types if isinstance(types, tuple) else (types,)))
        raise TypeError(f"{name} must be {accepted}: got {name}={shorten(value)}")
    return value


def shorten(value: object) -> str:
    """repr(value), cut off after 80 characters."""
    try:
        text = repr(value)
    except ValueError:  # repr of an integer of more than 4300 digits
        text = f"{type(value).__name__} with thousands of digits"
    return text if len(text) <= 80 else text[:77] + "..."
