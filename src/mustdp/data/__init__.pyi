"""Data that is opened before it is released, once each."""

from mustdp.data.dask import open_partitioned as open_partitioned
