"""The explorer over HTTP: who gets an answer, and that the answers are those of the package."""

from __future__ import annotations

import csv
import io
import json
import socket
import time

import pytest

import mustdp as md
from tests.reporting.explorer.visiting import (
    SMALL,
    WHOLE,
    Explorer,
    complete,
    get,
    running,
    state,
)
from tests.seams import readable

pytestmark = pytest.mark.usefixtures("remembered_accounts")


def test_it_listens_on_this_machine_only(explorer: Explorer) -> None:
    assert explorer.address.startswith(f"http://127.0.0.1:{explorer.port}/")
    assert explorer._server.server_address[0] == "127.0.0.1"
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", explorer.port), timeout=2):
        pass


def test_nothing_without_the_token(explorer: Explorer) -> None:
    for token in ("", "x", explorer.token[:-1], explorer.token + "x", explorer.token.swapcase()):
        reply = get(explorer, "", token=token)
        assert reply.status == 404
        assert explorer.token.encode() not in reply.content
    assert get(explorer, "").status == 200
    assert len(explorer.token) >= 32
    with running() as other:
        assert other.token != explorer.token


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "[::1]"])
def test_a_foreign_name_that_leads_here_gets_nothing(explorer: Explorer, host: str) -> None:
    assert get(explorer, "", Host=host).status == 421
    assert get(explorer, "", Host=f"localhost:{explorer.port}").status == 200


def test_other_pages_cannot_ask(explorer: Explorer) -> None:
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
        assert get(explorer, f"state.json?{SMALL}", Sec_Fetch_Site=site).status == status
    visit = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    for kind, status in (("document", 200), ("iframe", 403), ("embed", 403), ("empty", 403)):
        assert get(explorer, f"?{SMALL}", **visit, Sec_Fetch_Dest=kind).status == status
    for path in ("defaults.json", f"state.json?{SMALL}", f"table.csv?{SMALL}", "explorer.js"):
        assert get(explorer, path, **visit, Sec_Fetch_Dest="document").status == 403
    assert get(explorer, "", token="x", **visit, Sec_Fetch_Dest="document").status == 404
    for mode in ("cors", "no-cors"):
        sent = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": mode}
        assert get(explorer, "", **sent, Sec_Fetch_Dest="document").status == 403
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
        reply = get(explorer, "", method=method)
        assert reply.status == 501
        assert "Access-Control-Allow-Origin" not in reply.headers


