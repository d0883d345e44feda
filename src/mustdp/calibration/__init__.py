"""Accounting inverted: noise, steps or batch for a target, always on the safe side."""
