"""Records in a Dask array, possibly on many machines: sums are computed where the rows are, only sums are transferred.

The only module of `learning` that imports dask (the extra `cluster`); it is imported when a fit gets a Dask array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
from dask.base import compute, get_scheduler, persist
from dask.delayed import delayed
from scipy import sparse
from sklearn.utils.validation import validate_data

from explorer.learning.records.blocks import AbstractRecords, Block, Records, canonical, largest_row_norm, sampled_rows
from explorer.learning.records.inputs import plain
from explorer.learning.records.threads import own_threads
from explorer.learning.types import Array, FeatureMatrix

_FAN_IN = 8  # of the tree of partial sums


class DaskRecords(AbstractRecords):
    """Records in a Dask array, in blocks within its chunks of rows, without access to single records.

    With a dask.distributed client X stays in the workers' memory; a local scheduler recomputes its chunks in each pass,
    so that X may be larger than memory. Targets and norms are kept in memory in both cases.

    Parameters
    ----------
    X : dask array (n, p) whose chunks hold whole rows, dense or CSR, of any real type; their sizes may be unknown
    y : dask array (n,) with the chunks of X, in the encoding of the loss
    data_norm, constant : as in `Records`
    """

    def __init__(self, X: da.Array, y: da.Array, *, data_norm: float | None = None, constant: bool = False) -> None:
        self.constant, self._p, self._shared = constant, int(X.shape[1]), {}
        self._X = _chunks(X)
        prepare = delayed(_prepared, pure=False)
        targets = _parts(y)
        self._rest = persist(*map(prepare, self._X, targets, [data_norm] * len(targets), [constant] * len(targets)))
        lengths = delayed(lambda rest: len(rest[0]), pure=False)
        self._sizes = np.array(compute(*map(lengths, self._rest)))

    def _set_targets(self, y: da.Array) -> None:
        other = delayed(lambda rest, y: (y, *rest[1:]), pure=False)
        self._rest = persist(*map(other, self._rest, _parts(y)))

    @property
    def n_records(self) -> int:
        """n."""
        return int(self._sizes.sum())

    @property
    def dimension(self) -> int:
        """d, the number of features plus the constant."""
        return self._p + self.constant

    def sample(self, m: int, *, rng: np.random.Generator) -> Records:
        """m of the records, drawn without replacement, in local memory; the same ones as `Records.sample` draws."""
        drawn, ends = sampled_rows(self.n_records, m, rng=rng), np.cumsum(self._sizes)
        parts = np.split(drawn, np.searchsorted(drawn, ends[:-1]))
        rows = [part - start for part, start in zip(parts, ends - self._sizes, strict=True)]
        take = delayed(_taken, pure=False)
        parts = compute(*map(take, self._X, self._rest, rows, [self.constant] * len(rows)))
        blocks = [part.X for part in parts]
        X = sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)
        y, norms, scale = (np.concatenate([getattr(part, name) for part in parts]) for name in ("y", "norms", "scale"))
        return Records.of(Block(X, y, norms, scale, self.constant))

    def total(self, function: Callable[..., tuple], *arguments: Any, least_rows: int = 1) -> tuple:
        """Sum over blocks of the tuple function(block, *arguments), entry by entry, in a tree of fixed shape.

        Within a chunk, the blocks are those of `Records`.
        """
        leaf, add = delayed(_total, pure=False), delayed(_sum, pure=False)
        task = delayed((function, arguments, least_rows, self.constant), traverse=False, pure=False)
        sums = [leaf(X, rest, task) for X, rest in zip(self._X, self._rest, strict=True)]
        while len(sums) > 1:
            sums = [add(sums[i : i + _FAN_IN]) for i in range(0, len(sums), _FAN_IN)]
        with own_threads():  # a local scheduler runs threads of its own
            return sums[0].compute()


def validated(estimator: Any, X: Any, y: Any, vector: Callable[[Any], np.ndarray]) -> tuple[da.Array, da.Array]:
    """X and y as dask arrays with the same chunks of rows of known sizes; sets the estimator's n_features_in_.

    One pass over X. y may be a dask array or anything that `vector`, a function of `explorer.learning.records.inputs`,
    converts; a y of dtype object is converted in local memory. Raises ValueError unless X is a finite real matrix and
    y a vector of equally many finite numbers, or labels.
    """
    if not (isinstance(X, da.Array) and X.ndim == 2 and X.dtype.kind in "biuf" and X.shape[1] > 0):
        hint = "; X.to_dask_array(lengths=True) converts a DataFrame" if hasattr(X, "to_dask_array") else ""
        raise ValueError(f"X must be a dask array of real numbers with two dimensions and columns{hint}: got {X!r}")
    # the type of X is inferred from scikit-learn's default, a string
    validate_data(estimator, X, y, skip_check_array=True)  # pyright: ignore[reportArgumentType]
    if X.numblocks[1] > 1:  # scipy concatenates chunks without checking them
        X = X.map_blocks(_chunk, dtype=X.dtype, meta=X._meta).rechunk({1: -1})
    X = _on_workers(X)
    if np.isnan(X.shape[0]):
        X = X.copy().compute_chunk_sizes()
    if not X.shape[0]:
        raise ValueError("X must have rows: got 0 sample(s)")
    if not all(compute(*map(delayed(_finite, pure=False), _chunks(X)))):
        raise ValueError("X must be finite: Input X contains NaN or infinity")
    return X, _vector(y, X.chunks[0], vector)


def largest_norm_of_chunks(X: da.Array) -> float:
    """`largest_norm` of a Dask array."""
    return max(compute(*map(delayed(largest_row_norm, pure=False), _chunks(X))))


def _vector(y: Any, sizes: tuple[int, ...], vector: Callable[[Any], np.ndarray]) -> da.Array:
    """y checked, persisted, in chunks of these sizes and of the type that `vector` gives the whole."""
    if not isinstance(y, da.Array) or y.dtype == object:
        y = da.from_array(vector(y), chunks=-1)  # pyright: ignore[reportArgumentType] (the default is a string)
    if y.ndim != 1:
        raise ValueError(f"y must be a vector: got {y!r}")
    meta = vector(np.empty(0, y.dtype))
    y = y.map_blocks(_as_declared, y.dtype, meta.dtype, meta=meta)
    if y.dtype.kind == "f":
        y = y.astype(float)  # before the check for finite numbers: a wider type may overflow
    if np.isnan(y.shape[0]):
        y = y.persist().compute_chunk_sizes()
    if y.shape[0] != sum(sizes):
        raise ValueError(f"X and y must have as many rows: got {sum(sizes)} and {y.shape[0]}")
    y = y.rechunk((sizes,)).persist()
    if y.dtype.kind == "f" and not da.isfinite(y).all().compute():
        raise ValueError("y must be finite: Input y contains NaN or infinity")
    return y


def _distributed() -> bool:
    return hasattr(get_scheduler(), "__self__")  # a method of a client; local schedulers are functions


def _on_workers(X: da.Array) -> da.Array:
    """X, in the workers' memory if a dask.distributed client is the scheduler."""
    return X.persist() if _distributed() else X


