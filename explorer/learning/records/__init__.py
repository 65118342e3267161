"""Records as the learners read them: rows in blocks, from memory, from files or from Dask."""
