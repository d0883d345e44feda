"""The documentation site: built without a warning, complete, on its own, and readable on a phone.

The site is built once: it takes half a minute.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import mustdp as md
from tests.cli.running import PROGRAM
from tests.reporting.explorer.driving import browser, missing
from tests.reporting.pages.looking import faults, look, no_axe, until, violations
from tests.seams import registered_epochs, registered_mechanisms, registered_schemes
from tests.site.loading import broken_links, from_elsewhere, read

ROOT = Path(__file__).parents[2]
NEEDED = ("sphinx", "myst_parser", "pydata_sphinx_theme")


#: A page of every kind; more of those with wide tables and long words.
KINDS = (
    "docs/index", "docs/tutorials/publish", "docs/which-guarantee", "docs/derivations/family",
    "docs/api", "docs/commands", "docs/cli", "docs/from-opacus", "docs/ledger", "docs/findings",
    "README", "genindex",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if any(find_spec(name) is None for name in NEEDED):
        pytest.skip('the site was not built: pip install ".[site]" brings what it needs')
    folder = tmp_path_factory.mktemp("built")
    site = folder / "site"
    words = ["-b", "html", "-W", "--keep-going", "--quiet", "-d", str(folder / "trees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, "-c", "docs", ".", str(site)],
        cwd=ROOT, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return site


def test_the_site(site: Path) -> None:
    names = read((site / "docs" / "api.html").read_text(encoding="utf-8")).ids
    spaces = ("types", "calibration", "estimation", "data", "training", "reproduction")
    assert {f"mustdp.{name}" for name in {*dir(md)} - {*spaces, "interop"}} <= names
    for space in spaces:
        assert {f"mustdp.{space}.{name}" for name in dir(getattr(md, space))} <= names
    assert {f"mustdp.plot.{name}" for name in md.plot.__all__} <= names

    page = (site / "docs" / "commands.html").read_text(encoding="utf-8")
    for name, command in PROGRAM.commands.items():
        [section] = re.findall(rf'<section id="mustdp-{name}">(.*?)</section>', page, re.DOTALL)
        for parameter in command.params:
            shown = (
                (parameter.metavar,) if parameter.param_type_name == "argument" else parameter.opts
            )
            assert all(f'<span class="pre">{word}</span>' in section for word in shown), parameter

    page = (site / "docs" / "registered.html").read_text(encoding="utf-8")
    schemes = {one.name for one in registered_schemes()} | set(registered_epochs())
    for name in {one.name for one in registered_mechanisms()} | schemes | {"mean", "gini"}:
        assert f'<span class="pre">{name}</span>' in page, name

    for html in site.rglob("*.html"):
        assert from_elsewhere(html.read_text(encoding="utf-8")) == [], html
    assert broken_links(site) == []
    assert (site / "searchindex.js").stat().st_size > 10_000
    assert (site / "index.html").is_file()


@pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser")
def test_every_kind_of_page_can_be_read(site: Path, tmp_path: Path) -> None:
    search = (site / "search.html").as_uri() + "?q=epsilon"
    narrow = [search, *((site / f"{kind}.html").as_uri() for kind in KINDS)]
    found = {}
    with browser(tmp_path) as window:
        for width, addresses in ((390, narrow), (1280, narrow[:5])):
            for address in addresses:
                look(window, width, dark=False)
                window.get(address)
                if "?q=" in address:
                    until(window, "return document.querySelector('#search-results .highlighted')")
                for dark in (False, True):
                    look(window, width, dark=dark)
                    theme = "dark" if dark else "light"
                    until(window, f"return document.documentElement.dataset.theme === '{theme}'")
                    found[address, width, dark] = faults(window)
        window.get((site / "docs" / "api.html").as_uri() + "#mustdp.account")
        under, top = window.execute_script(
            "return [document.querySelector('.bd-header').getBoundingClientRect().bottom,"
            "document.getElementById('mustdp.account').getBoundingClientRect().top]"
        )
    assert {where: what for where, what in found.items() if what} == {}
    assert under - 1 < top < 900  # parts of a pixel


@pytest.mark.skipif(bool(no_axe()), reason=no_axe() or "axe-core is there")
def test_pages_are_accessible(site: Path, tmp_path: Path) -> None:
    """The page of all names is left out: it is made like the others, and axe takes minutes."""
    found = {}
    with browser(tmp_path) as window:
        for kind in [kind for kind in KINDS if kind not in ("docs/api", "genindex")]:
            window.get((site / f"{kind}.html").as_uri())
            found[kind] = violations(window)
    assert {where: what for where, what in found.items() if what} == {}


def test_loads_and_links_would_be_noticed(tmp_path: Path) -> None:
    fetched = '<link href="//fonts.example/a.css"><script src="https://cdn.example/m.js"></script>'
    assert len(from_elsewhere(fetched)) == 2
    assert from_elsewhere('<a href="https://arxiv.org">paper</a><img src="../own.png">') == []
    (tmp_path / "a.html").write_text('<a href="b.html#x">1</a><a href="b.html#y">2</a>', "utf-8")
    (tmp_path / "b.html").write_text('<p id="x"><a href="c.html">3</a></p>', "utf-8")
    assert sorted(broken_links(tmp_path)) == ["a.html: b.html#y", "b.html: c.html"]


def test_pictures_are_small_and_shown() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tutorials").glob("*.md")]
    shown = "".join(page.read_text(encoding="utf-8") for page in pages)
    pictures = sorted((ROOT / "docs" / "pictures").iterdir())
    assert len(pictures) >= 3
    for picture in pictures:
        assert picture.stat().st_size < 150_000
        assert f"pictures/{picture.name})" in shown


def test_the_citation_knows_the_last_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    released = project["tool"]["hatch"]["version"]["fallback-version"]
    for document in (ROOT / "CITATION.cff", ROOT / "docs" / "citing.md"):
        text = document.read_text(encoding="utf-8")
        found = re.findall(r"^ *version *[:=] *\{?([\d.]+)", text, re.MULTILINE)
        assert found == [released], document.name
        assert "2312.13389" in text
