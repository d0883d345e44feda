"""Classes of results and arguments that ``mustdp`` returns and takes, for annotations.

Listed once in ``types.pyi``; functions that make such objects are names of ``mustdp`` itself.
"""

from mustdp.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
