"""Access to records in blocks of rows: in memory, in memory-mapped files or in Dask arrays."""
