"""The tables and figures of the MUST paper, computed again and judged cell by cell.

Public names that exist for the paper's sake are listed in ``__init__.pyi``.
"""

from mustdp.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
