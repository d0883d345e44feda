"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from mustdp.files.replacing import SHARED, replace_file


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file in one move and return its path; others may read it, as the umask says.

    Whoever reads the target sees the old content or the new one; when something goes wrong, the
    target stays as it was and nothing is left beside it. The folder must exist, and what is at the
    path must be a file and no link.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    return replace_file(path, data, mode=SHARED)
