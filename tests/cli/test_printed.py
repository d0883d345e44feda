"""Every number that a command prints is on the safe side of the one in its JSON.

Numbers are matched by their label. A decimal number that no label accounts for fails, and so does
a label whose numbers would have come out the same rounded to nearest at every setting: a law that
cannot fail says nothing.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mustdp
from mustdp.numerics.formatting import noise_used, readable
from tests.cli.running import Run

pytestmark = pytest.mark.usefixtures("remembered_accounts")

NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
#: Citations and records' own limits, which are no results.
_NO_RESULTS = re.compile(r"arXiv \d+\.\d+|\d{4}-\d\d-\d\d[ T\d:]*")


class Printed:
    """The text of one command beside its JSON."""

    def __init__(self, text: str, data: Any, telling: dict[str, bool]) -> None:
        self.text, self.data, self._telling = text, data, telling
        self._left = text
        self.drop(_NO_RESULTS.pattern)

    def number(self, text: str, value: float, side: str, label: str) -> None:
        """One number, on its side of the value."""
        shown, true = Decimal(text.removesuffix(" %")), Decimal(value)
        if text.endswith(" %"):
            shown = shown.scaleb(-2)
        if side == "given":
            assert float(shown) == value, label
            return
        assert float(shown) == pytest.approx(value, rel=0.011), label
        if side == "nearest":
            return
        near = Context(prec=len(shown.as_tuple().digits)).create_decimal(true)
        self._telling[label] = self._telling.get(label, False) or near != shown
        right = float(shown) == value or (shown >= true if side == "up" else shown <= true)
        assert right, f"{label}: {text} for {value!r}"

    def said(self, pattern: str, values: float | Iterable[float], side: str) -> None:
        """Every number that ``#`` stands for in the pattern, in the order of the text."""
        wanted = [values] if isinstance(values, int | float) else list(values)
        regular = re.compile(pattern.replace("#", f"({NUMBER}(?: %)?)"))
        found = list(regular.finditer(self.text))
        assert len(found) == len(wanted), pattern
        for one, value in zip(found, wanted, strict=True):
            self.number(one[1], value, side, pattern)
            self._blank(*one.span(1))

    def table(self, rows: Sequence[Any], **sides: tuple[str, str]) -> None:
        """A table with a line for each row; a column by its name, spaces as underscores."""
        lines = self.text.splitlines()
        first = next(k for k, line in enumerate(lines) if _cells(line)[0] in sides)
        names = _cells(lines[first])
        assert set(names) == set(sides), names
        for row, line in zip(rows, lines[first + 1 :][: len(rows)], strict=True):
            for name, cell in zip(names, _cells(line), strict=True):
                side, path = sides[name]
                if side != "words":
                    value = row
                    for key in path.split("."):
                        value = value[int(key) if isinstance(value, list) else key]
                    self.number(cell, value, side, name)
            self.drop(re.escape(line))

    def drop(self, pattern: str) -> None:
        """What the pattern finds is held by other means."""
        for one in re.finditer(pattern, self.text):
            self._blank(*one.span())

    def _blank(self, first: int, end: int) -> None:
        self._left = self._left[:first] + " " * (end - first) + self._left[end:]

    def done(self) -> None:
        """No decimal number is left that was not held against the JSON."""
        assert re.findall(r"(?<![\w.])\d+(?:\.\d+|e-\d+)(?!\w)", self._left) == []


def _cells(line: str) -> list[str]:
    return [cell.replace(" ", "_") if cell[:1].isalpha() else cell
            for cell in re.split(r" {2,}", line.strip())]  # fmt: skip


