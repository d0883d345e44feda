"""Parts computed in the background: the newest question first, each answer kept.

Threads take parts from the top of a pile. A new question puts its parts on top, so that what was
asked before waits; what no page has asked for lately is dropped, and what was computed stays for
when it is asked again. Nobody waits for a part: the page asks what is there.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any

from mustdp.explorer.parts import Part, compute

#: More answers than this are not kept; the oldest go.
_KEPT = 2000
#: Threads at first, and when all of them are at something that is no longer looked at.
_THREADS, _MOST_THREADS = 2, 6
#: Seconds after which a part that no page asks for any more is dropped.
_FORGOTTEN = 15.0


#: From a part, and the noise of its scheme, to what the page shows of it.
Compute = Callable[[Part, float | None], dict[str, Any]]


class Work:
    """A pile of parts, and the answers so far."""

    def __init__(self, compute: Compute = compute) -> None:
        self._compute = compute
        self._changed = Condition()
        #: When each part was last asked for; the last one is on top.
        self._pile: dict[Part, float] = {}
        self._running: set[Part] = set()
        self._answers: OrderedDict[Part, dict[str, Any]] = OrderedDict()
        self._stopped = False
        self._threads: list[Thread] = []
        for _ in range(_THREADS):
            self._begin()

    def _begin(self) -> None:
        self._threads.append(Thread(target=self._go, daemon=True))
        self._threads[-1].start()

    def ask(self, parts: Sequence[Part]) -> tuple[dict[Part, dict[str, Any]], list[Part]]:
        """The answers that are there, and the parts under way; what is missing goes on top."""
        now = time.monotonic()
        with self._changed:
            for part in parts:
                if part in self._answers:
                    self._answers.move_to_end(part)
            for part in reversed(parts):
                if part not in self._answers and part not in self._running:
                    self._on_top(part, now)
            self._changed.notify_all()
            busy = len(self._running) == len(self._threads) < _MOST_THREADS
            if busy and self._pile and self._running.isdisjoint(parts):
                self._begin()
            found = {one: self._answers[one] for one in parts if one in self._answers}
            return found, [one for one in parts if one in self._running]

    def stop(self, patience: float = 0.0) -> bool:
        """Take no further parts; say whether what runs has ended within so many seconds."""
        with self._changed:
            self._stopped = True
            self._pile.clear()
            self._changed.notify_all()
        end = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _on_top(self, part: Part, now: float) -> None:
        self._pile.pop(part, None)
        self._pile[part] = now

    def _go(self) -> None:
        while True:
            with self._changed:
                part = self._next()
                while part is None and not self._stopped:
                    self._changed.wait()
                    part = self._next()
                if part is None:
                    return
                self._running.add(part)
                noise = self._noise(part)
            try:
                answer = self._compute(part, noise)
            except Exception as problem:  # a fault in one part must not end the others
                answer = {"error": f"nothing could be computed: {type(problem).__name__}"}
            with self._changed:
                self._running.discard(part)
                self._answers[part] = answer
                while len(self._answers) > _KEPT:
                    self._answers.popitem(last=False)
                self._changed.notify_all()

    def _next(self) -> Part | None:
        """The topmost part whose scheme's noise is known; the row that tells it comes first."""
        if self._stopped:
            return None
        now = time.monotonic()
        for part, asked in reversed(tuple(self._pile.items())):
            if now - asked > _FORGOTTEN:
                del self._pile[part]
                continue
            row = _row_of(part)
            chosen = part if row is None or row in self._answers else row
            if chosen not in self._running:
                self._pile.pop(chosen, None)
                return chosen
        return None

    def _noise(self, part: Part) -> float | None:
        row = _row_of(part)
        return part.asked.noise if row is None else self._answers[row].get("noise")


def _row_of(part: Part) -> Part | None:
    """The row whose noise a part needs; None where the noise was given or is looked for."""
    if part.kind == "row" or part.asked.noise is not None:
        return None
    return Part("row", part.asked, "must-ow" if part.kind == "contour" else part.which)
