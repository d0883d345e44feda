"""An explorer that runs in this process, and requests to it."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, NamedTuple

from tests.seams import explorer as new_explorer

#: A running explorer.
Explorer = Any

#: A small state that is computed in seconds.
SMALL = "n=12&b=6&m=2&steps=2&delta=1e-2&noise=3.5&relation=replace-one"
#: The same for two records of one person, more or less, and with whole epochs.
WHOLE = SMALL.replace("replace-one", "add-remove") + "&group=2&with-epochs=yes"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes


@contextmanager
def running() -> Iterator[Explorer]:
    explorer = new_explorer()
    thread = Thread(target=explorer.serve, daemon=True)
    thread.start()
    try:
        yield explorer
    finally:
        explorer.close(patience=120)
        thread.join(10)


def get(
    explorer: Explorer, path: str, *, token: str | None = None, method: str = "GET",
    **headers: str,
) -> Reply:  # fmt: skip
    connection = http.client.HTTPConnection("127.0.0.1", explorer.port, timeout=30)
    known = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(
        method, f"/{explorer.token if token is None else token}/{path}", headers=known
    )
    answer = connection.getresponse()
    reply = Reply(answer.status, dict(answer.getheaders()), answer.read())
    connection.close()
    return reply


def state(explorer: Explorer, query: str = SMALL) -> Any:
    reply = get(explorer, f"state.json?{query}")
    assert reply.status == 200, reply.content
    return json.loads(reply.content)


def complete(explorer: Explorer, query: str = SMALL, seconds: float = 120.0) -> Any:
    """The state once everything is computed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = state(explorer, query)
        if found["done"] == found["total"]:
            return found
        time.sleep(0.2)
    raise AssertionError(f"only {found['done']} of {found['total']} after {seconds} s")
