"""Files of a data set: found in a folder that the user names, read whole, and checked."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path

from mustdp.errors import InvalidParameter


def read_published(folder: Path, name: str, sha256: str | None) -> bytes:
    """The content of ``name`` or ``name``.gz in ``folder``, unpacked, with its checksum checked."""
    plain, packed = folder / name, folder / f"{name}.gz"
    path = plain if plain.is_file() else packed
    try:
        content = path.read_bytes()
        if path is packed:
            content = gzip.decompress(content)
    except FileNotFoundError:
        raise InvalidParameter.refusing(
            "data", f"must be a folder with {name} or {name}.gz in it", repr(str(folder))
        ) from None
    except (OSError, EOFError, zlib.error) as problem:
        raise InvalidParameter(f"{path} must be readable and undamaged: {problem}") from None
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise InvalidParameter(
            f"{path} must be the file as published, got other contents: its SHA-256 differs"
        )
    return content


def find_folder(data: str | os.PathLike[str], subfolder: str, wanted: str) -> Path:
    """``data`` or ``data``/``subfolder``, whichever holds ``wanted`` (plain or .gz)."""
    top = Path(data)
    if not top.is_dir():
        raise InvalidParameter.refusing("data", "must be an existing folder", repr(str(data)))
    for folder in (top, top / subfolder):
        if (folder / wanted).is_file() or (folder / f"{wanted}.gz").is_file():
            return folder
    allowed = f"must be a folder with {wanted} in it or in its subfolder {subfolder}"
    raise InvalidParameter.refusing("data", allowed, repr(str(data)))
