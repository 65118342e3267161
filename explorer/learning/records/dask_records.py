"""Records in a Dask array, perhaps on many machines: sums are computed where the rows are, and only sums travel.

The only module here that needs dask (the extra `cluster`); it is imported when a fit meets a Dask array.
"""

from dataclasses import replace

import dask
import dask.array as da
import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from explorer.learning.records.blocks import Block, BlockedRecords, Records, canonical, largest_row_norm, sampled_rows
from explorer.learning.records.inputs import plain
from explorer.learning.records.threads import own_threads

_FAN_IN = 8  # of the tree of sums


class DaskRecords(BlockedRecords):
    """Records in a Dask array, in the blocks of its chunks of rows. There is no access to single records.

    With a dask.distributed client X stays in the workers' memory; a local scheduler computes its chunks anew in each
    pass, so that X may be larger than the memory. Targets and norms are kept either way.

    Parameters
    ----------
    X : dask array (n, p) whose chunks hold whole rows, dense or CSR, of any real type; their numbers may be unknown
    y : dask array (n,) with the chunks of X, in the loss's own encoding
    data_norm, constant : as in `Records`
    """

    def __init__(self, X, y, *, data_norm=None, constant=False):
        self.constant, self._p, self._shared = constant, X.shape[1], {}
        self._X = _chunks(X)
        prepare = dask.delayed(_prepared, pure=False)
        targets = _parts(y)
        self._rest = dask.persist(
            *map(prepare, self._X, targets, [data_norm] * len(targets), [constant] * len(targets))
        )
        lengths = dask.delayed(lambda rest: len(rest[0]), pure=False)
        self._sizes = np.array(dask.compute(*map(lengths, self._rest)))

    def _set_targets(self, y):
        other = dask.delayed(lambda rest, y: (y, *rest[1:]), pure=False)
        self._rest = dask.persist(*map(other, self._rest, _parts(y)))

    @property
    def n_records(self):
        """n."""
        return int(self._sizes.sum())

    @property
    def dimension(self):
        """d, the number of features and the constant."""
        return self._p + self.constant

    def sample(self, m, *, rng):
        """m of the records, drawn without replacement, brought here: Records; the ones that `Records.sample` takes."""
        drawn, ends = sampled_rows(self.n_records, m, rng=rng), np.cumsum(self._sizes)
        parts = np.split(drawn, np.searchsorted(drawn, ends[:-1]))
        rows = [part - start for part, start in zip(parts, ends - self._sizes, strict=True)]
        take = dask.delayed(_taken, pure=False)
        parts = dask.compute(*map(take, self._X, self._rest, rows, [self.constant] * len(rows)))
        X = [part.X for part in parts]
        X = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X)
        y, norms, scale = (np.concatenate([getattr(part, name) for part in parts]) for name in ("y", "norms", "scale"))
        return Records.of(Block(X, y, norms, scale, self.constant))

    def total(self, function, *arguments, least_rows=1):
        """Sum over blocks of the tuple function(block, *arguments), entry by entry, by a tree of fixed shape.

        Within a chunk, blocks are those of `Records`.
        """
        leaf, add = dask.delayed(_total, pure=False), dask.delayed(_sum, pure=False)
        task = dask.delayed((function, arguments, least_rows, self.constant), traverse=False, pure=False)
        sums = [leaf(X, rest, task) for X, rest in zip(self._X, self._rest, strict=True)]
        while len(sums) > 1:
            sums = [add(sums[i : i + _FAN_IN]) for i in range(0, len(sums), _FAN_IN)]
        with own_threads():  # a local scheduler brings its own
            return sums[0].compute()


