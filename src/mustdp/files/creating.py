"""A new file that appears complete, or not at all, for contents that somebody else writes.

The content goes to a part file of the same folder, which is filled by its name (a database, say,
that a library writes) and then linked to the target: that fails if anything is there by now, so
nothing is ever replaced. What a killed process left is removed by the next one, the second name of
a file that it had just put in place included.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mustdp.files.parts import Part, sweep
from mustdp.files.replacing import PRIVATE, flush_folder, refuse_other_than_files


def create_file(path: str | os.PathLike[str], fill: Callable[[Path], None]) -> bool:
    """Make a private file of what ``fill`` writes into the (empty) file it is given.

    False if a file was there or came first: then that one is left as it is.
    """
    target = Path(path)
    refuse_other_than_files(target)
    if target.exists():
        return False
    sweep(target)
    part = Part(target)
    try:
        part.open(PRIVATE)
        fill(part.path)
        os.fsync(part.handle)
        os.link(part.path, target, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        part.discard()
        part.close()
    flush_folder(target.parent)
    return True


def drop_second_names(path: str | os.PathLike[str]) -> None:
    """Remove the names of parts that lead to the file itself."""
    target = Path(path)
    with suppress(OSError):
        here = os.lstat(target)
        if here.st_nlink < 2:
            return
        for each in target.parent.glob(f".{target.name}.*.part"):
            if os.path.samestat(here, os.lstat(each)):
                os.unlink(each)
