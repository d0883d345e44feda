"""Private estimates with intervals: one release on all records, or a bootstrap."""

from mustdp.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
