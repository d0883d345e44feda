"""A progress bar on standard error, and only there, and only if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mustdp.progress import Progress


@contextmanager
def progress(doing: str = "") -> Iterator[Progress]:
    """Show a bar while the block runs; what it gives moves the bar.

    Until it hears of a total the bar only shows that work is going on. It is gone when the block
    ends.
    """
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda what, done=0, total=None: None
        return

    from rich import progress as rich
    from rich.console import Console

    console = Console(file=sys.stderr, highlight=False, emoji=False)
    words = rich.TextColumn("{task.description}", markup=False)
    columns = (words, rich.BarColumn(), rich.TimeElapsedColumn())
    with rich.Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        task = bar.add_task(doing, total=None)

        def move(what: str, done: int = 0, total: int | None = None, /) -> None:
            words = what if total is None else f"{what}: {done} of {total}"
            bar.update(task, description=words, completed=done, total=total)

        yield move
