"""Access to records in memory, in a memory-mapped file or in a Dask array, by the type of X."""

from explorer.learning.records.blocks import AbstractRecords, Records, largest_row_norm
from explorer.learning.records.inputs import is_dask
from explorer.learning.types import FeatureMatrix


def records_of(X: FeatureMatrix, y: FeatureMatrix, *, data_norm: float | None, constant: bool) -> AbstractRecords:
    """`DaskRecords` of a Dask array, `Records` of anything else."""
    if is_dask(X):
        from explorer.learning.records.dask_records import DaskRecords  # dask is an optional dependency

        return DaskRecords(X, y, data_norm=data_norm, constant=constant)
    return Records(X, y, data_norm=data_norm, constant=constant)


def largest_norm(X: FeatureMatrix) -> float:
    """The largest l2 norm of a row of X, ndarray, CSR or Dask array with rows."""
    if is_dask(X):
        from explorer.learning.records.dask_records import largest_norm_of_chunks  # dask is an optional dependency

        return largest_norm_of_chunks(X)
    return largest_row_norm(X)
