"""Where tests reach behind public names, once each: what moves in ``src`` is changed here alone.

Tests of behaviour take public names and what is here; tests of one building block import that
block. The first part reads and writes what users meet as text or JSON; the second makes inner
objects from plain arguments; the third puts a failure, a clock or a smaller limit in place of the
real thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from mustdp.types import Plan, Scheme

# Plans and schemes, as ledgers and results write them.


def describe(plan: Plan) -> Any:
    """A plan as it is written in JSON."""
    from mustdp.accounting import plan as plans

    return plans.describe(plan)


def plan_from_description(description: object) -> Plan:
    """The plan that was written."""
    from mustdp.accounting import plan as plans

    return plans.plan_from_description(description)


def scheme_from_description(description: object) -> Scheme:
    """The scheme that was written."""
    from mustdp.sampling import schemes

    return schemes.scheme_from_description(description)


def epoch_from_description(description: object) -> Any:
    """The epoch that was written."""
    from mustdp.sampling import epochs

    return epochs.epoch_from_description(description)


def scheme_by_name(name: str, *, n: int, m: int, b: int | None = None) -> Scheme:
    """The scheme that the command line calls ``name``."""
    from mustdp.sampling import schemes

    return schemes.scheme_by_name(name, n=n, m=m, b=b)


def atoms(plan: Plan) -> Mapping[Any, int]:
    """How often each different step of a plan is taken."""
    from mustdp.accounting import plan as plans

    return plans.atoms(plan)


def steps_of(scheme: Any, steps: int, inner: Plan) -> Plan:
    """So many steps, by whole epochs and what is left of one."""
    from mustdp.accounting import plan as plans

    return plans.steps_of(scheme, steps, inner)


def in_words(plan: Plan) -> str:
    """A plan as it is shown to people."""
    from mustdp.accounting import account

    return account.in_words(plan)


def readable(value: Any, toward: Any, digits: int = 3) -> str:
    """A number as it is printed, rounded to its safe side."""
    from mustdp.numerics import formatting

    return formatting.readable(value, toward, digits)


def percent(value: float, toward: Any) -> str:
    """A chance as it is printed, rounded to its safe side."""
    from mustdp.numerics import formatting

    return formatting.percent(value, toward)


def percent_stated(value: float) -> str:
    """A chance as it was given."""
    from mustdp.numerics import formatting

    return formatting.percent_stated(value)


def digest(value: object, what: str) -> str:
    """The checksum of what is stored as JSON."""
    from mustdp.files import reading

    return reading.digest(value, what)


# Inner objects.


def upper_bound(
    scheme: Scheme, mechanism: Any, epsilon: NDArray[Any], **given: Any
) -> NDArray[Any]:
    """The certified delta of one step, in both directions or one of them."""
    from mustdp.accounting.subsampling import one_step

    return one_step.upper_bound(scheme, mechanism, epsilon, **given)


def batch_key(given: Any = None) -> Any:
    """What decides the batches of a run."""
    from mustdp.randomness import keys

    return keys.batch_key(given)


def noise_source(seed: int | None = None, *, path: tuple[int, ...] = ()) -> Any:
    """A stream of bits for noise."""
    from mustdp.randomness import keys

    return keys.NoiseSource(seed, path=path)


def open_source(data: Any, columns: Any = None, n: int | None = None) -> Any:
    """Data as releases and the bootstrap open them."""
    from mustdp.data import opening

    return opening.open_source(data, columns, n)


def subset_schema(lower: Any, upper: Any, size: float, **given: Any) -> Any:
    """What is public about the subsets of a bootstrap."""
    from mustdp.estimation import schema

    return schema.SubsetSchema(lower, upper, size, **given)


def read_statistic(text: Any) -> Any:
    """The statistic that a text names."""
    from mustdp.estimation.statistics import statistic

    return statistic.read_statistic(text)


def design_with_noise(design: Any, **given: Any) -> Any:
    """The noise of a bootstrap and the plan it is charged for."""
    from mustdp.estimation import bootstrap

    return bootstrap.design_with_noise(design, **given)


def spread_of(design: Any, replicates: Any, noise: float, *more: Any) -> Any:
    """How far the mean of replicates lies from what it estimates."""
    from mustdp.estimation import bootstrap

    return bootstrap.spread_of(design, replicates, noise, *more)


def repeated_pairs(scheme: Scheme) -> float:
    """The chance that two places of a batch hold the same record."""
    from mustdp.estimation import designs

    return designs.repeated_pairs(scheme)


def in_halves(counts: Any, rng: Any) -> Any:
    """Two random halves of a subset."""
    from mustdp.estimation import bootstrap

    return bootstrap.in_halves(counts, rng)


def release_page(result: Any, **given: Any) -> Any:
    """The page of a release."""
    from mustdp.reporting import release_page as pages

    return pages.release_page(result, **given)


def bootstrap_page(result: Any) -> Any:
    """The page of a bootstrap."""
    from mustdp.reporting import release_page as pages

    return pages.bootstrap_page(result)


def explorer(port: int = 0) -> Any:
    """The server behind ``mustdp explore``."""
    from mustdp.reporting import explorer as server

    return server.Explorer(port)


def checkpoint_file(path: str | Path) -> Any:
    """The file in which the trainer saves a run."""
    from mustdp.training.networks import checkpoint

    return checkpoint.CheckpointFile(path)


def keeps_apart(model: Any, loss: Any) -> bool:
    """Whether a model is known to keep records apart, without a trial."""
    from mustdp.training.networks import separation

    return separation.keeps_apart(model, loss)


def write_idx(array: NDArray[Any]) -> bytes:
    """An array in the format of MNIST."""
    from mustdp.training import data as mnist

    return mnist.write_idx(array)


def read_idx(content: bytes, what: str) -> NDArray[Any]:
    """The array that was written."""
    from mustdp.training import data as mnist

    return mnist.read_idx(content, what)


def family_result(lower: float, upper: float, composition: str) -> Any:
    """Bounds as a family of pairs returns them."""
    from mustdp.accounting.bounds import FamilyBounds

    return FamilyBounds(lower, upper, "adaptive", composition, 30, 16)


def closest_tprs(fprs: Any, delta: Any) -> Any:
    """The largest true-positive rates that a profile allows."""
    from mustdp.accounting import risk

    return risk.closest_tprs(fprs, delta)


def one_slope_bound(law: Any, profiles: Any, epsilon: NDArray[Any]) -> NDArray[Any]:
    """The paper's theorem, read as a bound."""
    from mustdp.accounting.subsampling import one_slope

    return one_slope.one_slope_bound(law, profiles, epsilon)


