"""Sums of clipped gradients in exact integers, at the speed of doubles.

Noisy gradients are private in doubles only if what the noise is added to is a sum of integer vectors q_i, each of norm
at most C / g, and q_i depends on record i and on theta alone: then the noisy sum, g (sum_i q_i + K) with K the exact
rounding of Gaussian noise to the grid g, is the rounding of what the mechanism over the reals publishes. (Theorem 5 of
docs/mathematics/floating_point.md; a computed sum of doubles has neither property.)

    x_i is cut to integers Q_i in units of 2^-22 of the largest row norm, and theta rounded to integers T such that
    Q_i.T is exact; the slope at the margin Q_i.T is cut to an integer w_i and to |w_i| <= C / (g |Q_i|); q_i = w_i Q_i.

Q_i, T and w_i are integers in doubles. All sums stay below 2^53, so that doubles add them without rounding, in any
order and by any BLAS. Cutting is towards zero. It changes a gradient by a few millionths of C, as if the records had
been given with six digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from explorer.learning.losses import Loss
from explorer.learning.records.blocks import Block, Records
from explorer.learning.types import Array

_FEATURE_BITS, _SLOPE_BITS = 22, 21
ROWS = 2**10  # in one sum: times 2^(22 + 21) it is 2^53
_THETA_BITS = 29
_BELOW = 1 - 2.0**-40  # more than the rounding of a root and a division
_KEPT_VALUES = 2**24  # of features that are kept as integers during a fit, 128 MB; of more, they are cut in each step
_SAFE_RECORDS = 2**18  # of which sums are below 2^61


class Rows(Protocol):
    """Design rows of integers, with a column of ones if any: a `Block` without scale, or of that form."""

    @property
    def constant(self) -> bool: ...

    def dot(self, theta: Array) -> Array:
        """Margins x_i.theta, ndarray (m,)."""
        ...

    def transposed_dot(self, weights: Array) -> Array:
        """sum_i weights_i x_i, ndarray (d,)."""
        ...


class IntegerRows(NamedTuple):
    """Records as integers: the rows Q_i, with ones in place of their constant; targets (m,); the caps of |w_i| (m,)."""

    rows: Rows
    y: np.ndarray
    caps: Array


@dataclass(frozen=True)
class IntegerGradients:
    """The integer sums described above, for one loss and public bounds.

    Parameters
    ----------
    loss : Loss
    bound : float > 0, C, to which the norm of each record's gradient is clipped
    row_norm : float > 0, the largest norm of a design row
    n_records : int, or an upper bound; beyond 2^18 sums are Python's integers
    """

    loss: Loss
    bound: float
    row_norm: float
    n_records: int

    @cached_property
    def grid(self) -> float:
        """g, a power of two: the unit of the sums, with 2^42 g <= C < 2^43 g."""
        return _power_above(self.bound) * 2.0 ** -(_FEATURE_BITS + _SLOPE_BITS)

    @cached_property
    def feature_unit(self) -> float:
        """The unit of Q, a power of two."""
        return _power_above(self.row_norm) * 2.0**-_FEATURE_BITS

    @cached_property
    def one(self) -> float:
        """The constant feature 1 in this unit, cut to an integer."""
        return float(np.trunc(1 / self.feature_unit))

    def rows(self, block: Block) -> IntegerRows:
        """The records of a Block as integers."""
        factor = (
            np.full(len(block.y), 1 / self.feature_unit) if block.scale is None else block.scale / self.feature_unit
        )
        if sparse.issparse(block.X):
            values = np.trunc(block.X.data * np.repeat(factor, np.diff(block.X.indptr)))
            X: Any = sparse.csr_array((values, block.X.indices, block.X.indptr), shape=block.X.shape)
            squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        else:
            X = block.X * factor[:, None]
            np.trunc(X, out=X)
            squares = np.einsum("ij,ij->i", X, X)
        return IntegerRows(replace(block, X=X, scale=None), block.y, self.caps(squares, constant=block.constant))

    def caps(self, squares: Array, *, constant: bool) -> Array:
        """The largest integers w with w |Q_i| <= C / g, or some millionths less, for the squared norms of features."""
        norms = np.sqrt(squares + self.one**2 if constant else squares)
        with np.errstate(divide="ignore"):
            return np.where(norms > 0, np.floor(_BELOW * (self.bound / self.grid) / norms), 0.0)

    def total(self, records: IntegerRows, theta: Array) -> np.ndarray:
        """sum_i q_i at theta for at most 2^10 records, in units of `grid`: ndarray (d,) of integers."""
        rows, y, caps = records
        unit = _power_above(math.sqrt(theta @ theta)) * 2.0**-_THETA_BITS
        whole = np.rint(theta / unit)
        if rows.constant:
            whole[-1] *= self.one
        margins = rows.dot(whole)
        margins *= self.feature_unit * unit
        weights = self.loss.derivative(margins, y) / (self.grid / self.feature_unit)
        np.minimum(weights, caps, out=weights)
        np.maximum(weights, -caps, out=weights)
        np.trunc(weights, out=weights)
        if math.isnan(weights.sum()):  # of infinities that a loss subtracts
            weights[np.isnan(weights)] = 0.0
        sums = rows.transposed_dot(weights)
        if rows.constant:
            sums[-1] *= self.one
        total = sums.astype(np.int64)
        return total if self.n_records <= _SAFE_RECORDS else total.astype(object)

    def of_block(self, block: Block, theta: Array) -> tuple[np.ndarray]:
        """`total` of a Block of any size, in a tuple, as `Records.total` requires."""
        parts = (self.total(self.rows(part), theta) for part in _parts(block))
        return (sum(parts, np.zeros(len(theta), np.int64)),)


class IntegerRecords:
    """`Records` as integers: cut once for a whole fit where they are few, otherwise when they are taken."""

    def __init__(self, records: Records, sums: IntegerGradients) -> None:
        self._records, self._sums, self._caps = records, sums, None
        self.n_records, self.is_sparse = records.n_records, sparse.issparse(records.X)
        if (records.X.nnz if self.is_sparse else records.X.size) <= _KEPT_VALUES:
            whole = sums.rows(records.take(slice(None)))
            self._records, self._caps = Records.of(whole.rows), whole.caps  # pyright: ignore[reportArgumentType]

    @property
    def is_kept(self) -> bool:
        """Whether all records are kept as integers."""
        return self._caps is not None

    def take(self, rows: np.ndarray | slice) -> IntegerRows:
        """The records of these numbers."""
        block = self._records.take(rows)
        return self._sums.rows(block) if self._caps is None else IntegerRows(block, block.y, self._caps[rows])


def total_of_parts(sums: IntegerGradients, parts: list[IntegerRows], theta: Array) -> np.ndarray:
    """The sum of `sums.total` over parts."""
    return sum((sums.total(part, theta) for part in parts), np.zeros(len(theta), np.int64))


def limited(rows: np.ndarray) -> list[np.ndarray]:
    """Consecutive parts of an index array, as many records in each as one exact sum takes; at least one."""
    if len(rows) <= ROWS:
        return [rows]
    return [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]


def _parts(block: Block) -> list[Block]:
    rows = len(block.y)
    if rows <= ROWS:
        return [block]
    slices = [slice(start, start + ROWS) for start in range(0, rows, ROWS)]
    return [
        replace(
            block,
            X=block.X[part],
            y=block.y[part],
            norms=block.norms[part],
            scale=None if block.scale is None else block.scale[part],
        )
        for part in slices
    ]


def _power_above(x: float) -> float:
    """The smallest power of two > x, at least 2^-400; 1 for x = 0."""
    return float(np.ldexp(1.0, max(int(np.frexp(x)[1]), -400)))
