"""Epochs: random allocation and shuffling, from above and from below."""
