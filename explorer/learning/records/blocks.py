"""Records in memory, processed block by block: feature rows of bounded norm, a constant column, targets.

X is never copied as a whole: rows are scaled, cast to double precision and extended by their constant while a block is
processed, so that a memory-mapped file of any size is read with a bounded working set. Sums over blocks are added in
the order of the blocks, so the same records give bitwise the same sums.

The guarantee needs two properties that must hold for whatever numbers a record contains. First, the treatment of a
record depends on that record alone. Second, its term in a gradient sum, in the doubles that are added, has at most the
norm that the accounting assumes: norms neither overflow nor underflow and are rounded up, scale factors are rounded
down, and duplicate entries of a sparse row are summed first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.linalg import eigvalsh, get_blas_funcs

from explorer.learning.records.inputs import plain
from explorer.learning.records.threads import add_parts, ordered_total, own_threads
from explorer.learning.types import Array, FeatureMatrix
from explorer.validation import magnitude, shorten

_BLOCK_BYTES = 2**20  # of X; a block stays in the cache between its two uses, X @ theta and X.T @ slopes
_BYTES_WORTH_THREADS = 2**25  # of X: a pass of some milliseconds; below it, threads cost more than they save
_LEAST_RUNS, _LONGEST_RUN = 8, 16  # a thread processes a run of consecutive blocks at a time
_PRODUCTS_WORTH_THREADS = 2**21  # the same for Gram matrices
_EPS = np.finfo(float).eps
_syrk: Any = get_blas_funcs("syrk", dtype=np.float64)
_SMALLEST_SCALE = 1e-100  # rows that would need a smaller factor are set to 0: doubles cannot scale them safely
_SQUARES_TO_TRUST = 2.0**-900  # in a smaller sum of squares, some may have underflowed
_SPARSE_COST = 200  # of a multiplication in a sparse product, relative to a dense one
_EXACT_DIMENSION = 1000  # up to which the largest eigenvalue of the Gram matrix is computed


@dataclass(frozen=True)
class Block:
    """Some records: design rows x_i = (scale_i X_i, 1 if constant), targets and row norms.

    Attributes
    ----------
    X : ndarray or CSR (m, p)
    y : ndarray (m,)
    norms : ndarray (m,), |x_i|, rounded up
    scale : ndarray (m,) in [0, 1], or None where no row is scaled
    constant : bool, whether a column of ones follows the features
    """

    X: FeatureMatrix
    y: np.ndarray
    norms: np.ndarray
    scale: np.ndarray | None
    constant: bool

    def dot(self, theta: Array) -> Array:
        """Margins x_i.theta, ndarray (m,)."""
        u = self.X @ (theta[:-1] if self.constant else theta)
        if self.scale is not None:
            u *= self.scale
            u[np.isnan(u)] = 0.0  # infinity times 0: a row scaled by 0 contributes 0
        if self.constant:
            u += theta[-1]
        return u

    def transposed_dot(self, weights: Array) -> Array:
        """sum_i weights_i x_i, ndarray (d,)."""
        features = self._columns @ (weights if self.scale is None else weights * self.scale)
        if not self.constant:
            return features
        total = np.empty(len(features) + 1)
        total[:-1], total[-1] = features, weights.sum()
        return total

    def gram(self, weights: Array) -> Array:
        """sum_i weights_i x_i x_i^T for weights (m,) >= 0, ndarray (d, d)."""
        root = np.sqrt(weights)
        scaled = root if self.scale is None else root * self.scale
        features = self._sparse_gram(scaled) if self._sparse_product_is_faster else self._dense_gram(scaled)
        if not self.constant:
            return features
        border = self._columns @ (root * scaled)
        return np.block([[features, border[:, None]], [border[None, :], np.array([[weights.sum()]])]])

    def in_double(self) -> Block:
        """This block with X in double precision."""
        return self if self.X.dtype == np.float64 else replace(self, X=self.X.astype(np.float64))

    @cached_property
    def _columns(self) -> FeatureMatrix:
        return self.X.T

    @property
    def _sparse_product_is_faster(self) -> bool:
        if not sparse.issparse(self.X):
            return False
        entries = np.diff(self.X.indptr).astype(float)
        return bool(_SPARSE_COST * (entries @ entries) < len(entries) * self.X.shape[1] ** 2)

    def _sparse_gram(self, scaled: Array) -> Array:
        data = self.X.data * np.repeat(scaled, np.diff(self.X.indptr))
        rows = sparse.csr_array((data, self.X.indices, self.X.indptr), shape=self.X.shape)
        return (rows.T @ rows).toarray()

    def _dense_gram(self, scaled: Array) -> Array:
        rows = self.X.toarray() if sparse.issparse(self.X) else self.X
        triangle = _syrk(1.0, (rows * scaled[:, None]).T)  # one triangle, at half the work of a product
        gram = triangle + triangle.T
        np.fill_diagonal(gram, triangle.diagonal())
        return gram


class AbstractRecords:
    """What objectives, solvers and learners need of records, wherever these are stored: sums over blocks of rows.

    `Records` has them in memory or in a memory-mapped file, and offers single rows too; `DaskRecords` has them in a
    Dask array, possibly on other machines. `sources.records_of` takes the one that fits the type of X.
    """

    constant: bool
    _shared: dict[str, Any]

    @property
    def n_records(self) -> int:
        """n."""
        raise NotImplementedError

    @property
    def dimension(self) -> int:
        """d, the number of features plus the constant."""
        raise NotImplementedError

    def total(self, function: Callable[..., tuple], *arguments: Any, least_rows: int = 1) -> tuple:
        """Sum over blocks of the tuple function(block, *arguments), entry by entry."""
        raise NotImplementedError

    def sample(self, m: int, *, rng: np.random.Generator) -> Records:
        """m of the records, drawn without replacement, copied into memory."""
        raise NotImplementedError

    def _set_targets(self, y: Any) -> None:
        raise NotImplementedError

    @property
    def squared_norm(self) -> float:
        """An upper bound on |X|_2^2, the largest eigenvalue of sum_i x_i x_i^T; exact up to rounding for d <= 1000.

        For larger d, the smaller of its trace and the largest row sum of |X|^T |X|. Computed once for all targets.
        """
        if "squared_norm" not in self._shared:
            if self.dimension <= _EXACT_DIMENSION:
                (gram,) = self.total(_plain_gram, least_rows=2 * self.dimension)
                bound = eigvalsh(gram, subset_by_index=[self.dimension - 1] * 2)[0]
            else:
                trace, row_sums = self.total(_trace_and_row_sums)
                bound = min(trace, row_sums.max())
            self._shared["squared_norm"] = float(bound) * (1 + 1e-9)
        return self._shared["squared_norm"]

    def with_targets(self, y: Any) -> Self:
        """The same rows with other targets, ndarray (n,); everything else is shared."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._set_targets(y)
        return other


