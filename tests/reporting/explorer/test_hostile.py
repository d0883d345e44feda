"""A hostile client of the explorer gets a status or nothing, and other clients do not notice."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.reporting.explorer.visiting import Explorer, get, running
from tests.seams import replace_table_in_explorer

#: How many requests the explorer works on at once.
MOST_AT_ONCE = 64


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    """One that no browser is connected to."""
    with running() as one:
        yield one


def connected(explorer: Explorer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", explorer.port), timeout=30)


def said(explorer: Explorer, request: bytes) -> bytes:
    """The first line of the answer to some bytes."""
    with connected(explorer) as client:
        client.sendall(request)
        return client.makefile("rb").readline()


def settled() -> bool:
    """Whether no request is being handled any more, after a moment."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not any("process_request" in one.name for one in threading.enumerate()):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET http://[/ HTTP/1.1", b"400"),
        (b"GET /%s/state.json?" + b"n=1&" * 600 + b" HTTP/1.1", b"414"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1", b"414"),
        (b"GET /%s/../../etc/passwd HTTP/1.1", b"404"),
        (b"GET /%s/state.json?n=%%ff%%00 HTTP/1.1", b"400"),
        (b"POST /%s/state.json HTTP/1.1", b"501"),
        (b"<b>", b"Bad Request"),  # too old a protocol for a status line
        (b"GET / HTTP/99.9", b"HTTP Version Not Supported"),
    ],
)
def test_odd_requests_get_a_status_and_no_traceback(
    explorer: Explorer, line: bytes, status: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = line.replace(b"%s", explorer.token.encode()).replace(b"%%", b"%")
    host = f"\r\nHost: 127.0.0.1:{explorer.port}\r\n\r\n".encode()
    assert status in said(explorer, asked + host)
    assert settled()
    assert capfd.readouterr() == ("", "")


def test_a_client_that_breaks_off_leaves_no_traceback(
    explorer: Explorer, capfd: pytest.CaptureFixture[str]
) -> None:
    for begun in (b"", b"GET /", f"GET /{explorer.token}/ HTTP/1.1\r\n".encode()):
        client = connected(explorer)
        client.sendall(begun)
        # Closed by a reset rather than in good order.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    assert settled()
    assert capfd.readouterr() == ("", "")


def test_a_fault_is_a_status_and_says_its_kind_alone(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> bytes:
        raise RuntimeError("a secret")

    replace_table_in_explorer(monkeypatch, broken)
    reply = get(explorer, "table.csv?n=12")
    assert reply.status == 500
    assert b"RuntimeError" in reply.content
    assert b"secret" not in reply.content
    assert settled()
    assert capfd.readouterr() == ("", "")


def test_clients_that_never_finish_do_not_pile_up(explorer: Explorer) -> None:
    with ExitStack() as held:
        silent = [held.enter_context(connected(explorer)) for _ in range(2 * MOST_AT_ONCE)]
        for one in silent:
            one.sendall(b"GET /")
        begun = time.monotonic()
        assert get(explorer, "defaults.json").status == 200
        assert time.monotonic() - begun < 10
        busy = [one for one in threading.enumerate() if "process_request" in one.name]
        assert len(busy) <= MOST_AT_ONCE + 5
        assert silent[0].recv(1) == b""  # the oldest made room
    assert settled()
