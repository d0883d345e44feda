"""Data sets of the examples and experiments: from a folder, from OpenML, or embedded."""
