"""Where the records are: arrays, frames, Arrow tables, CSV and Parquet files, all alike."""
