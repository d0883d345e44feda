"""Certified privacy of results computed on random subsamples.

What people call is a name of this package (``import mustdp as md``), listed once in
``__init__.pyi``; classes of results and arguments are in ``mustdp.types``. The modules behind the
names are loaded when a name is first used, so that importing the package costs next to nothing.
"""

from mustdp.accounting.methods import register_method
from mustdp.lazy import attach
from mustdp.version import __version__ as __version__

register_method("paper", "mustdp.reproduction.paper_account:paper_account")
del register_method

__getattr__, __dir__ = attach(__name__, __file__)
