"""Experiment 1: the subsampled bootstrap, Tables 2 and 3."""
