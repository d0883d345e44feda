"""Train with any sampling scheme: draw, clip, add noise, and be charged for what was drawn."""

from mustdp.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