def smallest_noise(spent: Any, target: float, guess: Any = None, **given: Any) -> float:
    """The search behind ``md.calibrate``."""
    from mustdp.calibration import budget

    return budget.smallest_noise(spent, target, guess, **given)


def rough_epsilon(plan: Plan, delta: float, relation: str | None, group: int) -> float | None:
    """What a search takes for the epsilon of a plan before it has computed one."""
    from mustdp.calibration import budget

    return budget.rough_epsilon(plan, delta, relation, group)


def registered_mechanisms() -> Any:
    """Every mechanism that is registered."""
    from mustdp.mechanisms import registry

    return tuple(registry.mechanisms().values())


def registered_schemes() -> Any:
    """Every scheme that is registered."""
    from mustdp.sampling import catalogue

    return catalogue.CATALOGUE


def registered_epochs() -> Any:
    """Every epoch that is registered, by name."""
    from mustdp.sampling import catalogue

    return catalogue.EPOCHS


def extras() -> Any:
    """What each optional dependency is for and brings."""
    from mustdp.extras import EXTRAS

    return EXTRAS


def declared(plan: Plan) -> Any:
    """A plan as a ledger holds it that was declared in advance."""
    from mustdp.ledger import program

    return program.declared(plan)


def warn_of_large_delta(delta: float, n: int) -> None:
    """Warn where a delta is large for so many records."""
    from mustdp.numerics import checks

    checks.warn_of_large_delta(delta, n)