def _parts(array: Any) -> Any:
    """The chunks of rows as delayed objects. (Optimising the graph would lose the chunks persisted on workers.)"""
    return array.to_delayed(optimize_graph=not _distributed()).ravel()


def _chunks(X: da.Array) -> Any:
    """The chunks of rows of X as delayed canonical CSR matrices or arrays."""
    chunks = list(map(delayed(_chunk, pure=False), _parts(_on_workers(X))))
    return persist(*chunks) if _distributed() else chunks


def _chunk(part: Any) -> FeatureMatrix:
    if sparse.issparse(part):
        return canonical(part)
    part = plain("X", part)
    if part.dtype.kind not in "biuf":
        raise ValueError(f"X must hold real numbers: got a chunk of {part.dtype}")
    return part if part.dtype.itemsize <= 8 else part.astype(float)  # a wider type may overflow


def _as_declared(part: Any, declared: np.dtype, dtype: np.dtype) -> np.ndarray:
    """A chunk of y as `dtype`; dask does not check that chunks have the type that the whole array declares."""
    part = plain("y", part)
    if part.dtype.kind == declared.kind and declared.kind not in "biuf":
        return part
    if not {part.dtype.kind, declared.kind} <= set("biuf"):
        raise ValueError(f"y must hold {declared} in all chunks: got a chunk of {part.dtype}")
    with np.errstate(over="ignore"):  # checked afterwards
        return part.astype(declared, copy=False).astype(dtype, copy=False)


def _prepared(
    X: FeatureMatrix, y: np.ndarray, data_norm: float | None, constant: bool
) -> tuple[np.ndarray, Array, Array | None]:
    records = Records(X, y, data_norm=data_norm, constant=constant)
    return records.y, records.norms, records.scale


def _taken(X: FeatureMatrix, rest: tuple[np.ndarray, Array, Array | None], rows: np.ndarray, constant: bool) -> Block:
    block = Records.of(Block(X, *rest, constant)).take(rows)
    return block if block.scale is not None else replace(block, scale=np.ones(len(rows)))


def _total(X: FeatureMatrix, rest: tuple[np.ndarray, Array, Array | None], task: tuple) -> tuple:
    function, arguments, least_rows, constant = task
    return Records.of(Block(X, *rest, constant)).total(function, *arguments, least_rows=least_rows)


def _sum(parts: list[tuple]) -> tuple:
    return tuple(sum(column) for column in zip(*parts, strict=True))


def _finite(part: Any) -> bool:
    part = part.data if sparse.issparse(part) else part
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(part.sum()) or np.isfinite(part).all())  # a finite sum has finite terms
