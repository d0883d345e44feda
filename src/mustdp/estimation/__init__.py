"""Private estimates with intervals: one release on all records, or a bootstrap."""
