"""The records a learner sees: feature rows no longer than a public norm, a constant column, targets; block by block.

Nothing here copies the whole of X: rows are scaled and the constant column is added while a block is used, so that a
memory-mapped file of any size is read with a bounded working set.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dsyrk

from explorer.validation import positive

_BLOCK_BYTES = 2**20  # of X; a block stays in the cache between its two uses, X @ theta and X.T @ slopes
_ROUNDING = 1e-15  # a scaled row must not come out longer than the norm


@dataclass(frozen=True)
class Block:
    """Some records: design rows x_i = (scale_i X_i, 1 if constant), targets and row norms.

    Attributes
    ----------
    X : ndarray or CSR (m, p)
    y : ndarray (m,)
    norms : ndarray (m,), |x_i|
    scale : ndarray (m,) in (0, 1], or None where no row is scaled
    constant : bool, whether a column of ones follows the features
    """

    X: object
    y: np.ndarray
    norms: np.ndarray
    scale: np.ndarray | None
    constant: bool

    def dot(self, theta):
        """Margins x_i.theta, ndarray (m,)."""
        u = self.X @ (theta[:-1] if self.constant else theta)
        if self.scale is not None:
            u *= self.scale
        return u + theta[-1] if self.constant else u

    def transposed_dot(self, weights):
        """sum_i weights_i x_i, ndarray (d,)."""
        scaled = weights if self.scale is None else weights * self.scale
        total = self.X.T @ scaled
        return np.append(total, weights.sum()) if self.constant else total

    def gram(self, weights):
        """sum_i weights_i x_i x_i^T for weights (m,) >= 0, ndarray (d, d)."""
        root = np.sqrt(weights)
        scaled = root if self.scale is None else root * self.scale
        if sparse.issparse(self.X):
            rows = sparse.diags_array(scaled) @ self.X
            features = (rows.T @ rows).toarray()
        else:
            upper = dsyrk(1.0, (self.X * scaled[:, None]).T)  # half the work of a product; fills one triangle
            features = np.triu(upper) + np.triu(upper, 1).T
        if not self.constant:
            return features
        border = self.X.T @ (root * scaled)
        return np.block([[features, border[:, None]], [border[None, :], np.array([[weights.sum()]])]])


class Records:
    """Records in memory or in a memory-mapped file.

    Parameters
    ----------
    X : ndarray or CSR (n, p)
    y : ndarray (n,), in the loss's own encoding
    data_norm : float > 0 or None; rows of X longer than it are scaled down to it
    constant : bool; append a column of ones, which counts in the norms
    block_bytes : int, size of the blocks of X that are worked on
    """

    def __init__(self, X, y, *, data_norm=None, constant=False, block_bytes=_BLOCK_BYTES):
        self.X, self.y, self.constant = X, y, constant
        self._block_bytes = block_bytes
        norms = np.concatenate([row_norms(X[rows]) for rows in self._slices])
        self.scale = None
        if data_norm is not None and (norms > positive("data_norm", data_norm)).any():
            self.scale = np.where(norms > data_norm, data_norm / np.maximum(norms, data_norm) * (1 - _ROUNDING), 1.0)
            norms = np.minimum(norms, data_norm)
        self.norms = np.hypot(norms, 1.0) if constant else norms

    def with_targets(self, y):
        """The same rows with other targets, ndarray (n,); shares everything else."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, y=y)
        return other

    @property
    def n_records(self):
        """n."""
        return self.X.shape[0]

    @property
    def dimension(self):
        """d, the number of features and the constant."""
        return self.X.shape[1] + self.constant

    def take(self, rows):
        """The Block of `rows`, a slice (which copies nothing) or an integer array."""
        scale = None if self.scale is None else self.scale[rows]
        return Block(self.X[rows], self.y[rows], self.norms[rows], scale, self.constant)

    def total(self, function, *arguments):
        """Sum over blocks of the tuple function(block, *arguments), entry by entry."""
        parts = (function(self.take(rows), *arguments) for rows in self._slices)
        return tuple(sum(column) for column in zip(*parts, strict=True))

    @cached_property
    def _slices(self):
        n = self.n_records
        values = self.X.nnz if sparse.issparse(self.X) else self.X.size
        rows = max(1, int(self._block_bytes * n / max(8 * values, 1)))
        return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def row_norms(X):
    """l2 norm of each row of a dense or CSR matrix, ndarray (n,)."""
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return np.sqrt(np.asarray(squares, float).ravel())
