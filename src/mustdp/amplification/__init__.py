"""Profiles of subsampled mechanisms: the paper's amplification and the tight certificate."""
