"""Running items: results are kept, resumed, recomputed when damaged, never half-written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.limits import LARGEST_RESULT
from mustdp.reproduction import runner
from mustdp.reproduction.cells import (
    Item,
    ItemOutcome,
    PaperCell,
    PaperTable,
    Picture,
    Settings,
    judge,
)
from mustdp.reproduction.report import ITEMS, counted, items_called, write_report
from mustdp.reproduction.runner import Result, finished, run_items

SETTINGS = Settings(quick=True, seed=3, data=None)


class Counting:
    """An item that counts how often it is run."""

    def __init__(self, name: str, ours: float = 1.0, needs: tuple[str, ...] = ()) -> None:
        self.runs, self.ours = 0, ours
        self.item = Item(name, f"The item {name}", self.run, needs)

    def run(self, settings: Settings, progress: md.types.Progress) -> ItemOutcome:
        self.runs += 1
        progress("half way")
        cells = (
            judge("a & b", "x", 1.0, self.ours, half_unit=0.1),
            judge("c", "x", 1.0, 9.0, half_unit=0.1, reason="the paper <rounds>"),
            PaperCell("c", "y", None, np.float64(0.25), 0.5),
        )
        ratio: Any = np.array([0.2, 0.6])
        data = {"ratio": ratio, "difference": (-0.1, 0.1), "caption": "a line"}
        return ItemOutcome(
            (PaperTable("t", "A table", cells, "paper", "A note."),),
            (Picture(self.item.name, "A picture", "four_kinds", data, "A line."),),
            ("It shows nothing.",),
        )


def quiet(*_: object) -> None:
    return None


def run(*counting: Counting, out: Path, settings: Settings = SETTINGS) -> tuple[Result, ...]:
    return run_items([one.item for one in counting], settings, out, quiet)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_results_are_kept_and_not_computed_again(tmp_path: Path) -> None:
    one, two = Counting("one"), Counting("two")
    out = tmp_path / "deep" / "out"
    (first,) = run(one, out=out)
    again, other = run(one, two, out=out)
    assert (one.runs, two.runs) == (1, 1)
    assert (first.state, again.state, other.state) == ("computed", "kept", "computed")
    assert first.outcome is not None
    assert again.outcome is not None
    assert first.outcome.tables == again.outcome.tables
    assert again.outcome.pictures[0].data == {
        "ratio": [0.2, 0.6],
        "difference": [-0.1, 0.1],
        "caption": "a line",
    }
    assert again.outcome.pictures[0].figure().axes
    assert names(out) == ["one.json", "two.json"]
    data = json.loads((out / "one.json").read_text())
    assert {"seed", "quick", "mustdp", "versions", "seconds", "tables", "pictures"} <= set(data)


@pytest.mark.parametrize(
    "settings", [Settings(False, 3, None), Settings(True, 4, None)], ids=["full", "other seed"]
)
def test_other_settings_are_computed_again(tmp_path: Path, settings: Settings) -> None:
    one = Counting("one")
    run(one, out=tmp_path)
    (result,) = run(one, out=tmp_path, settings=settings)
    assert one.runs == 2
    assert "one.json was computed again: made with" in result.remark
    (kept,) = run(one, out=tmp_path, settings=settings)
    assert (kept.state, kept.remark) == ("kept", "")


def test_processes_and_folders_do_not_change_a_result(tmp_path: Path) -> None:
    one = Counting("one")
    run(one, out=tmp_path)
    (result,) = run(one, out=tmp_path, settings=Settings(True, 3, tmp_path, workers=1))
    assert (result.state, one.runs) == ("kept", 1)


def cut(text: str) -> bytes:
    return text.encode()[:-100]


def with_changed(change: Callable[[Any], object], sealed: bool = True) -> Callable[[str], bytes]:
    """Change what a file says, and seal it again as whoever wants to deceive would."""

    def damage(text: str) -> bytes:
        data = json.loads(text)
        change(data)
        if sealed:
            body = {name: data[name] for name in data.keys() - {"format", "version", "checksum"}}
            return runner.ENVELOPE.seal_text(body).encode()
        return json.dumps(data).encode()

    return damage


def with_picture(**change: Any) -> Callable[[str], bytes]:
    return with_changed(lambda data: data["pictures"][0].update(change))


def with_cell(place: int, sealed: bool = True, **change: Any) -> Callable[[str], bytes]:
    return with_changed(lambda data: data["tables"][0]["cells"][place].update(change), sealed)


DAMAGES: dict[str, Callable[[str], bytes]] = {
    "cut short": cut,
    "empty": lambda text: b"",
    "a list": lambda text: b"[]",
    "nested beyond reason": lambda text: b"[" * 200_000,
    "not text": lambda text: b"\xff\xfe\x00",
    "nan": lambda text: text.replace("0.25", "NaN").encode(),
    "no tables": with_changed(lambda data: data.pop("tables")),
    "wrong verdict": with_cell(0, verdict="perfect"),
    "text for a number": with_cell(0, ours="1.0"),
    "unknown drawing": with_picture(drawing="no_such_thing"),
    "foreign drawing": with_picture(drawing="os:abort"),
    "drawing by its place": with_picture(drawing="mustdp.reproduction.figures:four_kinds"),
    "a theme in the data": with_changed(
        lambda data: data["pictures"][0]["data"].update(theme="dark")
    ),
    "the format before it was sealed": with_changed(
        lambda data: data.update(format=2, sha256=data.pop("checksum")), sealed=False
    ),
    "too long": lambda text: text.encode() + b" " * LARGEST_RESULT,
    "other package": with_changed(lambda data: data.update(mustdp="0.0.0")),
    "an edited number": with_cell(0, sealed=False, ours=7.0),
    "an edited verdict": with_cell(1, sealed=False, verdict="matches"),
    "an edited bound": with_cell(2, sealed=False, bound="lower"),
    "an edited reading": with_changed(lambda data: data["reading"].append("More."), sealed=False),
    "no checksum": with_changed(lambda data: data.pop("checksum"), sealed=False),
}
HOSTILE: dict[str, Callable[[str], bytes]] = {
    "a function that writes files": with_picture(
        drawing="mustdp.files.replacing:replace_file", data={"path": "written"}
    ),
    "a picture somewhere else": with_picture(name="../../elsewhere"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_results_are_computed_again_with_a_word(
    tmp_path: Path, damage: Callable[[str], bytes]
) -> None:
    one = Counting("one")
    run(one, out=tmp_path)
    path = tmp_path / "one.json"
    whole = path.read_text()
    path.write_bytes(damage(whole))
    (result,) = run(one, out=tmp_path)
    assert (one.runs, result.state) == (2, "computed")
    assert result.remark.startswith("one.json was computed again: ")
    assert json.loads(path.read_text())["tables"] == json.loads(whole)["tables"]


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder"])
def test_what_is_no_file_is_refused_before_any_work(tmp_path: Path, kind: str) -> None:
    one, two = Counting("one"), Counting("two")
    run(two, out=tmp_path)
    path, other = tmp_path / "one.json", tmp_path / "two.json"
    before = other.read_bytes()
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(other if kind == "link" else tmp_path / "elsewhere.json")
    with pytest.raises(md.InvalidParameter, match=r"one\.json must be a file or not be there yet"):
        run(two, one, out=tmp_path)
    assert (one.runs, two.runs) == (0, 1)
    assert other.read_bytes() == before
    assert names(tmp_path) == ["one.json", "two.json"]


@pytest.mark.parametrize("attack", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_stored_file_cannot_have_anything_else_written(
    tmp_path: Path, attack: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, out = Counting("one"), tmp_path / "deep" / "out"
    run(one, out=out)
    path = out / "one.json"
    path.write_bytes(attack(path.read_text()))
    monkeypatch.chdir(out)
    assert finished([one.item], SETTINGS, out) == ()
    write_report(run(one, out=out), [], SETTINGS, out)
    written = {str(found.relative_to(out)) for found in tmp_path.rglob("*") if found.is_file()}
    assert written == {"one.json", "report.html", "pictures/one.svg"}


def test_a_file_may_be_laid_out_anew(tmp_path: Path) -> None:
    one = Counting("one")
    run(one, out=tmp_path)
    path = tmp_path / "one.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(data.items())), indent=4))
    (result,) = run(one, out=tmp_path)
    assert (result.state, one.runs) == ("kept", 1)


def test_an_interrupted_run_leaves_finished_items_and_nothing_half_written(tmp_path: Path) -> None:
    one, two, three = Counting("one"), Counting("two"), Counting("three")

    def stop(settings: Settings, progress: md.types.Progress) -> ItemOutcome:
        raise KeyboardInterrupt

    items = [one.item, Item("two", "Stops", stop), three.item]
    with pytest.raises(KeyboardInterrupt):
        run_items(items, SETTINGS, tmp_path, quiet)
    assert names(tmp_path) == ["one.json"]
    results = run(one, two, three, out=tmp_path)
    assert [result.state for result in results] == ["kept", "computed", "computed"]


def test_interrupted_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Counting("one")
    run(one, out=tmp_path)
    before = (tmp_path / "one.json").read_text()

    def stop(*places: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mustdp.files.replacing.os.replace", stop)
    with pytest.raises(KeyboardInterrupt):
        run(one, Counting("two"), out=tmp_path)
    assert names(tmp_path) == ["one.json"]
    assert (tmp_path / "one.json").read_text() == before


def test_items_without_their_data_are_skipped_by_name(tmp_path: Path) -> None:
    plain, needy = Counting("plain"), Counting("needy", needs=("adult",))
    first, second = run(plain, needy, out=tmp_path)
    assert (first.state, second.state, needy.runs) == ("computed", "skipped", 0)
    assert second.remark == "needy needs the data set adult"
    report = write_report([first], [second], SETTINGS, tmp_path).read_text()
    assert "needy needs the data set adult" in report


def test_missing_files_are_found_before_any_work(tmp_path: Path) -> None:
    plain, needy = Counting("plain"), Counting("needy", needs=("mnist",))
    empty, out = tmp_path / "data", tmp_path / "out"
    empty.mkdir()
    with pytest.raises(md.InvalidParameter, match="data must"):
        run(plain, needy, out=out, settings=Settings(True, 3, empty))
    assert (plain.runs, out.exists()) == (0, False)


def test_a_result_that_is_no_number_is_not_stored(tmp_path: Path) -> None:
    def draws_nan(settings: Settings, progress: md.types.Progress) -> ItemOutcome:
        data = {"ratio": [float("nan")], "difference": [0.1], "caption": ""}
        return ItemOutcome((), (Picture("p", "P", "four_kinds", data, "A point."),))

    with pytest.raises(md.NumericalFailure, match="nan-item"):
        run_items([Item("nan-item", "N", draws_nan)], SETTINGS, tmp_path, quiet)
    assert names(tmp_path) == []


def test_the_report_holds_everything_in_the_folder(tmp_path: Path) -> None:
    one, two = Counting("one"), Counting("two", ours=5.0)
    run(one, two, out=tmp_path)
    results = finished([one.item, two.item, Counting("three").item], SETTINGS, tmp_path)
    assert [result.item.name for result in results] == ["one", "two"]
    assert counted(results[1]) == {
        "matches": 0,
        "differs, explained": 1,
        "differs": 1,
        "new": 1,
    }
    path = write_report(results, [], SETTINGS, tmp_path)
    page = path.read_text()
    for part in ("The item one", "a &amp; b", "the paper &lt;rounds&gt;", "It shows nothing."):
        assert part in page
    assert "5 (1)" in page
    assert "quick run" in page
    # The conclusion comes first and leads to what differs without a reason.
    conclusion = page.index("come out again</strong>")
    assert conclusion < page.index('<dl class="facts">')
    assert '<a href="#section-2">The item two</a>' in page
    assert '<a href="#section-1">The item one</a>.' not in page
    assert '<h2 id="section-2">The item two</h2>' in page
    assert names(tmp_path / "pictures") == ["one.svg", "two.svg"]
    for picture in (tmp_path / "pictures").iterdir():
        assert picture.stat().st_size < 300_000
        assert picture.read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')


def test_names_of_items() -> None:
    known = [item.name for item in ITEMS]
    assert len(set(known)) == len(known)
    assert items_called(()) == ITEMS
    asked = items_called(("figure-4", "table-s1"))
    assert [item.name for item in asked] == ["table-s1", "figure-4"]
    with pytest.raises(md.InvalidParameter, match="ITEM must be one of table-s1"):
        items_called(("figure-7",))


def test_stored_text_is_read_back_as_it_was() -> None:
    one = Counting("one")
    found = runner.StoredResult(one.run(SETTINGS, quiet), 1.5)
    text = runner.as_text(one.item, SETTINGS, found)
    again = runner.from_text(text, one.item, SETTINGS)
    assert again.seconds == 1.5
    assert runner.as_text(one.item, SETTINGS, again) == text
