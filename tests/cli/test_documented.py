"""Every command and option is documented, and every documented example is true."""

from __future__ import annotations

import ast
import doctest
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mustdp as md
from mustdp.mechanisms.registry import arguments
from mustdp.sampling.catalogue import EPOCH_NAMES, NAMES
from tests.cli.running import GROUPS, PROGRAM, STATUSES, STATUSES_IN_WORDS, Outcome, Run
from tests.site import documented

pytestmark = pytest.mark.usefixtures("remembered_accounts")

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
GROUP = PROGRAM


#: Most of a minute for all schemes; some of its rows are looked at below.
SLOW = ("mustdp compare -n 60000 ",)
#: Commands that are shown more than once are run once.
outcomes: dict[str, Outcome] = {}


def examples() -> Iterator[tuple[str, str]]:
    """Commands and their outputs in README and in the page on the command line."""
    for document in (ROOT / "README.md", ROOT / "docs" / "cli.md"):
        for command, output, _ in documented.examples(document):
            yield command, output


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_every_command_has_its_section(name: str) -> None:
    assert f"## mustdp {name}\n" in REFERENCE
    assert GROUP.commands[name].help


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_every_option_is_named_and_explained(name: str) -> None:
    """Those of mechanisms, which register themselves, are explained by a table of the site."""
    generated = {one.option for one in arguments().values()}
    for parameter in GROUP.commands[name].params:
        assert parameter.help, parameter.opts
        for option in {*parameter.opts} - generated:
            assert re.search(
                rf"`{re.escape(option)}\b|[ \[(]{re.escape(option)}[\] ]", REFERENCE
            ), option


def test_no_section_without_a_command() -> None:
    assert set(re.findall(r"^## mustdp (\S+)$", REFERENCE, re.MULTILINE)) == set(GROUP.commands)


