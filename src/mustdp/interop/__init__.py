"""Other libraries' plans, accountants and loops, each behind its own extra."""

from mustdp.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
