"""``mustdp explore``: what it prints, that it ends, and that it opens a browser only if it may."""

from __future__ import annotations

import json
import re
import socket
import tempfile
import webbrowser
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.cli.running import Run, check_refused
from tests.seams import replace_serve


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Addresses to which private files would have led; serving ends at once, as by Ctrl-C."""

    def serve(explorer: Any) -> None:
        raise KeyboardInterrupt

    def read(words: str) -> None:
        path = Path(unquote(urlsplit(words).path))
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        led = re.findall(r'content="0;url=([^"]*)"', path.read_text(encoding="utf-8"))
        [address] = map(unescape, led)
        # What everybody can read, the words of the browser's command, has no token.
        assert urlsplit(address).path.strip("/") not in words
        found.append(address)
        files.append(path)

    found: list[str] = []
    files: list[Path] = []
    replace_serve(monkeypatch, serve)
    monkeypatch.setattr(webbrowser, "open", read)
    yield found
    assert not any(path.parent.exists() for path in files)


def test_one_json_object_with_the_address(run: Run, opened: list[str]) -> None:
    outcome = run("explore", "--no-open", "--json")
    assert (outcome.status, outcome.err, opened) == (0, "", [])
    told = json.loads(outcome.out)
    assert told["address"].startswith(f"http://127.0.0.1:{told['port']}/")
    # The port is free again.
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", told["port"]))


def test_a_browser_is_opened_at_the_address(run: Run, opened: list[str]) -> None:
    outcome = run("explore")
    assert outcome.status == 0
    assert len(opened) == 1
    assert opened[0] in outcome.out


def test_without_a_place_for_files_the_address_is_printed(
    run: Run, opened: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    outcome = run("explore")
    assert (outcome.status, opened) == (0, [])
    assert "http://127.0.0.1:" in outcome.out


def test_ports_that_are_refused(run: Run, opened: list[str]) -> None:
    for port in ("0", "65536", "x"):
        check_refused(run("explore", "--port", port), "--port")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        check_refused(run("explore", "--port", taken.getsockname()[1]), "--port", "free")
    assert opened == []


def test_a_state_is_opened(run: Run, opened: list[str]) -> None:
    for given in (
        "?n=12&b=6&m=2&noise=3&group=2",
        "http://127.0.0.1:1/t/?n=12&b=6&m=2&noise=3&group=2",
    ):
        assert run("explore", given).status == 0
    assert len(opened) == 2
    assert all("/?n=12&b=6&m=2&steps=1000&" in one and "&group=2&" in one for one in opened)
    check_refused(run("explore", "?n=0"), "n must be")
    check_refused(run("explore", "nonsense"), "address must have known fields")
    check_refused(run("explore", ""), "ADDRESS")
    assert len(opened) == 2