@pytest.mark.parametrize(
    ("command", "output"),
    [
        pytest.param(*one, marks=pytest.mark.slow) if one[0].startswith(SLOW) else one
        for one in examples()
    ],
)
def test_documented_output_is_the_real_output(
    run: Run, command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some of them write files
    program, *arguments = shlex.split(command)
    assert program == "mustdp"
    if command not in outcomes:
        outcomes[command] = run(*arguments)
    outcome = outcomes[command]
    assert outcome.status == 0
    if "--json" not in arguments:
        documented.assert_same_words(outcome.out, output)
    elif arguments[0] in ("amplify", "draw"):
        assert_alike(json.loads(outcome.out), json.loads(output), rel=1e-9)
    else:
        assert_alike(json.loads(outcome.out), json.loads(output), rel=0.01)


def plain() -> Iterator[str]:
    """Commands on accounts and on people.csv that pages show without what they print."""
    for page in ("README.md", "docs/cli.md", "docs/epochs.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for line in re.findall(r"^    (mustdp (?:.*\\\n)*.*)$", text, flags=re.MULTILINE):
            known = " people.csv" in line or "/people.csv" in line or page == "docs/epochs.md"
            if known and not re.search(r"[\[|]", line):
                yield re.sub(r" *\\\n *", " ", line)


def test_there_are_plain_commands() -> None:
    assert len([*plain()]) == 6


@pytest.mark.parametrize("command", [*plain()])
def test_commands_that_are_shown_without_output_run(
    run: Run, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copy(ROOT / "examples" / "people.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    outcome = run(*shlex.split(command)[1:])
    assert outcome.status == 0, outcome.err


@pytest.mark.parametrize("scheme", ["poisson", "wor", "must-ow"])
def test_the_noise_that_compare_documents_is_just_enough(scheme: str) -> None:
    """To half a percent, which is what an account asked alone may differ by."""
    n, b, m, steps = 60_000, 3000, 2000, 300
    command, output = next(one for one in examples() if one[0].startswith(SLOW))
    assert f"-n {n} -b {b} -m {m} --steps {steps} --delta 1e-5 --epsilon 2" in command
    noise = {line.split()[0]: float(line.split()[3]) for line in output.splitlines()[2:9]}
    made = {"poisson": md.poisson(n, m / n), "wor": md.wor(n, m), "must-ow": md.must_ow(n, b, m)}
    for factor, low, high in ((1.0, 1.99, 2.01), (0.98, 2.01, 2.2)):
        step = md.subsample(made[scheme], md.gaussian(noise_multiplier=factor * noise[scheme]))
        plan = md.repeat(steps, step)
        bound = md.account(plan, relation="replace_one", composition="quick").epsilon(1e-5)
        assert low < bound.upper < high


def assert_alike(ours: Any, documented: Any, rel: float) -> None:
    """Equal, floats as far as a platform or a finer grid does not decide them."""
    if isinstance(documented, dict):
        assert list(ours) == list(documented)
        for key in documented.keys() - {"numerical_gap"}:
            assert_alike(ours[key], documented[key], rel)
    elif isinstance(documented, list):
        assert len(ours) == len(documented)
        for mine, theirs in zip(ours, documented, strict=True):
            assert_alike(mine, theirs, rel)
    elif isinstance(documented, float):
        assert ours == pytest.approx(documented, rel=rel, abs=0)
    else:
        assert ours == documented


def test_the_first_examples_are_checked() -> None:
    commands = [command for command, _ in examples()]
    assert "$ mustdp account" in (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("account", "compare", "calibrate"):
        assert f"$ mustdp {name}" in REFERENCE
        assert any(command.startswith(f"mustdp {name} ") for command in commands)


def test_python_examples_in_the_readme() -> None:
    done = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert done.attempted > 5
    assert done.failed == 0


def test_links_in_the_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def _help(command: str, option: str) -> str:
    [found] = [one.help for one in GROUP.commands[command].params if option in one.opts]
    return str(found)


def test_defaults_of_relations_and_shifts_are_those_of_the_schemes() -> None:
    schemes: list[Any] = [md.poisson(9, 0.5), md.wor(9, 3), md.wr(9, 3), md.must_ow(9, 5, 3),
               md.must_ww(9, 5, 3), md.must_wo(9, 5, 3), md.must_oo(9, 5, 3),
               md.truncated_poisson(9, 0.5, 6), md.random_allocation(9, 3),
               md.shuffle(9, 3)]  # fmt: skip
    assert {one.name for one in schemes} == {*NAMES, *EPOCH_NAMES}
    noise = md.gaussian(noise_multiplier=1.0)
    plans = {one.name: md.subsample(one, noise) for one in schemes}
    default = {name for name, one in plans.items() if md.account(one).relation == "add_remove"}
    one_copy = {
        name for name, one in plans.items() if md.account(one, relation="add_remove").shift == 1.0
    }
    assert default == {"poisson", "truncated-poisson", "allocation"}
    assert one_copy == default | {"shuffle"}
    for command in ("account", "risk", "calibrate", "train"):
        *_, said = _help(command, "--relation").partition("Default: ")
        named, _, rest = said.removeprefix("add-remove for ").partition("; ")
        assert (set(named.split(", ")), rest) == (default, "replace-one otherwise.")
    *_, said = _help("account", "--noise-multiplier").partition("by 1/Z under add-remove for ")
    assert set(re.findall(r"[a-z-]+", said.partition(".")[0])) - {"and"} == one_copy
    for command in ("release", "plan"):
        assert "poisson" not in _help(command, "--relation").lower()


def test_every_exit_status_is_documented() -> None:
    statuses = set(STATUSES)
    documented = set(map(int, re.findall(r"^\| (\d+) \|", REFERENCE, re.MULTILINE)))
    assert statuses <= documented
    assert set(map(int, re.findall(r"status (\d)", str(PROGRAM.epilog)))) == statuses
    told = re.findall(r"^(\d+)  ", str(STATUSES_IN_WORDS), re.MULTILINE)
    assert set(map(int, told)) >= statuses


def test_commands_do_not_import_each_other() -> None:
    """What several of them share is in options, data_options, parameters or output."""
    modules = {command.__module__ for commands in GROUPS.values() for command in commands}
    for module in modules:
        source = (ROOT / "src" / Path(*module.split("."))).with_suffix(".py")
        tree = ast.parse(source.read_text(encoding="utf-8"))
        imported = {
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names))
        }
        assert not imported & modules, module


def test_options_are_in_panels_named_for_what_they_are() -> None:
    def panel(command: str, option: str) -> Any:
        [found] = [one for one in GROUP.commands[command].params if option in one.opts]
        return found.rich_help_panel

    for command in ("release", "bootstrap", "plan"):
        assert panel(command, "--column") == "Data"
        assert panel(command, "--lower") == panel(command, "--statistic") == "Statistics"
    for command in ("release", "bootstrap", "train"):
        assert panel(command, "--ledger") == "Run"
    assert panel("bootstrap", "--replicates") == "Resampling"
    assert panel("release", "--noise-multiplier") == "Accounting"


def test_the_help_lists_every_command_once_in_its_group(run: Run) -> None:
    grouped = [command.__name__ for commands in GROUPS.values() for command in commands]
    assert sorted(grouped) == sorted(GROUP.commands)
    out = run("--help").out
    for title in GROUPS:
        assert f" {title} " in out
    assert re.findall(r"^│ (\w+) ", out, re.MULTILINE) == grouped


@pytest.mark.parametrize("name", ["", *sorted(GROUP.commands)])
def test_flags_are_shown_without_a_type(run: Run, name: str) -> None:
    out = run(*name.split(), "--help").out
    assert "--json" in out
    assert "<bool>" not in out


@pytest.mark.parametrize("name", sorted(GROUP.commands))
def test_ranges_are_public_and_deltas_below_one_in_n(name: str) -> None:
    for parameter in GROUP.commands[name].params:
        if set(parameter.opts) & {"--lower", "--upper"}:
            assert "public range" in parameter.help
        if "--delta" in parameter.opts:
            assert "below 1/n" in parameter.help


def test_a_letter_means_one_thing() -> None:
    """In help texts; an epsilon is E, and a delta D, under every name."""
    alike = {"--each": "--epsilon", "--mechanism-epsilon": "--epsilon",
             "--mechanism-delta": "--delta"}  # fmt: skip
    meant: dict[str, set[str]] = {}
    for command in GROUP.commands.values():
        for parameter in command.params:
            if len(str(parameter.metavar)) == 1:
                name = parameter.opts[0]
                meant.setdefault(str(parameter.metavar), set()).add(alike.get(name, name))
    assert len(meant) > 10
    assert not {letter: names for letter, names in meant.items() if len(names) > 1}


def test_long_lists_of_words_end_in_a_link() -> None:
    for command, option in (("account", "--scheme"), ("account", "--composition"),
                            ("release", "--statistic"), ("bootstrap", "--statistic")):  # fmt: skip
        said = _help(command, option)
        assert said.count(". ") <= 1
        assert "docs/cli.md explains them" in said


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("compare", "-n"),
        ("report", "-n"),
        ("plan --epsilon 1", "-n"),
        ("amplify --scheme wr -n 9 -m 3 --shift 1", "--epsilon"),
        ("bootstrap ages.csv", "--lower"),
        ("account --scheme wr -n 9 -m 3 --shift 1 --delta 1e-5", "--steps"),
        ("calibrate --scheme wr -n 9 -m 3 --steps 3 --epsilon 1", "--delta"),
        ("release ages.csv --epsilon 1", "--delta"),
    ],
)
def test_what_is_refused_as_missing_is_marked_as_required(
    run: Run, line: str, missing: str
) -> None:
    outcome = run(*line.split())
    assert outcome.status == 2
    assert outcome.err.startswith(f"mustdp: {missing} is missing")
    assert "required" in _help(line.split()[0], missing).lower()
