"""Public names that a ``.pyi`` file lists and that are loaded when they are first used."""

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path


@cache
def listed_names(stub: Path) -> dict[str, tuple[str, str]]:
    """Module and name behind every public name of a stub.

    A stub has imports, and lines such as ``plot = _plots`` for a module under another name.
    """
    homes: dict[str, tuple[str, str]] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                homes |= {name.asname or name.name: (module, name.name) for name in names}
            case ast.Assign(targets=[ast.Name(id=public)], value=ast.Name(id=imported)):
                homes[public] = homes.pop(imported)
    return homes


def attach(module: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The functions ``__getattr__`` and ``__dir__`` of a module whose stub lists its names."""
    stub = Path(file).with_suffix(".pyi")

    def load(name: str) -> object:
        names = listed_names(stub)
        if name == "__all__":
            return sorted(names)
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, own = names[name]
        found = vars(import_module(home))
        value = found[own] if own in found else import_module(f"{home}.{own}")
        vars(import_module(module))[name] = value
        return value

    return load, lambda: sorted(listed_names(stub))
