"""The explorer in chromium: numbers, sharing, copying, saving, wrong input, tabs, and the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mustdp.explorer import Explorer
from tests.explorer.driving import browser, missing
from tests.explorer.visiting import SMALL, complete, running

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")


@pytest.fixture(scope="module")
def window(explorer: Explorer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    complete(explorer)
    with browser(tmp_path_factory.mktemp("saved")) as driver:
        driver.execute_cdp_cmd(
            "Browser.grantPermissions",
            {
                "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"],
                "origin": explorer.address.rpartition("/")[0].rpartition("/")[0],
            },
        )
        yield driver


def until(check: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := check():
            return found
        time.sleep(0.2)
    raise AssertionError("it did not come to that in time")


def opened(window: Any, explorer: Explorer, query: str = SMALL) -> None:
    window.get(f"{explorer.address}?{query}")
    until(lambda: told(window, "return document.body.dataset.ready") == "true")


def told(window: Any, script: str) -> Any:
    return window.execute_script(script)


def typed(window: Any, field: str, text: str) -> None:
    told(
        window,
        f"const f = document.getElementById({field!r}); f.value = {text!r};"
        "f.dispatchEvent(new Event('input', {bubbles: true}));",
    )


def cells(window: Any) -> list[list[str]]:
    rows: list[list[str]] = told(
        window,
        "return [...document.querySelectorAll('#table tbody tr')]"
        ".map(row => [...row.children].map(cell => cell.textContent))",
    )
    return rows


def test_the_numbers_of_the_server_and_nothing_from_elsewhere(
    window: Any, explorer: Explorer
) -> None:
    opened(window, explorer)
    assert cells(window) == complete(explorer)["rows"]
    until(lambda: told(window, "return [...document.images].every(i => i.naturalWidth > 0)"))
    assert told(window, "return document.images.length") == 3
    asked = told(window, "return performance.getEntriesByType('resource').map(e => e.name)")
    assert all(address.startswith(explorer.address) for address in asked)
    assert window.get_log("browser") == []


def test_a_change_is_in_the_address_and_survives_a_reload(window: Any, explorer: Explorer) -> None:
    opened(window, explorer)
    typed(window, "noise", "4.5")
    until(lambda: "noise=4.5" in window.current_url)
    wanted = complete(explorer, SMALL.replace("3.5", "4.5"))["rows"]
    until(lambda: cells(window) == wanted)
    window.refresh()
    until(lambda: cells(window) == wanted)
    assert told(window, "return document.getElementById('noise').value") == "4.5"
    typed(window, "bins", "4")
    assert told(window, "return document.getElementById('m').value") == "3"


def test_copying_and_saving(window: Any, explorer: Explorer) -> None:
    opened(window, explorer)
    told(window, "document.getElementById('copy-command').click()")
    until(lambda: "copied" in told(window, "return document.getElementById('copied').textContent"))
    for link, start in (("csv", "table.csv?"), ("tex", "table.tex?")):
        assert start in told(window, f"return document.getElementById('{link}').href")
    names = told(window, "return [...document.querySelectorAll('.links a')].map(a => a.download)")
    assert sorted(names) == sorted(
        f"mustdp-{name}.{kind}"
        for name in ("profile", "steps", "contour")
        for kind in ("svg", "pdf")
    )


def test_wrong_input_is_said_beside_its_field(window: Any, explorer: Explorer) -> None:
    opened(window, explorer)
    typed(window, "delta", "7")
    words = until(lambda: told(window, "return document.getElementById('problem').textContent"), 20)
    assert "delta" in words
    assert told(window, "return document.getElementById('delta').ariaInvalid") == "true"
    typed(window, "delta", "1e-2")
    until(lambda: told(window, "return document.getElementById('problem').hidden"))


def test_two_tabs_have_states_of_their_own(window: Any, explorer: Explorer) -> None:
    opened(window, explorer)
    first = window.current_window_handle
    window.switch_to.new_window("tab")
    opened(window, explorer, SMALL.replace("3.5", "4.5"))
    other = cells(window)
    window.close()
    window.switch_to.window(first)
    assert cells(window) == complete(explorer)["rows"] != other


def test_every_field_has_a_name_and_the_keyboard_reaches_it(
    window: Any, explorer: Explorer
) -> None:
    opened(window, explorer)
    nameless = told(
        window,
        "return [...document.querySelectorAll('input, select, button, progress')].filter("
        "e => !e.labels?.length && !e.ariaLabel && !e.textContent.trim()).length",
    )
    assert nameless == 0
    hidden = "return [...document.querySelectorAll('input, a, button')].filter(e => e.tabIndex < 0)"
    assert told(window, hidden) == []


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_nothing_is_off_screen(explorer: Explorer, width: int, dark: bool, tmp_path: Path) -> None:
    with browser(tmp_path, width=width, dark=dark) as window:
        opened(window, explorer)
        assert told(window, "return innerWidth") == width
        assert told(window, "return document.documentElement.scrollWidth") <= width
        ground = told(window, "return getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(22, 25, 29)" if dark else "rgb(255, 255, 255)")


def test_a_server_that_stopped_is_said_and_answers_stay(window: Any, explorer: Explorer) -> None:
    complete(explorer)
    with running() as short:
        short.work._answers.update(explorer.work._answers)
        opened(window, short)
        rows = cells(window)
    typed(window, "noise", "9")
    until(
        lambda: "stopped" in told(window, "return document.getElementById('problem').textContent")
    )
    assert cells(window) == rows
