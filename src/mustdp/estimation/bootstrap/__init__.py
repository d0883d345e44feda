"""The private bootstrap: statistics on random subsets, released with noise."""
