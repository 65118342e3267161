"""The interface of all bounds, and its implementation for bounds that are given by a privacy profile."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.optimize.elementwise import find_root

from explorer.accounting.mechanisms import ObjectivePerturbation
from explorer.accounting.types import FloatArray, LogProfile
from explorer.validation import delta_array

_MARGIN = 2e-11  # in log delta; smaller than every tolerance that the docstrings state


class BoundNotApplicable(ValueError):
    """The mechanism is valid, but its parameters violate a condition of this bound's theorem; the message names it."""


def require_l2_reg_above_smoothness(mechanism: ObjectivePerturbation) -> None:
    """Raise BoundNotApplicable unless l2_reg > smoothness, the condition under which log(1 - beta/lambda) exists."""
    if not mechanism.smoothness < mechanism.l2_reg or mechanism.curvature_ratio >= 1:
        raise BoundNotApplicable(
            "l2_reg must exceed smoothness for this bound: "
            f"got l2_reg={mechanism.l2_reg!r}, smoothness={mechanism.smoothness!r}"
        )


@runtime_checkable
class PrivacyBound(Protocol):
    """The interface of a bound on a mechanism's (epsilon, delta); all methods are elementwise, for arrays of any shape.

    A bound is constructed from a mechanism. The constructor raises `BoundNotApplicable` where the conditions of the
    bound's theorem do not hold.
    """

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Natural log of delta at epsilon (nats): non-increasing in epsilon, at most 0."""
        ...

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """delta at epsilon (nats), the exponential of `log_delta`."""
        ...

    def epsilon(self, delta: ArrayLike) -> FloatArray:
        """Smallest epsilon >= 0 (nats) at which the bound guarantees delta, inside (0, 1)."""
        ...


@runtime_checkable
class DirectionalProfiles(Protocol):
    """A bound with a privacy profile for each direction of the neighbouring relation, valid at every real epsilon.

    "add" is the divergence of M(Z) from M(Z'), "remove" that of M(Z') from M(Z), where Z' has one record more than Z.
    """

    def log_delta_add(self, epsilon: ArrayLike) -> FloatArray:
        """Natural log of delta in the "add" direction."""
        ...

    def log_delta_remove(self, epsilon: ArrayLike) -> FloatArray:
        """Natural log of delta in the "remove" direction."""
        ...


class ProfileBound:
    """Base class of bounds that define `log_delta(epsilon)`: it derives the rest of `PrivacyBound` from that.

    `log_delta` may also be an attribute of the instance, such as the method of another bound.
    """

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Natural log of delta, of epsilon's shape; epsilon array_like in nats."""
        raise NotImplementedError

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """delta(epsilon) in [0, 1], of epsilon's shape; 0 where it underflows and `log_delta` is still finite."""
        return np.exp(self.log_delta(epsilon))

    def epsilon(self, delta: ArrayLike) -> FloatArray:
        """Smallest epsilon >= 0 (nats) at which the profile is at most delta, of delta's shape; see `smallest_epsilon`.

        Raises ValueError for delta outside (0, 1).
        """
        return smallest_epsilon(self.log_delta, delta)


def smallest_epsilon(log_delta: LogProfile, delta: ArrayLike) -> FloatArray:
    """Invert a non-increasing privacy profile: inf { epsilon >= 0 : log_delta(epsilon) <= log delta }.

    Parameters
    ----------
    log_delta : callable, elementwise on float arrays
    delta : array_like, any shape, inside (0, 1)

    Returns
    -------
    ndarray of delta's shape, nats: the upper end of a bracket of the root, a few floating-point steps wide, where the
    profile was evaluated and is at most delta; infinity where the profile exceeds delta at every epsilon.

    Raises
    ------
    ValueError for delta outside (0, 1).
    """
    delta = delta_array(delta)
    target = log_target(delta).ravel()
    epsilon = np.zeros(target.shape)
    (open_,) = np.nonzero(log_delta(np.zeros(target.shape)) > target)
    low, high = np.zeros(open_.size), np.ones(open_.size)
    while (short := log_delta(high) > target[open_]).any():
        with np.errstate(over="ignore"):
            low[short], high[short] = high[short], high[short] * 2
        if np.isinf(high).any():
            keep = np.isfinite(high)
            epsilon[open_[~keep]] = np.inf
            open_, low, high = open_[keep], low[keep], high[keep]
    if open_.size == 1:  # the scalar search has a tenth of the overhead of the vectorised one
        epsilon[open_] = private_root(lambda x: log_delta(np.asarray(x)) - target[open_[0]], low[0], high[0])
    elif open_.size:
        root = find_root(lambda x, t: log_delta(x) - t, (low, high), args=(target[open_],))
        epsilon[open_] = root.bracket[1]
    return epsilon.reshape(delta.shape)[()]


def private_root(
    excess: Callable[[float], float | FloatArray], low: float, high: float, *, xtol: float = 1e-300
) -> float:
    """A point x in (low, high] with excess(x) <= 0, above the smallest such point by about 1e-12 x or xtol at most.

    Parameters
    ----------
    excess : callable, float to float or inf, non-increasing, > 0 at low and <= 0 at high; a log delta above its target
    low, high : float
    xtol : float > 0, absolute tolerance: larger where the root is near 0 or need not be exact
    """

    # The margin moves the root to the private side, so that it usually needs no correction. Where the bound guarantees
    # nothing (excess is infinite) a large finite value keeps brentq's bracket valid.
    def raised(x: float) -> float:
        return min(float(excess(x)), 1e6) + _MARGIN

    if raised(high) > 0:
        return float(high)
    # SciPy has no annotations: pyright infers the type of rtol from its default, and the result for full_output=True.
    root: float = brentq(raised, low, high, xtol=xtol, rtol=1e-13)  # pyright: ignore
    step = max(float(np.spacing(abs(root))), xtol)
    while root < high and excess(root) > 0:
        root, step = root + step, 2 * step
    return float(min(root, high))


def log_target(delta: ArrayLike) -> FloatArray:
    """log delta minus its rounding error, so that log_delta <= log_target(delta) implies exp(log_delta) <= delta."""
    return np.log(delta) * (1 + 4 * np.finfo(float).eps)
