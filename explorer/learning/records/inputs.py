"""What a learner is given, as arrays to which every entry is converted by itself: none decides what others become.

numpy finds one type for all entries of a list, and a single one may change it: beside one float, the labels 2**53 and
2**53 + 1 are the same; beside one string, numbers are written and read again. Masked arrays are refused as well, where
something is masked: most of numpy forgets the mask and takes what is hidden under it for data.
"""

from collections.abc import Sequence
from decimal import Decimal
from numbers import Complex, Integral, Real

import numpy as np
from sklearn.utils.validation import column_or_1d

from explorer.validation import shorten

_KINDS = {  # of labels: their types and how they are kept; the first that fits
    "booleans": ((bool, np.bool_), bool),
    "whole numbers": (Integral, np.int64),
    "other numbers": ((Real, Decimal), float),
    "text": (str, object),
}


def is_dask(X):
    """Whether X is a Dask collection, without importing dask."""
    return hasattr(X, "__dask_graph__")


def plain(name, values):
    """`values` as an ndarray that is no matrix or masked array, without a copy; ValueError where entries are masked."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must hold no masked entries: got {np.ma.count_masked(values)} of them")
    return np.asarray(values)


def column(y, name="y"):
    """y as ndarray (n,) of its entries as they are: of dtype object if each may have a type of its own, as in a list.

    Raises ValueError unless y is a vector or a matrix of one column, without masked entries.
    """
    if y is None:
        raise ValueError(f"{name} must be given: fit requires y to be passed, but the target y is None")
    y = y.compute() if is_dask(y) else y  # here, since numpy's conversion drops its masks
    if isinstance(y, Sequence) and any(map(np.ma.is_masked, y)):
        raise ValueError(f"{name} must hold no masked entries: got {name}={shorten(y)}")
    return column_or_1d(plain(name, y) if hasattr(y, "__array__") else np.asarray(y, dtype=object), warn=True)


def label_vector(y, name="y"):
    """The labels y as ndarray (n,), all of one kind: text, whole numbers (int64), booleans or other numbers (doubles).

    An array of any type but object is left as it is. Raises ValueError for a mixture and for anything else.
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
        return y.astype(_KINDS[kind][1])  # one by one
    except OverflowError:
        raise ValueError(f"{name} must hold {kind} that {_KINDS[kind][1].__name__} can hold: got one beyond") from None


def target_vector(y):
    """Real targets y as ndarray (n,) of numbers, doubles where each had a type of its own; ValueError for all else.

    Whether the entries of an array that has a type are finite is not looked at.
    """
    y = column(y)
    if y.dtype.kind not in "biufcO":  # complex numbers are scikit-learn's to refuse
        raise ValueError(f"y must hold real numbers: got {shorten(y)}")
    if y.dtype != object:
        return y
    for value in _one_of_each_type(y):
        if not isinstance(value, (Real, Decimal, np.bool_)):
            raise ValueError(f"y must hold finite real numbers: got {shorten(value)}")
    try:
        doubles = y.astype(float)  # one by one
    except OverflowError:
        raise ValueError("y must be finite in double precision: got an integer beyond 1.8e308") from None
    if not (finite := np.isfinite(doubles)).all():
        raise ValueError(f"y must hold finite real numbers: got {shorten(y[~finite][0])}")
    return doubles


def refuse_text(X):
    """Raise ValueError where X, dense, holds text or complex numbers, or masks an entry."""
    for part in _parts(X):
        array = plain("X", part)
        values = array.flat[:1] if array.dtype.kind in "USTc" else array.flat if array.dtype == object else ()
        for value in _one_of_each_type(values):
            if isinstance(value, (str, bytes)):
                raise ValueError(f"X must hold numbers, not text: got {shorten(value)}")
            if isinstance(value, Complex) and not isinstance(value, Real):
                raise ValueError(f"X must hold real numbers: Complex data not supported, got {shorten(value)}")


def _parts(X):
    """What numpy has or finds one type for: rows of a list, columns of a DataFrame if not of numbers, or X itself."""
    if isinstance(X, Sequence):
        return X
    if hasattr(X, "iloc") and X.ndim == 2:
        return (X.iloc[:, j] for j, dtype in enumerate(X.dtypes) if dtype.kind not in "biuf")
    return (X,)


def _one_of_each_type(values):
    return {type(value): value for value in values}.values()


def _kind(name, value):
    for kind, (types, _) in _KINDS.items():
        if isinstance(value, types):
            return kind
    raise ValueError(f"{name} must hold {', '.join(_KINDS)}: got {shorten(value)}")
