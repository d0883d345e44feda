"""Values that must not be printed: seeds, records and exact results on their way through a cluster.

Dask writes the arguments of a failing task into its log and shows them on its dashboard. A
:class:`Concealed` shows itself there without its content. It hides nothing from a program.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


class Concealed(Generic[T]):
    """``content``, printed as ``<concealed>``; its size is that of the content.

    >>> Concealed(20250101)
    <concealed>
    """

    __slots__ = ("content",)

    def __init__(self, content: T) -> None:
        self.content = content

    def __repr__(self) -> str:
        return "<concealed>"

    def __sizeof__(self) -> int:
        # A scheduler that knows the size of a result can judge what moving it costs.
        return object.__sizeof__(self) + _size(self.content)


def _size(content: object) -> int:
    if isinstance(content, np.ndarray):
        return content.nbytes
    if isinstance(content, tuple):
        return sum(map(_size, content))
    return getsizeof(content)
