"""Worker processes that end with the process that started them, however that one ended.

On Linux the kernel kills a worker when its parent dies (``PR_SET_PDEATHSIG``, prctl(2)). Everywhere
a thread of the worker also looks twice a second whether the parent is still the same: that serves
other systems, and a parent that had died before the kernel was asked. The kernel takes the *thread*
that started the worker for its parent; if that one ends first, idle workers go and are started
again when they are needed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
#: Seconds between two looks at the parent.
_BEAT = 0.5


def end_with_parent(parent: int) -> None:
    """Make this process end with the process ``parent``; called in a worker before any work."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _end_if_orphaned(parent)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while True:
        time.sleep(_BEAT)
        _end_if_orphaned(parent)


def _end_if_orphaned(parent: int) -> None:
    if sys.platform != "win32" and os.getppid() != parent:
        os._exit(1)
