"""The idx format of the MNIST files: two zero bytes, type, number of axes, sizes, bytes.

Only unsigned bytes (type 8) occur here. The format is described at the end of the page that
publishes the files (LeCun, Cortes & Burges, "The MNIST database of handwritten digits").
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter

_UNSIGNED_BYTES = 8


def read_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """The array that ``content`` holds; ``name`` is for messages.

    >>> read_idx(write_idx(np.array([[1, 2]], dtype=np.uint8)), "example")
    array([[1, 2]], dtype=uint8)
    """
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTES]):
        raise InvalidParameter(
            f"{name} must be an idx file of unsigned bytes, starting with 0 0 8, "
            f"got {list(content[:3])}"
        )
    start = 4 + 4 * content[3]
    sizes = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) < start or len(content) - start != math.prod(sizes):
        raise InvalidParameter(
            f"{name} must hold {math.prod(sizes)} bytes of data after its header, "
            f"got {max(0, len(content) - start)}: it is cut off or damaged"
        )
    try:
        return np.frombuffer(content, np.uint8, offset=start).reshape(sizes)
    except ValueError:
        raise InvalidParameter(
            f"{name} must hold an array of a size that exists, got {len(sizes)} axes, "
            f"the largest of {max(sizes)}"
        ) from None


def write_idx(array: NDArray[np.uint8]) -> bytes:
    """``array`` as the content of an idx file."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, _UNSIGNED_BYTES, array.ndim]) + sizes + array.tobytes()
