"""A page on this machine that answers while sliders move: every scheme side by side."""

from mustdp.explorer.server import Explorer

__all__ = ["Explorer"]
