"""One application of a subsampled mechanism: Table S1 and Figures 3, 4, 5, S1 and S2."""