def progress(*words: str) -> Any:
    """The bar that commands show."""
    from mustdp.cli import output

    return output.progress(*words)


def joint_query(parts: Any, picks: Any, *more: Any, **given: Any) -> Any:
    """Several statistics of one subset as one query."""
    from mustdp.estimation import queries

    return queries.JointQuery(parts, picks, *more, **given)


def engine_of(data: Any) -> Any:
    """The engine that holds a table, which is None for data in memory."""
    from mustdp.data import opening

    return opening.engine_of(data)


def load_mnist(data: Any, **given: Any) -> Any:
    """MNIST from files, whose contents need not be the published ones."""
    from mustdp.training import data as mnist

    return mnist.load_mnist(data, **given)


def linear_records(*given: Any) -> Any:
    """The records of a linear model."""
    from mustdp.training.linear import descent

    return descent.LinearRecords(*given)


def training_records(loader: Any) -> Any:
    """The records that a loader holds."""
    import torch

    from mustdp.training.networks import loaders

    return loaders.TrainingRecords(loader, torch.device("cpu"))


def step_noise(key: Any, deviation: float) -> Any:
    """The noise of the steps of a run."""
    from mustdp.training.networks import noise

    return noise.StepNoise(key, deviation)


def fourier_delta(scheme: Scheme, **given: Any) -> Any:
    """The paper's composition by Fourier transforms, which certifies nothing."""
    from mustdp.reproduction import composition

    return composition.fourier_delta(scheme, **given)


def train_classifier(*given: Any, **named: Any) -> Any:
    """What ``mustdp train`` calls."""
    from mustdp.training import classify

    return classify.train_classifier(*given, **named)


def quantile_rule(*given: Any) -> Any:
    """The state of quantile clipping in a run."""
    from mustdp.training.networks import rules

    return rules.QuantileRule(*given)


def page(title: str, **content: Any) -> Any:
    """An HTML page, which writes itself."""
    from mustdp.reporting import pages

    return pages.Page(title, **content)


def page_table(columns: Any, rows: Any) -> Any:
    """A table of a page."""
    from mustdp.reporting import pages

    return pages.PageTable(columns, rows)


def in_browser(address: str) -> Any:
    """Open the address of an explorer."""
    from mustdp.reporting import explorer as server

    return server.in_browser(address)


def look_of(scheme_name: str) -> Any:
    """Colour, line and label of a scheme in pictures."""
    from mustdp.reporting.plots import drawing

    return drawing.look_of(scheme_name)


def new_axes(theme: Any) -> Any:
    """Axes alone in a new figure, on the ground of a theme."""
    from mustdp.reporting.plots import drawing

    return drawing.new_axes(theme)


def training_bar(budget: Any, done: int) -> Any:
    """The line in which a trainer shows its progress."""
    from mustdp.training.networks import events

    return events.TrainingBar(budget, done, show=True)


# What is put in place of things.


def replace_step_noise(
    monkeypatch: pytest.MonkeyPatch,
    replacement: Callable[[Callable[..., None]], Callable[..., None]],
) -> None:
    """Put ``replacement(add)`` in place of ``add(noise, step, sums)`` of a training step."""
    from mustdp.training.networks.noise import StepNoise

    monkeypatch.setattr(StepNoise, "add", replacement(StepNoise.add))


def without_step_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a trainer release its sums as they are."""
    replace_step_noise(monkeypatch, lambda add: lambda noise, step, sums: None)


def replace_noise_words(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Put ``replacement(words)`` in place of ``words(source, count)``, the bits of all noise."""
    from mustdp.randomness.keys import NoiseSource

    monkeypatch.setattr(NoiseSource, "words", replacement(NoiseSource.words))


