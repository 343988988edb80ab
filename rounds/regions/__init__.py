"""Region subproblems of `geo`, solved in parallel: here, in local processes, or on Dask."""
