"""Reading tables: CSV, Parquet, data frames; columns, missing values, categories."""
