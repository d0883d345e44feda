"""Accounting inverted: noise, steps or batch for a target, always on the safe side."""

from mustdp.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
