"""Reading tables: CSV, Parquet, data frames; columns, missing values, categories."""

from mustdp.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
