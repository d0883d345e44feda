"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file in one move and return its path.

    The content goes to a temporary file beside the target, which then takes the target's place.
    Whoever reads the target sees the old content or the new one; when something goes wrong, the
    temporary file is removed and the target stays as it was. The folder must exist.
    """
    target = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    part = target.parent / f".{secrets.token_hex(8)}.part"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return target
