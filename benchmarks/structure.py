"""How large the package is, and how many of its files one answer needs.

    python benchmarks/structure.py           tables
    python benchmarks/structure.py --json    one JSON object
    python benchmarks/structure.py --files   with the files behind each answer

A file counts for an answer if the body of one of its functions runs while the answer is
computed. What runs only because a module is imported (class bodies, decorators, registration)
does not count. Every answer is computed in a process of its own, so that no cache of another
answer hides a file.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "mustdp"
#: Where modules are loaded: what a module runs when it is imported does not count.
IMPORTING = "importlib._bootstrap"


def account() -> object:
    """The account of the README."""
    import mustdp as md

    step = md.subsample(md.wor(n=10_000, m=200), md.gaussian(noise_multiplier=3.0))
    return md.account(md.repeat(1000, step)).epsilon(delta=1e-5)


def private_release() -> object:
    """A mean of a column of a data frame, released once."""
    import mustdp as md

    return md.private_release(
        people(), columns="hours", lower=0, upper=80, statistics="mean", epsilon=0.5, delta=1e-6
    )


def private_bootstrap() -> object:
    """A mean of a column of a data frame, with the interval of a private bootstrap."""
    import mustdp as md

    data = people()
    return md.private_bootstrap(
        data,
        "mean",
        columns="hours",
        lower=0,
        upper=80,
        design=md.wor(n=len(data), m=100),
        replicates=50,
        epsilon=0.5,
        delta=1e-6,
    )


ANSWERS: dict[str, Callable[[], object]] = {
    "account": account,
    "private_release": private_release,
    "private_bootstrap": private_bootstrap,
}


def people() -> Any:
    import pandas as pd

    return pd.read_csv(ROOT / "examples" / "people.csv")


def files_that_run(answer: Callable[[], object]) -> list[str]:
    """Files of the package in which a function runs while an answer is computed."""
    seen: set[str] = set()
    known: dict[Any, str | None] = {}

    def importing(frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code.co_filename.startswith(f"<frozen {IMPORTING}"):
                return True
            frame = frame.f_back
        return False

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in known:
            path = Path(code.co_filename)
            inside = SOURCE in path.parents and not code.co_name.startswith("<module")
            known[code] = str(path.relative_to(SOURCE)) if inside else None
        name = known[code]
        if name is not None and name not in seen and not importing(frame):
            seen.add(name)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        answer()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(seen)


def in_own_process(answer: str) -> list[str]:
    command = [sys.executable, __file__, "--answer", answer]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[str] = json.loads(done.stdout)
    return found


def code_lines(text: str) -> int:
    """Lines of code without blank lines, comments and docstrings."""
    tree = ast.parse(text)
    lines: set[int] = set()
    documented: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())) as first, *_]:
                    documented |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        if isinstance(node, ast.expr | ast.stmt):
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    rows = text.splitlines()
    bare = {k for k in lines if rows[k - 1].strip() and not rows[k - 1].lstrip().startswith("#")}
    return len(bare - documented)


def sizes() -> dict[str, dict[str, int]]:
    """Files, lines and lines of code of every package; single modules are gathered under "."."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    code: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name == "_version.py":  # made by the build
            continue
        inside = path.relative_to(SOURCE)
        package = inside.parts[0] if len(inside.parts) > 1 else "."
        text = path.read_text(encoding="utf-8")
        files[package] += 1
        lines[package] += len(text.splitlines())
        code[package] += code_lines(text)
    return {
        name: {"files": files[name], "lines": lines[name], "code": code[name]}
        for name in sorted(files)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--files", action="store_true", help="list the files behind each answer")
    parser.add_argument("--answer", choices=ANSWERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        print(json.dumps(files_that_run(ANSWERS[options.answer])))
        return
    packages = sizes()
    total = {key: sum(row[key] for row in packages.values()) for key in ("files", "lines", "code")}
    answers = {name: in_own_process(name) for name in ANSWERS}
    if options.json:
        print(json.dumps({"packages": packages, "total": total, "answers": answers}, indent=2))
        return
    table = Table("package", "files", "lines", "of code")
    for name, row in [*packages.items(), ("total", total)]:
        table.add_row(name, *(f"{row[key]:,}" for key in ("files", "lines", "code")))
    console = Console()
    console.print(table)
    table = Table("answer", "files that run")
    for name, files in answers.items():
        table.add_row(name, "\n".join([str(len(files)), *(files if options.files else [])]))
    console.print(table)


if __name__ == "__main__":
    main()
