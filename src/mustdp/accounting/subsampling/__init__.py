"""One application of a subsampled mechanism: certificates and attained values."""
