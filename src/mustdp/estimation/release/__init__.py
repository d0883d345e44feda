"""One noisy release on all records: statistics, groups, intervals."""
