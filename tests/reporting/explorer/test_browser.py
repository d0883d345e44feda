"""The explorer in chromium: numbers, sharing, copying, saving, wrong input, tabs, and the end."""

from __future__ import annotations

import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import answer, runner
from tests.reporting.explorer.driving import browser, missing
from tests.reporting.explorer.visiting import (
    SMALL,
    Explorer,
    complete,
    running,
)
from tests.reporting.pages.looking import faults, look, no_axe, violations
from tests.seams import in_browser, readable

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser"),
    pytest.mark.usefixtures("remembered_accounts"),
]


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


def test_the_private_file_leads_to_the_address(
    window: Any, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{explorer.address}?{SMALL}"
    monkeypatch.setattr(webbrowser, "open", window.get)
    with in_browser(address):
        until(lambda: window.current_url.startswith(address))
        until(lambda: cells(window))


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


def test_bins_and_epochs_say_what_an_epoch_has(window: Any, explorer: Explorer) -> None:
    opened(window, explorer)
    value = "return document.getElementById('{}').value".format
    assert told(window, value("bins")) == "6"
    typed(window, "m", "5")
    assert (told(window, value("bins")), told(window, value("epochs"))) == ("3", "0.666667")
    typed(window, "epochs", "4")
    assert told(window, value("steps")) == "12"


def test_groups_and_whole_epochs_by_keyboard_as_on_the_command_line(
    window: Any, explorer: Explorer, capsys: pytest.CaptureFixture[str]
) -> None:
    window.get(f"{explorer.address}?{SMALL.replace('replace-one', 'add-remove')}")
    until(lambda: cells(window))
    window.find_element("id", "group").send_keys("\ue003" + "2")  # backspace
    window.find_element("id", "with-epochs").send_keys(" ")
    until(lambda: len(cells(window)) == 9 and "group=2" in window.current_url)
    until(lambda: all(cell[5] not in ("", "…") for cell in cells(window)), 120.0)
    command = told(window, "return document.getElementById('command').textContent")
    wanted = answer(runner(capsys), command.removeprefix("mustdp "))
    assert wanted["group"] == 2
    assert [row["scheme"] for row in wanted["rows"]][-2:] == ["allocation", "shuffle"]
    assert [cell[4:6] for cell in cells(window)] == [
        [readable(row["epsilon"]["lower"], "down"), readable(row["epsilon"]["upper"], "up")]
        for row in wanted["rows"]
    ]
    window.refresh()
    until(lambda: len(cells(window)) == 9)
    assert told(window, "return document.getElementById('with-epochs').checked")
    assert told(window, "return document.getElementById('group').value") == "2"


def test_a_slider_moves_by_the_arrow_keys(window: Any, explorer: Explorer) -> None:
    opened(window, explorer)
    slider = window.find_element("css selector", "[data-for=group]")
    slider.send_keys("\ue010")  # End
    until(lambda: "group=100" in window.current_url)
    words = until(lambda: told(window, "return document.getElementById('problem').textContent"), 20)
    assert "group" in words


def test_copying_and_saving(window: Any, explorer: Explorer, tmp_path: Path) -> None:
    opened(window, explorer)
    # A page may read the clipboard where it is in the foreground.
    window.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    for what, part in (("command", "mustdp compare -n 12"), ("python", "md.compare(n=12"),
                       ("address", "?n=12&b=6")):  # fmt: skip
        told(window, f"document.getElementById('copy-{what}').click()")
        until(lambda p=part: p in told(window, "return navigator.clipboard.readText()"))  # type: ignore[misc]
        assert "copied" in told(window, "return document.getElementById('copied').textContent")
    window.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    for link in (
        "#csv",
        "#tex",
        "#picture-steps a[download$=svg]",
        "#picture-steps a[download$=pdf]",
    ):
        told(window, f"document.querySelector({link!r}).click()")
    starts = {"csv": b"scheme,eta", "tex": b"% mustdp compare", "svg": b"<?xml", "pdf": b"%PDF"}
    for kind, start in starts.items():
        name = "mustdp" if kind in ("csv", "tex") else "mustdp-steps"
        saved = tmp_path / f"{name}.{kind}"
        until(lambda one=saved: one.exists())  # type: ignore[misc]
        assert saved.read_bytes().startswith(start)
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


def test_nothing_is_off_screen_or_hard_to_read(explorer: Explorer, tmp_path: Path) -> None:
    complete(explorer)
    with browser(tmp_path) as window:
        # Places depend on the width, colours on the theme.
        for width, dark in ((390, True), (1280, False)):
            look(window, width, dark=dark)
            opened(window, explorer)
            assert told(window, "return innerWidth") == width
            assert faults(window) == []
            inside_their_frame(window)
            ground = told(window, "return getComputedStyle(document.body).backgroundColor")
            assert ground == ("rgb(22, 25, 29)" if dark else "rgb(255, 255, 255)")
            typed(window, "delta", "7")
            shown = "const one = document.getElementById('problem'); return !one.hidden"
            until(lambda words=shown: told(window, words))  # type: ignore[misc]
            assert faults(window) == []
            edges = told(
                window,
                "document.getElementById('delta').scrollIntoView({block: 'center'});"
                "const place = document.getElementById('problem').getBoundingClientRect();"
                "return [0, place.top, place.bottom, innerHeight]",
            )
            assert edges == sorted(edges)


def inside_their_frame(window: Any) -> None:
    """Fields lie in their frames, and none is too narrow for its words."""
    right = "e => e.getBoundingClientRect().right"
    outside = told(
        window,
        f"const right = {right}; return [...document.querySelectorAll('fieldset')].flatMap("
        "f => [...f.querySelectorAll('input, select')].filter(e => right(e) > right(f)))"
        ".map(e => e.id || e.dataset.for)",
    )
    assert outside == []
    has, needs = told(
        window,
        "const one = document.getElementById('relation'), free = one.cloneNode(true);"
        "free.style = 'position: fixed; width: max-content'; one.after(free);"
        "const found = [one.offsetWidth, free.offsetWidth]; free.remove(); return found",
    )
    assert has >= needs


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


@pytest.mark.skipif(bool(no_axe()), reason=no_axe() or "axe-core is there")
def test_the_explorer_is_accessible(window: Any, explorer: Explorer) -> None:
    for dark in (False, True):
        look(window, 1280, dark=dark)
        opened(window, explorer)
        assert violations(window) == []
    look(window, 1280, dark=False)
