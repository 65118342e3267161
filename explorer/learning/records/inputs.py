"""Conversion of features, labels and targets to arrays, in which no entry changes how others are converted.

NumPy finds one type for all entries of a list, and a single entry may change it: beside one float, the labels 2**53 and
2**53 + 1 are equal; beside one string, numbers become text. Masked entries are refused, since most of NumPy ignores the
mask and uses the values under it.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from explorer.learning.types import Array, FeatureMatrix
from explorer.validation import shorten

_KINDS = {  # of labels: their types and how they are stored; the first match counts
    "booleans": ((bool, np.bool_), bool),
    "whole numbers": (Integral, np.int64),
    "other numbers": ((Real, Decimal), float),
    "text": (str, object),
}


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, without importing dask."""
    return hasattr(X, "__dask_graph__")


def plain(name: str, values: Any) -> np.ndarray:
    """`values` as a base-class ndarray, without a copy; raises ValueError if entries are masked."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must hold no masked entries: got {np.ma.count_masked(values)} of them")
    return np.asarray(values)


def column(y: Any, name: str = "y") -> np.ndarray:
    """y as ndarray (n,) with its entries unchanged: of dtype object where their types may differ, as in a list.

    Raises ValueError unless y is a vector or a matrix of one column, without masked entries.
    """
    if y is None:
        raise ValueError(f"{name} must be given: fit requires y to be passed, but the target y is None")
    y = y.compute() if is_dask(y) else y  # NumPy's conversion would drop masks
    if isinstance(y, Sequence) and any(map(np.ma.is_masked, y)):
        raise ValueError(f"{name} must hold no masked entries: got {name}={shorten(y)}")
    return column_or_1d(plain(name, y) if hasattr(y, "__array__") else np.asarray(y, dtype=object), warn=True)


def label_vector(y: Any, name: str = "y") -> np.ndarray:
    """The labels y as ndarray (n,), all of one kind: text, whole numbers (int64), booleans or other numbers (doubles).

    An array of any type but object is returned unchanged. Raises ValueError for mixed kinds and for other types.
    """
    y = column(y, name)
    if y.dtype.kind == "S":
        raise ValueError(f"{name} must hold text, not bytes: got {shorten(y)}")
    if y.dtype != object:
        return y
    found = {}
    for value in _one_of_each_type(y):
        found.setdefault(_kind(name, value), value)
    if len(found) > 1:
        both = " and ".join(f"{kind} ({shorten(value)})" for kind, value in list(found.items())[:2])
        raise ValueError(f"{name} must hold labels of one kind, be it {', '.join(_KINDS)}: got {both}")
    kind = next(iter(found), "text")
    try:
        return y.astype(_KINDS[kind][1])  # entry by entry
    except OverflowError:
        raise ValueError(f"{name} must hold {kind} that {_KINDS[kind][1].__name__} can hold: got one beyond") from None


def target_vector(y: Any) -> Array:
    """Real targets y as ndarray (n,) of finite doubles; raises ValueError for anything else.

    Complex numbers are returned unchanged, for scikit-learn to refuse.
    """
    y = column(y)
    if y.dtype.kind not in "biufcO":
        raise ValueError(f"y must hold real numbers: got {shorten(y)}")
    if y.dtype.kind == "c":
        return y
    if y.dtype == object:
        for value in _one_of_each_type(y):
            if not isinstance(value, (Real, Decimal, np.bool_)):
                raise ValueError(f"y must hold finite real numbers: got {shorten(value)}")
    try:
        with np.errstate(over="ignore"):
            doubles = y.astype(float)  # entry by entry; a wider type may overflow
    except OverflowError:
        raise ValueError("y must be finite in double precision: got an integer beyond 1.8e308") from None
    if not (finite := np.isfinite(doubles)).all():
        if y.dtype == object:
            raise ValueError(f"y must hold finite real numbers: got {shorten(y[~finite][0])}")
        raise ValueError(f"y must be finite in double precision: got {y[~finite][0]} (NaN, infinity or beyond 1.8e308)")
    return doubles


def refuse_text(X: FeatureMatrix) -> None:
    """Raise ValueError if X, dense, holds text, complex numbers or masked entries."""
    for part in _parts(X):
        array = plain("X", part)
        values = array.flat[:1] if array.dtype.kind in "USTc" else array.flat if array.dtype == object else ()
        for value in _one_of_each_type(values):
            if isinstance(value, (str, bytes)):
                raise ValueError(f"X must hold numbers, not text: got {shorten(value)}")
            if isinstance(value, Complex) and not isinstance(value, Real):
                raise ValueError(f"X must hold real numbers: Complex data not supported, got {shorten(value)}")


def _parts(X: FeatureMatrix) -> Iterable:
    """The parts of X that have one type each: rows of a list, the non-numeric columns of a DataFrame, or X itself."""
    if isinstance(X, Sequence):
        return X
    if hasattr(X, "iloc") and X.ndim == 2:
        return (X.iloc[:, j] for j, dtype in enumerate(X.dtypes) if dtype.kind not in "biuf")
    return (X,)


def _one_of_each_type(values: Iterable) -> Iterable:
    return {type(value): value for value in values}.values()


def _kind(name: str, value: object) -> str:
    for kind, (types, _) in _KINDS.items():
        if isinstance(value, types):
            return kind
    raise ValueError(f"{name} must hold {', '.join(_KINDS)}: got {shorten(value)}")
