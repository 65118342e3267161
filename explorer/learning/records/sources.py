"""Which records a learner reads: of arrays in memory or on disk, or of Dask's chunks."""

from explorer.learning.records.blocks import Records, largest_row_norm
from explorer.learning.records.inputs import is_dask


def records_of(X, y, *, data_norm, constant):
    """`Records`, or `DaskRecords` of a Dask array."""
    if is_dask(X):
        from explorer.learning.records.dask_records import DaskRecords  # dask is an extra

        return DaskRecords(X, y, data_norm=data_norm, constant=constant)
    return Records(X, y, data_norm=data_norm, constant=constant)


def largest_norm(X):
    """The largest l2 norm of a row of X, ndarray, CSR or Dask array with rows: float."""
    if is_dask(X):
        from explorer.learning.records.dask_records import largest_norm_of_chunks  # dask is an extra

        return largest_norm_of_chunks(X)
    return largest_row_norm(X)
