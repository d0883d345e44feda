"""Certified privacy of results computed on random subsamples.

Everything people call is a name of this package (``import mustdp as md``), listed once in
``__init__.pyi``. The modules behind the names are loaded when a name is first used, so that
importing the package costs next to nothing.
"""

import ast
from functools import cache
from importlib import import_module
from pathlib import Path

from mustdp.accounting.methods import register_method as _register_method
from mustdp.version import __version__ as __version__

_register_method("paper", "mustdp.reproduction.paper_account:paper_account")


@cache
def _homes():
    """Module and name behind every public name, as the list has them."""
    listed = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in listed.body if isinstance(node, ast.ImportFrom))
    homes = {name.asname: (node.module, name.name) for node in imports for name in node.names}
    homes["plot"] = homes.pop("_plots")  # a module under a public name of its own
    return homes


def __getattr__(name):
    if name == "__all__":
        return sorted(_homes())
    if name.startswith("_") or name not in _homes():
        raise AttributeError(f"module 'mustdp' has no attribute {name!r}")
    home, original = _homes()[name]
    if name == "plot":
        value = import_module(f"{home}.{original}")
    else:
        value = getattr(import_module(home), original)
    globals()[name] = value
    return value


def __dir__():
    return sorted(_homes())