def test_every_answer_forbids_what_is_not_needed(explorer: Explorer) -> None:
    for path in ("", "explorer.js", "explorer.css", f"state.json?{SMALL}", "nowhere"):
        headers = get(explorer, path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Python" not in headers["Server"]


def test_the_page_needs_nothing_from_elsewhere(explorer: Explorer) -> None:
    text = get(explorer, "").content.decode()
    assert "http://" not in text
    assert "https://" not in text
    assert "style=" not in text
    assert "<script>" not in text
    assert 'lang="en"' in text


@pytest.mark.parametrize(
    "path", ["../cli/main.py", "server.py", "explorer.html", "state.csv", "x.svg", "%2e%2e/x", "/"]
)
def test_no_other_file_is_served(explorer: Explorer, path: str) -> None:
    assert get(explorer, path).status == 404


def test_the_numbers_are_those_of_compare_and_risk(explorer: Explorer) -> None:
    found = complete(explorer)
    assert found["errors"] == {}
    compared = md.compare(n=12, b=6, m=2, steps=2, delta=1e-2, noise_multiplier=3.5)
    for row, cells in zip(compared, found["rows"], strict=True):
        assert cells[4] == readable(row.epsilon.lower, "down")
        assert cells[5] == readable(row.epsilon.upper, "up")
        assert float(cells[3]) >= row.noise_multiplier
        assert float(cells[1]) >= row.eta
    row = next(one for one in compared if one.scheme.name == "must-ow")
    noise = md.gaussian(noise_multiplier=row.noise_multiplier)
    risk = md.account(md.repeat(2, md.subsample(row.scheme, noise))).risk()
    assert found["words"] == list(risk.sentences())
    assert found["rows"][3][6] == readable(risk.advantage.upper, "up")
    table = list(csv.reader(io.StringIO(get(explorer, f"table.csv?{SMALL}").content.decode())))
    assert [float(line[5]) for line in table[1:]] == [one.epsilon.upper for one in compared]
    latex = get(explorer, f"table.tex?{SMALL}").content.decode()
    assert latex.count(r"\\") == 1 + len(compared)
    assert r"\%" in latex


def test_pictures_as_svg_and_pdf(explorer: Explorer) -> None:
    complete(explorer)
    for name in ("profile", "steps", "contour"):
        for theme in ("light", "dark"):
            picture = get(explorer, f"{name}.svg?{SMALL}&theme={theme}")
            assert picture.status == 200
            assert b"<svg" in picture.content
        assert get(explorer, f"{name}.pdf?{SMALL}").content.startswith(b"%PDF")
    missing = SMALL.replace("steps=2", "steps=7")
    assert get(explorer, f"contour.svg?{missing}").status == 404


def test_what_is_copied_gives_the_same_state(explorer: Explorer) -> None:
    found = state(explorer, SMALL)
    assert state(explorer, found["address"])["command"] == found["command"]
    assert found["command"] == (
        "mustdp compare -n 12 -b 6 -m 2 --steps 2 --delta 0.01 --noise-multiplier 3.5 "
        "--relation replace-one"
    )
    names: dict[str, object] = {}
    exec(found["python"].replace("print(found)", ""), names)
    assert isinstance(names["found"], md.types.Comparison)
    target = state(explorer, "n=12&b=6&m=2&steps=2&delta=1e-2&epsilon=1.5")
    assert "--epsilon 1.5" in target["command"]
    assert "epsilon=1.5" in target["python"]


def test_groups_and_whole_epochs_are_those_of_compare_and_risk(explorer: Explorer) -> None:
    found = complete(explorer, WHOLE)
    assert found["errors"] == {}
    compared = md.compare(
        n=12, b=6, m=2, steps=2, delta=1e-2, noise_multiplier=3.5, relation="add_remove", group=2,
        epochs=True,
    )  # fmt: skip
    rows = (*compared, *compared.epochs)
    assert [row.scheme.name for row in rows][-2:] == ["allocation", "shuffle"]
    assert [cells[0] for cells in found["rows"]][-2:] == ["random allocation", "shuffling"]
    for row, cells in zip(rows, found["rows"], strict=True):
        assert cells[4] == readable(row.epsilon.lower, "down")
        assert cells[5] == readable(row.epsilon.upper, "up")
    alone = complete(explorer)["rows"]
    assert all(one != two for one, two in zip(alone, found["rows"], strict=False))
    step = md.subsample(md.must_ow(12, 6, 2), md.gaussian(noise_multiplier=3.5))
    risk = md.account(md.repeat(2, step), relation="add_remove", group=2).risk()
    assert found["words"] == list(risk.sentences())
    assert "a given group of 2 records" in found["words"][0]
    begun = md.subsample(md.random_allocation(12, 6).first(2), md.gaussian(noise_multiplier=3.5))
    risk = md.account(begun, relation="add_remove", group=2).risk()
    assert found["rows"][-2][6] == readable(risk.advantage.upper, "up")
    table = list(csv.reader(io.StringIO(get(explorer, f"table.csv?{WHOLE}").content.decode())))
    assert [float(line[5]) for line in table[1:]] == [row.epsilon.upper for row in rows]
    latex = get(explorer, f"table.tex?{WHOLE}").content.decode()
    assert latex.startswith(f"% {found['command']}\n")
    assert "shuffling" in latex
    assert found["command"].endswith("--relation add-remove --group 2 --with-epochs")
    names: dict[str, object] = {}
    exec(found["python"].replace("print(found)", ""), names)
    assert names["found"] == compared
    assert "shuffle" in str(compared)


def test_a_target_is_calibrated_as_compare_does(explorer: Explorer) -> None:
    query = "n=12&b=6&m=2&steps=1&delta=1e-2&epsilon=1.5"
    end = time.monotonic() + 120
    while (cells := state(explorer, query)["rows"][1])[5] == "" and time.monotonic() < end:
        time.sleep(0.2)
    found = md.calibrate(md.wor(12, 2), epsilon=1.5, delta=1e-2, steps=1)
    assert cells[5] == readable(found.epsilon.upper, "up")
    assert float(cells[3]) >= found.noise_multiplier


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("n=0", "n"), ("n=1.5", "n"), ("n=x", "n"), ("b=20000", "b"), ("m=-1", "m"),
        ("steps=0", "steps"), ("delta=nan", "delta"), ("delta=1", "delta"),
        ("epsilon=0", "epsilon"), ("epsilon=inf", "epsilon"), ("noise=0", "noise"),
        ("epsilon=", "epsilon"),
        ("epsilon=1&noise=2", "epsilon"), ("relation=other", "relation"), ("what=1", "address"),
        (f"n={'9' * 50}", "n"), ("group=0", "group"), ("group=10001", "group"), ("group=", "group"),
        ("with-epochs=maybe", "with-epochs"), ("with-epochs=", "with-epochs"),
    ],
)  # fmt: skip
def test_wrong_input_names_its_field(explorer: Explorer, query: str, field: str) -> None:
    reply = get(explorer, f"state.json?{query}")
    assert reply.status == 400
    told = json.loads(reply.content)
    assert told["field"] == field
    assert "Traceback" not in told["error"]