class Records(AbstractRecords):
    """Records in memory or in a memory-mapped file, of which single rows can be taken.

    Parameters
    ----------
    X : ndarray or CSR (n, p), of any real type, finite; duplicate entries of CSR are summed, see `canonical`
    y : ndarray (n,), in the encoding of the loss
    data_norm : float in [1e-100, 1e100] or None; rows of X longer than it are scaled down to it, and those longer than
        1e100 times it to 0
    constant : bool; append a column of ones, which counts in the norms
    block_bytes : int, size of the blocks in which X is processed
    """

    def __init__(
        self,
        X: FeatureMatrix,
        y: Any,
        *,
        data_norm: float | None = None,
        constant: bool = False,
        block_bytes: int = _BLOCK_BYTES,
    ) -> None:
        self.X: FeatureMatrix = canonical(X) if sparse.issparse(X) else plain("X", X)
        self.constant = constant
        self._block_bytes, self._shared = block_bytes, {}
        norms = np.concatenate([_norms_rounded_up(_rows(self.X, rows)) for rows in self._slices()])
        self.scale = None
        if data_norm is not None and (norms > magnitude("data_norm", data_norm)).any():
            # the reserve of 4 eps covers the rounding of the factor and of the product
            scale = data_norm / np.maximum(norms, data_norm) * (1 - 4 * _EPS)
            scale[scale < _SMALLEST_SCALE] = 0.0
            self.scale = np.where(norms > data_norm, scale, 1.0)
            norms = np.minimum(norms, data_norm)
        self.norms = np.hypot(norms, 1.0) * (1 + 4 * _EPS) if constant else norms
        self._set_targets(plain("y", y))

    @classmethod
    def of(cls, block: Block) -> Records:
        """The records of one block."""
        records = object.__new__(cls)
        records.__dict__.update(vars(block), _block_bytes=_BLOCK_BYTES, _shared={})
        records._set_targets(block.y)
        return records

    def _set_targets(self, y: Any) -> None:
        self.y: np.ndarray = y
        self._runs: dict[int, list[list[Block]]] = {}

    @property
    def n_records(self) -> int:
        """n."""
        return self.X.shape[0]

    @property
    def dimension(self) -> int:
        """d, the number of features plus the constant."""
        return self.X.shape[1] + self.constant

    def take(self, rows: slice | np.ndarray) -> Block:
        """The Block of `rows`, a slice (which copies nothing in double precision) or an integer array."""
        return self._block(rows).in_double()

    def sample(self, m: int, *, rng: np.random.Generator) -> Records:
        """m of the records, drawn without replacement, copied."""
        return Records.of(self.take(sampled_rows(self.n_records, m, rng=rng)))

    def total(self, function: Callable[..., tuple], *arguments: Any, least_rows: int = 1) -> tuple:
        """Sum over blocks of the tuple function(block, *arguments), entry by entry, in the order of the blocks.

        Blocks have at least `least_rows` rows, except the last. `function` may run in several threads at once.
        """
        if least_rows not in self._runs:
            blocks = [self._block(rows) for rows in self._slices(least_rows)]
            length = int(np.clip(len(blocks) // _LEAST_RUNS, 1, _LONGEST_RUN))
            self._runs[least_rows] = [blocks[i : i + length] for i in range(0, len(blocks), length)]
        runs = self._runs[least_rows]

        def part(run: list[Block]) -> tuple:
            with np.errstate(over="ignore", invalid="ignore"):  # in a record's terms before they are clipped
                return reduce(add_parts, (function(block.in_double(), *arguments) for block in run))

        if len(runs) == 1:
            return part(runs[0])
        enough = _BYTES_WORTH_THREADS if least_rows == 1 else _PRODUCTS_WORTH_THREADS
        with own_threads() as threads:
            return ordered_total(part, runs, threads=threads if 8 * self._n_values >= enough else 1)

    @property
    def _n_values(self) -> int:
        return self.X.nnz if sparse.issparse(self.X) else self.X.size

    def _slices(self, least_rows: int = 1) -> list[slice]:
        n = self.n_records
        rows = max(least_rows, int(self._block_bytes * n / max(8 * self._n_values, 1)))
        return [slice(start, min(start + rows, n)) for start in range(0, max(n, 1), rows)]

    def _block(self, rows: slice | np.ndarray) -> Block:
        scale = None if self.scale is None else self.scale[rows]
        return Block(_rows(self.X, rows), self.y[rows], self.norms[rows], scale, self.constant)


def largest_row_norm(X: FeatureMatrix) -> float:
    """The largest l2 norm of a row of X, ndarray or CSR."""
    return float(row_norms(X).max(initial=0.0))


def sampled_rows(n_records: int, m: int, *, rng: np.random.Generator) -> np.ndarray:
    """m of the numbers below n_records, drawn without replacement, in order: ndarray (m,)."""
    return np.sort(rng.choice(n_records, size=m, replace=False))


def canonical(X: FeatureMatrix) -> sparse.csr_array:
    """A sparse matrix as CSR with one entry for each non-zero number, in the order of the columns.

    Duplicate entries of a CSR, CSC or COO matrix are summed: (1e25, 1, -1e25) in one position is a row of norm 0, but
    added to other rows entry by entry it would cancel them. Single precision is kept, other types become doubles before
    anything is summed. Buffers that need no change are shared, others are copied; X is never changed.

    The input check of a learner and `Records` both call it: the bound on a record's gradient must not depend on what a
    caller has checked, and on a canonical matrix it takes a third of the time of one gradient.

    Raises ValueError for complex numbers and other types, for entries outside the matrix and for values without a
    position.
    """
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold real numbers: got a sparse matrix of {X.dtype}")
    given = X if X.format == "csr" else _verified(X)
    if given.dtype not in (np.float32, np.float64):
        given = given.astype(np.float64)
    given = sparse.csr_array(given)
    # rebuilt from the buffers: flags of X such as has_canonical_format may be wrong
    rows = sparse.csr_array((given.data, given.indices, given.indptr), shape=given.shape)
    rows.check_format(full_check=True)
    if not (rows.has_canonical_format and np.all(rows.data)):
        rows = rows.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            rows.sum_duplicates()
        rows.eliminate_zeros()
    return rows


def _verified(X: FeatureMatrix) -> FeatureMatrix:
    """X rebuilt from its buffers, with all indices checked: scipy's conversions do not check where they write.

    For formats other than CSR, before `canonical` converts them; it checks the resulting rows in the same way.
    """
    if X.format in ("csc", "bsr"):
        fresh = getattr(sparse, f"{X.format}_array")((X.data, X.indices, X.indptr), shape=X.shape)
        fresh.check_format(full_check=True)
        return fresh
    if X.format == "coo":
        return sparse.coo_array((X.data, X.coords), shape=X.shape)  # its constructor checks them
    if X.format == "lil":
        for row, (columns, values) in enumerate(zip(X.rows, X.data, strict=True)):
            if len(columns) != len(values) or max(columns, default=0) >= X.shape[1]:
                raise ValueError(
                    f"X must have a column for each value in a row of a LIL matrix, one of its {X.shape[1]}: "
                    f"got columns {shorten(columns)} and values {shorten(values)} in row {row}"
                )
        return X.tocsr()
    return X


def row_norms(X: FeatureMatrix) -> Array:
    """l2 norm of each row of a dense or canonical CSR matrix, in double precision, ndarray (n,).

    Accurate to rounding for all finite rows, however large or small; infinity where the norm itself overflows.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = _squares(X)
        norms = np.sqrt(squares)
        sure = (squares >= _SQUARES_TO_TRUST) & (squares < np.inf)
        if sparse.issparse(X):
            sure |= np.diff(X.indptr) == 0
        unsure = np.nonzero(~sure)[0]
        if unsure.size:
            rows = _rows(X, unsure).astype(float)
            largest = abs(rows).max(axis=1)
            largest = np.asarray(largest.todense()).ravel() if sparse.issparse(rows) else largest
            shift = np.where(largest > 0, np.frexp(largest)[1], 0)  # scales the largest entry into [1/2, 1)
            if sparse.issparse(rows):
                rows.data = np.ldexp(rows.data, -np.repeat(shift, np.diff(rows.indptr)))
            else:
                rows = np.ldexp(rows, -shift[:, None])
            norms[unsure] = np.ldexp(np.sqrt(_squares(rows)), shift)
    return norms


def _squares(X: FeatureMatrix) -> Array:
    """Sum of the squares in each row, in double precision, ndarray (n,)."""
    if sparse.issparse(X):
        X = X.astype(float)
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=float)


def _norms_rounded_up(X: FeatureMatrix) -> Array:
    """Upper bounds on the norms of rows: k squares, their sum and its root have an error of k + 2 half ulps."""
    entries = np.diff(X.indptr) if sparse.issparse(X) else X.shape[1]
    norms = row_norms(X)
    with np.errstate(over="ignore"):
        above = np.nextafter(norms * (1 + (entries + 8) * _EPS), np.inf)  # the next double, for subnormal norms
    return np.where(norms > 0, above, 0.0)


def _rows(X: FeatureMatrix, rows: slice | np.ndarray) -> FeatureMatrix:
    """X[rows]; a slice copies nothing, also for CSR."""
    if not (sparse.issparse(X) and isinstance(rows, slice)):
        return X[rows]
    start, stop, _ = rows.indices(X.shape[0])
    first, last = X.indptr[start], X.indptr[stop]
    part = sparse.csr_array((stop - start, X.shape[1]))
    part.data, part.indices = X.data[first:last], X.indices[first:last]  # the constructor copies short slices
    part.indptr = X.indptr[start : stop + 1] - first
    return part


def _plain_gram(block: Block) -> tuple[Array]:
    return (block.gram(np.ones(len(block.norms))),)


def _trace_and_row_sums(block: Block) -> tuple[Any, Array]:
    sizes = replace(block, X=abs(block.X))
    return block.norms @ block.norms, sizes.transposed_dot(sizes.dot(np.ones(block.X.shape[1] + block.constant)))