def join_noises_beyond(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Join steps whose noises hardly differ once there are more than ``count`` of them."""
    monkeypatch.setattr("mustdp.accounting.certify._MANY_KINDS", count)


def replace_upper_moments(monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]) -> None:
    """Put other moments in place of the upper ones of a whole plan."""
    monkeypatch.setattr("mustdp.accounting.certify.UpperSide.whole_log_mgf", replacement)


def replace_calibrate_in_compare(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]
) -> None:
    """Put another calibration of single rows in place of the one of ``md.compare``."""
    monkeypatch.setattr("mustdp.calibration.compare.calibrate", replacement)


def watch_accounts_of_search(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]
) -> None:
    """Put another ``account`` in place of the one that calibration asks."""
    monkeypatch.setattr("mustdp.calibration.budget.account", replacement)


def replace_account_in_ledger(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]
) -> None:
    """Put another ``account`` in place of the one that ledgers ask."""
    monkeypatch.setattr("mustdp.ledger.ledger.account", replacement)


def set_ledger_clock(monkeypatch: pytest.MonkeyPatch, now: str) -> None:
    """Stop the clock of ledger files."""
    monkeypatch.setattr("mustdp.ledger.file.now", lambda: now)


def replace_ledger_show(monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]) -> None:
    """Put another call in place of what ``mustdp ledger show`` does."""
    monkeypatch.setattr("mustdp.cli.ledger._show", replacement)


def replace_serve(monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]) -> None:
    """Put another call in place of waiting for the explorer's browser."""
    monkeypatch.setattr("mustdp.reporting.explorer.Explorer.serve", replacement)


def replace_open_source(monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]) -> None:
    """Put another call in place of what opens the data of a bootstrap."""
    monkeypatch.setattr("mustdp.estimation.bootstrap.open_source", replacement)


def work_in_small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a small bootstrap into many portions, as a large one is."""
    monkeypatch.setattr("mustdp.estimation.bootstrap._LEAST_WORK", 700)
    monkeypatch.setattr("mustdp.estimation.bootstrap._PER_SUBSET", 0)


def draw_in_portions(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Draw batches in portions of this size, as large ones are."""
    monkeypatch.setattr("mustdp.sampling.schemes._PORTION", size)


def replace_attained(
    monkeypatch: pytest.MonkeyPatch, name: str, replacement: Callable[..., Any]
) -> None:
    """Put other attained values in place of a plan's: its ``best`` at a question, its ``curve``."""
    from mustdp.accounting.pld.readoff import LowerCurve

    monkeypatch.setattr(LowerCurve, name, replacement)


def replace_certified_curve(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]
) -> None:
    """Put another curve in place of the certified one of a plan."""
    monkeypatch.setattr("mustdp.accounting.certify.UpperSide.curve", replacement)


def replace_family_bounds(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]
) -> Callable[..., Any]:
    """Put other bounds in place of those of a family of pairs; return what was there."""
    from mustdp.accounting.families import composition

    before = composition.family_bounds
    monkeypatch.setattr(composition, "family_bounds", replacement)
    return before


def replace_direction(monkeypatch: pytest.MonkeyPatch, name: str, replacement: Any) -> None:
    """Put another bound in place of ``remove_direction`` or ``add_direction`` of one step."""
    monkeypatch.setattr(f"mustdp.accounting.subsampling.one_step.{name}", replacement)


def replace_search_in_calibrate(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]
) -> None:
    """Put another search in place of the one of ``md.calibrate``."""
    monkeypatch.setattr("mustdp.calibration.budget.smallest_noise", replacement)


def replace_quick_certificate(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]
) -> None:
    """Put another epsilon in place of what the beginning of a declared plan costs."""
    monkeypatch.setattr("mustdp.ledger.program.certified_quickly", replacement)


def replace_sizes_in_report(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]
) -> None:
    """Put ``replacement(m, noise, question, grid)`` in place of a report's map of sizes."""
    from mustdp.reporting import findings

    def epsilons_at(m: int, noise_multiplier: float, question: Any) -> Any:
        grid = findings.grid_of(question.n, question.b, question.m)[0]
        return replacement(m, noise_multiplier, question, grid)

    monkeypatch.setattr(findings, "epsilons_at", epsilons_at)


