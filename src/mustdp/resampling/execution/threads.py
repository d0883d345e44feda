"""One thread for linear algebra while totals are computed, so that sums have one order everywhere.

BLAS libraries add up in another order when they use more threads, which changes last digits. joblib
and Dask start their workers with one thread already; this does the same for the process of the
caller. It needs threadpoolctl; without it, last digits of statistics that multiply matrices may
depend on where they are computed. Several threads of a process may be inside at the same time: the
first one in sets the limit and the last one out lifts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from mustdp.extras import installed

_lock = Lock()
_inside = 0
_limit: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread inside the block."""
    global _inside, _limit
    with _lock:
        if _inside == 0:
            control = installed("threadpoolctl")
            _limit = None if control is None else control.threadpool_limits(1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None