class Law:
    """Runs commands, each as text and as JSON."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.telling: dict[str, bool] = {}

    def __call__(self, line: str) -> Printed:
        plain, data = self._run(*shlex.split(line)), self._run(*shlex.split(line), "--json")
        assert (plain.status, data.status) == (0, 0), plain.err + data.err
        return Printed(plain.out, json.loads(data.out), self.telling)

    def check(self) -> None:
        """Every label was met with a number that is rounded to nearest on its wrong side."""
        assert {name for name, telling in self.telling.items() if not telling} == set()


@pytest.fixture
def law(run: Run) -> Law:
    return Law(run)


@pytest.fixture
def ages(tmp_path: Path) -> Path:
    values = np.random.default_rng(0).uniform(20, 80, 200)
    path = tmp_path / "ages.csv"
    path.write_text("age\n" + "".join(f"{value:.1f}\n" for value in values))
    return path


DELTA = "--delta 1.2345649e-3"
SIZES = "--scheme must-ow -n 100 -b 30 -m 10"


@pytest.mark.parametrize("question", ["epsilon", "delta"])
def test_account(law: Law, question: str) -> None:
    given = {"epsilon": "delta", "delta": "epsilon"}[question]
    at = {"delta": "1.2345649e-3", "epsilon": "0.31234567891"}[given]
    for noise in ("4.1234567", "3.3219", "2.7182818", "5.5"):
        printed = law(
            f"account {SIZES} --noise-multiplier {noise} --steps 2 --composition pair "
            f"--{given} {at}"
        )
        data = printed.data
        sides = {
            given: ("given", given),
            f"{question},_lower": ("down", f"{question}.lower"),
            f"{question},_upper": ("up", f"{question}.upper"),
        }
        printed.table([data], **sides)
        printed.said("noise multiplier #,", data["noise_multiplier"], "given")
        printed.said("shift # per copy", data["shift"], "up")
        printed.done()
    law.check()


def test_account_of_other_kinds(law: Law) -> None:
    for noise in ("2.1234567", "3.25", "2.75", "2.6"):
        printed = law(f"account --scheme shuffle -n 60 -m 20 --epochs 1 {DELTA} "
                      f"--noise-multiplier {noise}")  # fmt: skip
        data = printed.data
        sides = {"delta": ("given", "delta"), "epsilon,_lower": ("down", "epsilon.lower"),
                 "epsilon,_upper": ("up", "epsilon.upper")}  # fmt: skip
        printed.table([data], **sides)
        printed.said("noise multiplier #,", data["noise_multiplier"], "given")
        printed.said("shift # per copy", data["shift"], "up")
        printed.said("epsilon = # here", data["poisson"]["epsilon_promised"], "up")
        printed.said("bound, # times", data["poisson"]["factor_attained"], "down")
        printed.done()
        printed = law(f"account --scheme wor -n 60 -m 20 --steps 2 {DELTA} --method paper "
                      f"--noise-multiplier {noise}")  # fmt: skip
        data = printed.data
        sides = {"delta": ("given", "delta"),
                 "attained_epsilon,_from": ("down", "epsilon.attained_lower"),
                 "to": ("up", "epsilon.attained_upper")}  # fmt: skip
        printed.table([data], **sides)
        printed.said("noise multiplier #,", data["noise_multiplier"], "given")
        printed.said("shift # per copy", data["shift"], "up")
        printed.done()
    printed = law(f"account --scheme poisson -n 60 --rate 0.123456789 --steps 2 {DELTA} "
                  "--mechanism laplace --shift 0.123456789")  # fmt: skip
    printed.said("rate #;", printed.data["rate"], "given")
    printed.said("shift # per copy", printed.data["shift"], "given")
    law.check()


def test_amplify(law: Law) -> None:
    epsilons = "--epsilon 0.0512345678 --epsilon 0.5 --epsilon 1.3 --epsilon 2.7"
    for noise in ("4.1234567", "2.2", "1.7"):
        sizes = SIZES.replace("-b 30", f"-b {30 + int(10 * float(noise))}")
        printed = law(f"amplify {sizes} --noise-multiplier {noise} {epsilons}")
        data = printed.data
        printed.said("eta = #", data["eta"], "up")
        printed.said("distinct records = #", data["expected_distinct"], "nearest")
        sides = {"epsilon": ("given", "epsilon"), "delta": ("up", "delta"),
                 "epsilon'": ("up", "epsilon_prime"), "delta'": ("up", "delta_prime"),
                 "kind": ("words", ""), "ratio": ("up", "ratio"),
                 "difference": ("up", "difference")}  # fmt: skip
        printed.table(data["rows"], **sides)
        printed.said("shift # per copy", data["shift"], "up")
        printed.done()
    law.check()


def test_calibrate(law: Law) -> None:
    for epsilon in ("1.2345678", "0.61", "2.3456", "1.71"):
        printed = law(f"calibrate --scheme wor -n 100 -m 10 --steps 1 --epsilon {epsilon} {DELTA}")
        data = printed.data
        sides = {"noise_multiplier": ("up", "noise_multiplier"), "delta": ("given", "delta"),
                 "epsilon,_lower": ("down", "epsilon.lower"),
                 "epsilon,_upper": ("up", "epsilon.upper")}  # fmt: skip
        printed.table([data], **sides)
        printed.said("noise, noise multiplier #,", data["noise_multiplier"], "up")
        printed.said("shift # per copy", data["shift"], "down")
        printed.done()
    printed = law("calibrate --solve-for steps --scheme wor -n 100 -m 10 --epsilon 1.5 "
                  f"--noise-multiplier 8.123456789 {DELTA}")  # fmt: skip
    printed.said("noise, noise multiplier #,", printed.data["noise_multiplier"], "given")
    printed.said("shift # per copy", printed.data["shift"], "up")
    law.check()


def risks(printed: Printed) -> None:
    """The table of a risk and its two sentences."""
    data = printed.data
    half, small = (
        [one for one in data["suspicion"] if one["prior"] == prior] for prior in (0.5, 0.01)
    )
    rows = [
        {"tpr": found, "half": one, "small": other}
        for found, one, other in zip(data["tpr"], half, small, strict=True)
    ]
    sides = {"false_accusations": ("given", "tpr.fpr"), "found,_at_least": ("down", "tpr.lower"),
             "at_most": ("up", "tpr.upper"), "50 % becomes": ("up", "half.upper"),
             "1 % becomes": ("up", "small.upper")}  # fmt: skip
    printed.table(rows, **sides)
    place = min(range(len(rows)), key=lambda index: abs(rows[index]["tpr"]["fpr"] - 0.01))
    accuracy = 0.5 * (1.0 + data["advantage"]["upper"])
    printed.said("in at most # of cases", accuracy, "up")
    printed.said("falsely accuse # of", rows[place]["tpr"]["fpr"], "given")
    printed.said("find at most # of", rows[place]["tpr"]["upper"], "up")
    printed.said("50 % to at most # and", rows[place]["half"]["upper"], "up")
    printed.said("of 1 % to at most #", rows[place]["small"]["upper"], "up")


def test_risk(law: Law) -> None:
    for noise in ("4.1234567", "2.5", "7.7", "2.2"):
        printed = law(f"risk --scheme wor -n 100 -m 10 --noise-multiplier {noise} --steps 1 "
                      "--fpr 0.0123456789 --order 2 --order 4.123456789")  # fmt: skip
        data = printed.data
        risks(printed)
        printed.said("at least #, at most", data["advantage"]["lower"], "down")
        printed.said(f"at least {NUMBER}, at most #", data["advantage"]["upper"], "up")
        printed.said("mu: #", data["mu"], "up")
        printed.said("rho: #", data["rho"], "up")
        printed.said(r"# \(order", [one["upper"] for one in data["renyi"]], "up")
        printed.said(r"\(order #\)", [one["order"] for one in data["renyi"]], "given")
        printed.said("noise multiplier #,", data["noise_multiplier"], "given")
        printed.said("shift # per copy", data["shift"], "up")
        # What the summaries mean is in the JSON in the same words.
        for meaning in data["meaning"].values():
            printed.drop(re.escape(meaning))
        printed.done()
    law.check()


def test_calibrate_to_a_risk(law: Law) -> None:
    for target in ("0.1225", "0.15", "0.19", "0.25"):
        printed = law(f"calibrate --scheme poisson -n 9 --rate 1 --steps 1 --advantage {target}")
        risks(printed)
        for pattern in ("; noise multiplier #", "noise, noise multiplier #,"):
            printed.said(pattern, printed.data["noise_multiplier"], "up")
        printed.said("shift # per copy", printed.data["shift"], "down")
        printed.done()
    law.check()


@pytest.mark.parametrize("same", ["--epsilon 1.12345678", "--noise-multiplier 5.1234567890123456"])
def test_compare(law: Law, same: str) -> None:
    printed = law(f"compare -n 14 -b 6 -m 3 --steps 1 {DELTA} {same} --without-epochs")
    data = printed.data
    printed.said("delta #,", data["delta"], "given")
    noise = "up" if "epsilon" in same else "given"
    sides = {"scheme": ("words", ""), "eta": ("up", "eta"),
             "distinct": ("nearest", "expected_distinct"), "noise": (noise, "noise_multiplier"),
             "epsilon,_lower": ("down", "epsilon.lower"),
             "epsilon,_upper": ("up", "epsilon.upper")}  # fmt: skip
    printed.table(data["rows"], **sides)
    printed.done()


def test_plan(law: Law) -> None:
    column = "--column age --lower 0 --upper 100 --statistic mean --delta 1.2345649e-6"
    for target in ("--epsilon 0.5123456789", "--width 3.3", "--width 4.1", "--width 5.7"):
        printed = law(f"plan -n 1000 {column} {target}")
        epsilon = "given" if "epsilon" in target else "up"
        sides = {"epsilon": (epsilon, "epsilon"), "estimate_of": ("words", ""),
                 "width": ("up", "width"), "of_value": ("words", ""),
                 "standard_error": ("up", "standard_error"),
                 "noise_share": ("words", "")}  # fmt: skip
        printed.table(printed.data["rows"], **sides)
        printed.said("of the # interval", printed.data["level"], "given")
        printed.done()
    law.check()


def estimated(printed: Printed, cells: Iterable[Sequence[str]]) -> None:
    """Value, standard error and interval of each estimate: outwards."""
    for (value, error, low, high), one in zip(cells, printed.data["estimates"], strict=True):
        printed.number(value, one["estimate"], "nearest", "value")
        printed.number(error, one["standard_error"], "up", "standard error")
        printed.number(low, one["interval"][0], "down", "interval, lower")
        printed.number(high, one["interval"][1], "up", "interval, upper")


ROW = rf"({NUMBER}) +({NUMBER}) +\[({NUMBER}), ({NUMBER})\] +\d+ %"


@pytest.mark.parametrize("command", ["release", "bootstrap"])
@pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease")
def test_estimates(law: Law, command: str, ages: Path, tmp_path: Path) -> None:
    design = "" if command == "release" else "--design subsampling -m 20 --replicates 5"
    for seed in range(5):
        target = f"--epsilon {1.2345678 + 0.31 * seed!r} --delta 1.2345649e-6 --level 0.912345"
        printed = law(f"{command} {ages} --column age --lower 0 --upper 100 --statistic mean "
                      f"--statistic sd {design} {target} --seed {seed}")  # fmt: skip
        spent = printed.data["privacy"]
        estimated(printed, re.findall(ROW, printed.text))
        printed.drop(ROW)
        printed.said("# interval", printed.data["level"], "given")
        printed.said("at delta #:", spent["delta"], "given")
        printed.said("at least #, at most", spent["epsilon_without_seed"]["lower"], "down")
        printed.said(f"at least {NUMBER}, at most #", spent["epsilon_without_seed"]["upper"], "up")
        printed.said("noise, noise multiplier #", spent["noise_multiplier"], "down")
        printed.done()
        if command == "release":
            for option in ("--latex", "--report"):
                out = tmp_path / f"{seed}{option}"
                law(f"release {ages} --column age --lower 0 --upper 100 --statistic mean "
                    f"--statistic sd {target} --seed {seed} {option} {out}")  # fmt: skip
                wanted = re.findall(ROW, printed.text)
                text = re.sub(r"<[^>]*>|[\[\],&*]", " ", out.read_text())
                for cells in wanted:
                    assert re.search(r"\s+".join(map(re.escape, cells)), text), option
                if seed:
                    break
    law.check()


# Whether the noise dominates so few replicates is up to the noise.
@pytest.mark.filterwarnings("ignore::mustdp.types.InferenceNote")
@pytest.mark.parametrize("bootstrap", [False, True])
def test_results_in_python(bootstrap: bool, ages: Path) -> None:
    telling: dict[str, bool] = {}
    for epsilon in (1.2345678, 0.91, 2.3, 1.7):
        common: dict[str, Any] = {"lower": 0, "upper": 100, "epsilon": epsilon, "delta": 1.2345e-6}
        values = np.loadtxt(ages, skiprows=1)
        # Noise would decide whether the law can fail.
        fixed = {"value": 50.123456, "standard_error": 1.23411, "interval": (40.98769, 60.12341)}
        result: Any = (
            mustdp.private_bootstrap(values, "mean", design=mustdp.wor(200, 20), replicates=5,
                                     **common)
            if bootstrap
            else mustdp.private_release(values, "mean", **common)
        )  # fmt: skip
        estimates = tuple(replace(one, **fixed) for one in result.estimates)
        result = replace(result, estimates=estimates)
        printed = Printed(str(result), result.as_dict(), telling)
        estimated(printed, re.findall(ROW, printed.text))
        printed.drop(ROW)
        privacy = printed.data["privacy"]
        printed.said(r"\(#, ", privacy["epsilon"]["upper"], "up")
        printed.said(", #\\)-diff", privacy["delta"], "given")
        printed.said("noise multiplier #", privacy["noise_multiplier"], "down")
        printed.said("# interval", result.level, "given")
        printed.done()
    assert all(telling.values()), telling


def test_ledger(law: Law, run: Run, tmp_path: Path) -> None:
    for epsilon, noise in ((3.12345678, 3.7), (5.5, 2.3), (5.3, 4.9), (6.0, 2.9)):
        path = tmp_path / f"{noise}.ledger"
        with mustdp.Ledger.open(path, epsilon=epsilon, delta=1.2345649e-6) as opened:
            opened.charge(mustdp.gaussian(noise_multiplier=noise), label="one")
            text = str(opened)
        printed = law(f"ledger show {path}")
        data = printed.data
        for one in (printed, Printed(text, data, law.telling)):
            one.said("# spent and", data["spent"], "up")
            one.said("and # left", data["left"], "down")
            one.said("of epsilon #", data["limit"]["epsilon"], "given")
            one.said("at delta #", data["limit"]["delta"], "given")
        printed.said("adaptive: #", data["adaptive"], "up")
        printed.said("fixed: #", data["fixed"], "up")
        sides = {"day_(UTC)": ("words", ""), "charges": ("words", ""),
                 "spent_by_then": ("up", "epsilon"), "of_the_limit": ("words", "")}  # fmt: skip
        printed.table(data["timeline"], **sides)
        printed.drop(re.escape(data["data"]))
        printed.done()
        printed = law(f"ledger entries {path}")
        names = ("number", "when_(UTC)", "label", "who", "times")
        sides = dict.fromkeys(names, ("words", "")) | {"spent_by_then": ("up", "epsilon")}
        printed.table(printed.data["entries"], **sides)
        printed.drop(re.escape(data["data"]))
        printed.done()
    law.check()


@pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease")
def test_train(law: Law) -> None:
    for epsilon in ("4.1234567", "3.7", "2.9"):
        printed = law("train digits --scheme wor -m 200 --steps 1 --seed 1 "
                      f"--epsilon {epsilon} {DELTA}")  # fmt: skip
        data = printed.data
        sides = {"test_accuracy": ("nearest", "test_accuracy"),
                 "majority_baseline": ("nearest", "majority_baseline"),
                 "delta": ("given", "delta"),
                 "epsilon,_lower": ("down", "epsilon_without_seed.lower"),
                 "epsilon,_upper": ("up", "epsilon_without_seed.upper")}  # fmt: skip
        printed.table([data], **sides)
        printed.said("noise multiplier #", data["noise_multiplier"], "down")
        printed.done()
    law.check()


def test_audit() -> None:
    from mustdp.cli.audit import _answer
    from mustdp.cli.output import as_text

    telling: dict[str, bool] = {}
    for shift in range(4):
        budget = mustdp.calibrated_budget(mustdp.wor(40, 40), epsilon=1.2345 + shift / 7, steps=1,
                               delta=1.2345649e-5)  # fmt: skip
        found = mustdp.types.Audit(
            epsilon=0.41234 + shift / 7, mu=0.2, certified=budget.spent().epsilon,
            delta=budget.delta, relation=budget.relation, level=0.951234567, chance=0.3,
            contradicted=False, attacker="total", canaries=40, guesses=8, right=6, seeded=False,
        )  # fmt: skip
        answer = _answer(budget, found, {"clip": 1.0, "runs": 1})
        printed = Printed(as_text(answer), answer.data, telling)
        plain = dict.fromkeys(("canaries", "guesses", "right"), ("words", ""))
        printed.table([answer.data], **plain, **{
            "delta": ("given", "delta"), "epsilon,_found": ("down", "empirical.epsilon"),
            "epsilon,_certified": ("up", "certified.upper"),
        })  # fmt: skip
        printed.said("confidence #,", found.level, "given")
        printed.said("noise multiplier #", budget.noise_multiplier, "down")
        printed.done()
        printed = Printed(str(found), answer.data, telling)
        printed.said("at least #", found.epsilon, "down")
        printed.said("at most #", found.certified.upper, "up")
        printed.said("at delta #", found.delta, "given")
        printed.said("confidence #", found.level, "given")
        printed.done()
    assert all(telling.values()), telling


def test_draw_prints_whole_numbers_alone(law: Law) -> None:
    law("draw --scheme must-ow -n 10 -b 5 -m 4 --seed 1").done()


def test_the_numbers_of_noise_lie_on_either_side() -> None:
    assert float(noise_used(0.9022095378339291)) <= 0.9022095378339291


#: Packages whose numbers people read.
READ = (
    "cli", "reporting", "calibration", "ledger/file.py", "ledger/program.py", "ledger/ledger.py",
    "estimation/result.py", "accounting/account.py",
    "accounting/risk.py",
)  # fmt: skip
#: What may be rounded to nearest by a format: sizes, shares, times, limits that are constants.
NEAREST = {
    "_LARGEST", "SMALLEST", "SMALLEST_DELTA", "_PATIENCE", "drawn.width", "expected_distinct",
    "noise_share", "ratio", "seconds", "share", "speed", "statistic",
    "st_size", "trial.test_accuracy",
    "majority_baseline", "value", "low", "high",
}  # fmt: skip


def test_no_other_format_rounds() -> None:
    """Formats round to nearest, so that no number about privacy may have one."""
    root = Path(mustdp.__file__).parent
    files = [
        file
        for name in READ
        for file in ([root / name] if name.endswith(".py") else (root / name).rglob("*.py"))
    ]
    assert len(files) > 30
    found = set()
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for one in ast.walk(tree):
            if isinstance(one, ast.FormattedValue) and one.format_spec is not None:
                spec = ast.unparse(one.format_spec)[2:-1]
                if re.search(r"[gfeE%]$", spec) and not spec.startswith("%"):
                    found.add((file.relative_to(root).as_posix(), ast.unparse(one.value)))
    assert {(file, what) for file, what in found if not any(word in what for word in NEAREST)} == (
        set()
    )
    assert readable(1.0005, "up") == "1.01"
