"""A progress bar on standard error, and only there, and only if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(total: int | None = None, doing: str = "") -> Iterator[Callable[[str], None]]:
    """Show a bar while the block runs; call what it gives with the name of each part begun.

    Without ``total`` the bar only shows that work is going on. It is gone when the block ends.
    """
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda name: None
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=sys.stderr, highlight=False, emoji=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        task = bar.add_task(doing, total=total)
        begun = 0

        def begin(name: str) -> None:
            nonlocal begun
            bar.update(task, description=name, completed=begun)
            begun += 1

        yield begin
