"""Which test files import internals: names of mustdp that no public module offers.

    python benchmarks/internals.py            how many, by package
    python benchmarks/internals.py --names    every such file with its names
    python benchmarks/internals.py --most     the names that most files take

A test that takes public names survives a restructuring. A name is internal where it comes from a
module that is not public, or from a file of the tests that only hands it on; a path given as text,
as to monkeypatch, counts too. What ``tests/seams.py`` offers does not: it is one file to change.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src", ROOT / "tests"
#: Modules whose names are public. Below ``interop``, every bridge is a module of its own.
PUBLIC = {
    "mustdp",
    "mustdp.calibration",
    "mustdp.cli.main",  # the program, of which only ``main`` is public
    "mustdp.data",
    "mustdp.errors",
    "mustdp.estimation",
    "mustdp.interop",
    "mustdp.reporting.plots",  # ``md.plot``
    "mustdp.reproduction",
    "mustdp.training",
    "mustdp.types",
}
INTEROP = {f"mustdp.interop.{path.stem}" for path in (SOURCE / "mustdp/interop").iterdir()}


def public_names(module: str) -> set[str] | None:
    """The names a public module offers; None where all of them are."""
    if module in INTEROP or module in ("mustdp.errors", "mustdp.reporting.plots"):
        return None
    if module == "mustdp.cli.main":
        return {"main"}
    stub = SOURCE / module.replace(".", "/") / "__init__.pyi"
    stub = stub if stub.is_file() else SOURCE / (module.replace(".", "/") + ".pyi")
    names = set()
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


OFFERED = {module: public_names(module) for module in PUBLIC | INTEROP}


def is_public(module: str, name: str) -> bool:
    """Whether ``from module import name`` takes a public name."""
    if f"{module}.{name}" in OFFERED:
        return True
    return module in OFFERED and ((names := OFFERED[module]) is None or name in names)


def imported(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Module, name and local name of every import; a whole module has the name ''."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.module, alias.name, alias.asname or alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, "", alias.asname or alias.name


def internals(path: Path) -> set[str]:
    """The internal names that a file of the tests takes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for module, name, _ in imported(tree):
        if module.split(".")[0] == "mustdp":
            public = is_public(module, name) if name else module in OFFERED
            if not public:
                found.add(f"{module}.{name}" if name else module)
        elif module.split(".")[0] == "tests" and name:
            found |= passed_on(module, name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            module, _, name = node.value.rpartition(".")
            if re.fullmatch(r"mustdp(\.\w+)+", node.value) and not (
                node.value in OFFERED or is_public(module, name)
            ):
                found.add(node.value)
    return found


def passed_on(module: str, name: str) -> set[str]:
    """An internal name that a shared file of the tests only hands on."""
    path = ROOT / (module.replace(".", "/") + ".py")
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        f"{source}.{given}"
        for source, given, local in imported(tree)
        if local == name and source.split(".")[0] == "mustdp" and not is_public(source, given)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="which test files import internals")
    parser.add_argument("--names", action="store_true", help="every file with its names")
    parser.add_argument("--most", action="store_true", help="the names taken most often")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object: the number of files, and their names"
    )
    arguments = parser.parse_args()
    files = sorted(TESTS.rglob("test_*.py"))
    taken = {path: internals(path) for path in files}
    by_package: Counter[str] = Counter()
    total: Counter[str] = Counter()
    if arguments.json:
        names_of = {str(path.relative_to(ROOT)): sorted(names) for path, names in taken.items()}
        print(json.dumps({"files": len(files), "internals": names_of}))
        return
    for path, names in taken.items():
        package = path.relative_to(TESTS).parts[0]
        total[package] += 1
        by_package[package] += bool(names)
        if arguments.names and names:
            print(path.relative_to(ROOT), *sorted(names))
    if arguments.most:
        most = Counter(name for names in taken.values() for name in names)
        for name, count in most.most_common():
            print(f"{count:4d} {name}")
    for package in sorted(total, key=lambda each: (each.endswith(".py"), each)):
        print(f"{package:24s} {by_package[package]:4d} of {total[package]:4d}")
    count = sum(bool(names) for names in taken.values())
    print(f"{'all':24s} {count:4d} of {len(files):4d}")


if __name__ == "__main__":
    main()
