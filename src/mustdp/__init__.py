"""Certified privacy of results computed on random subsamples.

What people call is a name of this package (``import mustdp as md``), listed once in
``__init__.pyi``; classes of results and arguments are in ``mustdp.types``, what is needed less
often in ``mustdp.calibration``, ``estimation``, ``data`` and ``training``. The modules behind the
names are loaded when a name is first used, so that importing the package costs next to nothing.
"""

from mustdp.accounting import FURTHER_METHODS
from mustdp.lazy import attach
from mustdp.version import __version__ as __version__

FURTHER_METHODS["paper"] = "mustdp.reproduction.paper_account:paper_account"
del FURTHER_METHODS

__getattr__, __dir__ = attach(__name__, __file__)