def validated(estimator, X, y, vector):
    """X and y as dask arrays with the same chunks of rows of known sizes; sets the estimator's n_features_in_.

    One pass over X. y may be a dask array or anything that `vector`, of `explorer.learning.records.inputs`, makes an
    array of; it is brought here where each entry has a type of its own. Raises ValueError unless X is a finite real
    matrix and y a vector of as many finite numbers, or labels.
    """
    if not (isinstance(X, da.Array) and X.ndim == 2 and X.dtype.kind in "biuf" and X.shape[1] > 0):
        raise ValueError(f"X must be a dask array of real numbers with two dimensions and columns: got {X!r}")
    validate_data(estimator, X, y, skip_check_array=True)
    if X.numblocks[1] > 1:  # scipy puts them together as they are
        X = X.map_blocks(_chunk, dtype=X.dtype, meta=X._meta).rechunk({1: -1})
    X = _on_workers(X)
    if np.isnan(X.shape[0]):
        X = X.copy().compute_chunk_sizes()
    if not X.shape[0]:
        raise ValueError("X must have rows: got 0 sample(s)")
    if not all(dask.compute(*map(dask.delayed(_finite, pure=False), _chunks(X)))):
        raise ValueError("X must be finite: Input X contains NaN or infinity")
    return X, _vector(y, X.chunks[0], vector)


def largest_norm_of_chunks(X):
    """`largest_norm` of a Dask array."""
    return max(dask.compute(*map(dask.delayed(largest_row_norm, pure=False), _chunks(X))))


def _vector(y, sizes, vector):
    """y in chunks of these sizes, kept in memory; checked."""
    if not isinstance(y, da.Array) or y.dtype == object:
        y = da.from_array(vector(y), chunks=-1)
    if y.ndim != 1:
        raise ValueError(f"y must be a vector: got {y!r}")
    y = y.map_blocks(_as_announced, y.dtype, meta=vector(np.empty(0, y.dtype)))
    if y.dtype.kind == "f":
        y = y.astype(float)  # before it is checked: a wider type holds numbers that are infinite as doubles
    if np.isnan(y.shape[0]):
        y = y.persist().compute_chunk_sizes()
    if y.shape[0] != sum(sizes):
        raise ValueError(f"X and y must have as many rows: got {sum(sizes)} and {y.shape[0]}")
    y = y.rechunk((sizes,)).persist()
    if y.dtype.kind == "f" and not da.isfinite(y).all().compute():
        raise ValueError("y must be finite: Input y contains NaN or infinity")
    return y


def _client_in_charge():
    return hasattr(dask.base.get_scheduler(), "__self__")  # the method of an object, unlike local schedulers


def _on_workers(X):
    """X, in the workers' memory if a dask.distributed client is in charge."""
    return X.persist() if _client_in_charge() else X


def _parts(array):
    """The chunks of rows as delayed objects. (An optimised graph would forget that they hold data on workers.)"""
    return array.to_delayed(optimize_graph=not _client_in_charge()).ravel()


def _chunks(X):
    """The chunks of rows of X as delayed CSR matrices or arrays, of which the sums of the entries are what counts."""
    chunks = list(map(dask.delayed(_chunk, pure=False), _parts(_on_workers(X))))
    return dask.persist(*chunks) if _client_in_charge() else chunks


def _chunk(part):
    if sparse.issparse(part):
        return canonical(part)
    part = plain("X", part)
    if part.dtype.kind not in "biuf":
        raise ValueError(f"X must hold real numbers: got a chunk of {part.dtype}")
    return part if part.dtype.itemsize <= 8 else part.astype(float)  # a wider type may be infinite as doubles


def _as_announced(part, dtype):
    """A chunk of y in the type of the whole, for which dask takes its maker's word: no chunk decides others' type."""
    part = plain("y", part)
    if part.dtype.kind == dtype.kind and dtype.kind not in "biuf":
        return part
    if not {part.dtype.kind, dtype.kind} <= set("biuf"):
        raise ValueError(f"y must hold {dtype} in all chunks: got a chunk of {part.dtype}")
    return part.astype(dtype, copy=False)


def _prepared(X, y, data_norm, constant):
    records = Records(X, y, data_norm=data_norm, constant=constant)
    return records.y, records.norms, records.scale


def _taken(X, rest, rows, constant):
    block = Records.of(Block(X, *rest, constant)).take(rows)
    return block if block.scale is not None else replace(block, scale=np.ones(len(rows)))


def _total(X, rest, task):
    function, arguments, least_rows, constant = task
    return Records.of(Block(X, *rest, constant)).total(function, *arguments, least_rows=least_rows)


def _sum(parts):
    return tuple(sum(column) for column in zip(*parts, strict=True))


def _finite(part):
    part = part.data if sparse.issparse(part) else part
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(part.sum()) or np.isfinite(part).all())  # the sum alone where it settles the matter
