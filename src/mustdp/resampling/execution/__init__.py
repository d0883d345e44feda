"""Computing the exact query vectors of a design: in this process, in several, or on Dask."""