def replace_table_in_explorer(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]
) -> None:
    """Put another answer in place of the explorer's table as CSV."""
    from mustdp.reporting import explorer as server

    monkeypatch.setitem(server._MADE, ("table", "csv"), replacement)


def replace_floats(monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]) -> None:
    """Put another call in place of what turns columns in memory into numbers."""
    monkeypatch.setattr("mustdp.data.columns.floats", replacement)


def read_parquet_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a small Parquet file in many batches, as a large one is."""
    monkeypatch.setattr("mustdp.data.parquet._BATCH_VALUES", 1)


def replace_linear_noise(
    monkeypatch: pytest.MonkeyPatch,
    replacement: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> None:
    """Put ``replacement(released)`` in place of ``released(noise, total)`` of a linear model."""
    from mustdp.training.linear.descent import ExactNoise

    monkeypatch.setattr(ExactNoise, "released", replacement(ExactNoise.released))


def replace_linear_data_check(
    monkeypatch: pytest.MonkeyPatch, replacement: Callable[..., Any]
) -> None:
    """Put another call in place of the first look of a linear model at its data."""
    monkeypatch.setattr("mustdp.training.linear.models.validate_data", replacement)


def replace_charged_run(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    replacement: Callable[[Callable[..., None]], Callable[..., None]],
) -> None:
    """Put another call in place of ``charge`` or ``advance`` of a run with a ledger file."""
    from mustdp.ledger.file import ChargedRun

    monkeypatch.setattr(ChargedRun, name, replacement(getattr(ChargedRun, name)))


def reproduce_figure_3_and(monkeypatch: pytest.MonkeyPatch, *item: Any) -> None:
    """Let the paper's experiments be Figure 3 and one item of these arguments."""
    from mustdp.reproduction import cells, report

    items = (*report.items_called(("figure-3",)), cells.Item(*item))
    monkeypatch.setattr(report, "ITEMS", items)


def shorten_cifar10(monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    """Let every file of CIFAR-10 hold this many records."""
    monkeypatch.setattr("mustdp.training.data.CIFAR10_RECORDS", records)


def replace_in_release(
    point: str, replacement: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Put another call in place of the charge, the noise or the table of ``mustdp release``.

    For good: in a child that ends itself.
    """
    from mustdp.cli import release as command
    from mustdp.estimation import release
    from mustdp.estimation.queries import JointSums

    points: dict[str, tuple[Any, str]] = {
        "charge": (release, "charge_release"),
        "noise": (JointSums, "released"),
        "table": (command, "write_files"),
    }
    owner, name = points[point]
    setattr(owner, name, replacement(getattr(owner, name)))


#: What accounts have answered, for tests that ask the same in several ways.
_ANSWERS: dict[Any, Any] = {}


def remember_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let equal questions about equal plans be computed once in this process.

    For tests of commands and pages, which ask as text, as JSON and in Python: a command that
    passes on another plan, option or question still gets another answer.
    """
    from mustdp.accounting.account import Account
    from mustdp.accounting.families import composition

    def remembering(name: str) -> Callable[..., Any]:
        compute = getattr(Account, name)

        def answer(self: Any, *given: Any, **named: Any) -> Any:
            asked = (
                self.plan, self.relation, self.accuracy, self._strict, self.method, self._chosen,
                self.dimension, self.group, tuple(composition._WORK.items()),
            )  # fmt: skip
            try:
                key = hash((name, *asked)), name, *asked, given, tuple(named.items())
                known = key in _ANSWERS
            except TypeError:  # lists
                return compute(self, *given, **named)
            if not known:
                _ANSWERS[key] = compute(self, *given, **named), self.composition
            found, self.composition = _ANSWERS[key]
            return found

        return answer

    for name in ("_bounds", "certified_epsilon", "tightest_epsilon", "certified_advantage"):
        monkeypatch.setattr(Account, name, remembering(name))
