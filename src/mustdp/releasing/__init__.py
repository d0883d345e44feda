"""One noisy release on all records, without resampling: estimates with intervals."""
