"""Everything a report says, as numbers, before any of it is put into words or drawn."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from mustdp.accounting.account import Account, account
from mustdp.accounting.bounds import Bounds, Curve
from mustdp.accounting.certify import consistent
from mustdp.accounting.families.composition import StepProfile
from mustdp.accounting.plan import Plan, repeat, steps_of, subsample
from mustdp.accounting.risk import Risk
from mustdp.accounting.subsampling.one_slope import Amplification, amplify
from mustdp.calibration.compare import Comparison, ComparisonRow, compare, distinct_laws, schemes_of
from mustdp.calibration.noise import calibrate
from mustdp.errors import NotCovered, NumericalFailure
from mustdp.execution.processes import Mapper, map_serial
from mustdp.limits import LARGEST_SIZE, MOST_STEPS
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray
from mustdp.progress import Progress
from mustdp.sampling.schemes import Scheme, must_ow, wor

# Draw times, measured: the only numbers of a report that differ from run to run.


_DRAWS = 15
#: No further draw is begun after this many seconds.
_ENOUGH = 0.5
#: Draws of more records than this are not timed, but counted in the batch size all the same.
_LARGEST = 5_000_000


def draw_time(scheme: Scheme) -> float:
    """Median seconds of one draw on this machine, after one that warms up; NaN if not timed.

    What is drawn is thrown away, so a fixed seed does no harm here.
    """
    if scheme.expected_size > _LARGEST:
        return float("nan")
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    scheme.draw(rng)
    seconds: list[float] = []
    while len(seconds) < _DRAWS and (not seconds or time.perf_counter() - start < _ENOUGH):
        begun = time.perf_counter()
        scheme.draw(rng)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


# One scheme at other steps, at another noise, and for the same work.


#: Relative accuracy of what is drawn; bounds are certified whatever it is.
_DRAWN = 0.02


@dataclass(frozen=True)
class Question:
    """What a report is about: the arguments of :func:`mustdp.compare`, Gaussian noise."""

    n: int
    b: int
    m: int
    steps: int
    delta: float
    epsilon: float | None = None
    noise_multiplier: float | None = None
    relation: str = "replace_one"
    group: int = 1


@dataclass(frozen=True)
class SameWork:
    """WOR with as many records as MUSTow has distinct ones, at the guarantee that MUSTow has."""

    m: int
    noise_multiplier: float
    epsilon: Bounds


def plan_of(scheme: Scheme, noise_multiplier: float, steps: int) -> Plan:
    """``steps`` steps of a scheme with Gaussian noise."""
    return steps_of(scheme, steps, gaussian(noise_multiplier=noise_multiplier))


def epsilon_of(
    scheme: Scheme,
    noise_multiplier: float,
    steps: int,
    question: Question,
    composition: str = "auto",
    accuracy: float | None = None,
) -> Bounds | None:
    """Epsilon away from the question itself; None where nothing can be certified."""
    plan = plan_of(scheme, noise_multiplier, steps)
    try:
        own = account(
            plan, relation=question.relation, group=question.group, composition=composition,
            accuracy=accuracy,
        )  # fmt: skip
        return own.epsilon(question.delta)
    except NumericalFailure:
        return None


def rough_epsilon_of(
    scheme: Scheme, noise_multiplier: float, steps: int, question: Question
) -> Bounds | None:
    """The same with one pair per step, as accurate as a picture needs it, or can be."""
    found = epsilon_of(scheme, noise_multiplier, steps, question, "pair", _DRAWN)
    return found or epsilon_of(scheme, noise_multiplier, steps, question, "pair")


def epsilon_beside(
    scheme: Scheme, noise_multiplier: float, question: Question, other: float
) -> Bounds | None:
    """Epsilon at the noise of another scheme that is certified for ``other``.

    If what is attained is more than that already, bounds need not be any closer.
    """
    found = epsilon_of(scheme, noise_multiplier, question.steps, question, "pair")
    if found is not None and found.lower > other:
        return found
    return epsilon_of(scheme, noise_multiplier, question.steps, question)


def same_work(row: ComparisonRow, question: Question) -> SameWork | None:
    """What WOR needs that touches as many records; None where there is no such batch."""
    size = max(1, round(row.expected_distinct))
    target = question.epsilon if question.epsilon is not None else row.epsilon.upper
    if not (size <= question.n and 0 < target <= 500):
        return None
    if question.relation == "add_remove" and size > question.n - question.group:
        return None
    try:
        found = calibrate(
            wor(question.n, size), epsilon=target, delta=question.delta, steps=question.steps,
            relation=question.relation, group=question.group,
        )  # fmt: skip
    except NumericalFailure:
        return None
    return SameWork(size, found.noise_multiplier, found.epsilon)


# Other sizes: the certified epsilon of MUSTow at other b and m with the same noise.


#: Factors from a quarter to four times, with one in the middle.
_FACTORS = tuple(4.0 ** (step / 3.0) for step in range(-3, 4))
#: Relative accuracy, enough for a picture; the values are certified all the same.
_ACCURACY = 0.02


@dataclass(frozen=True)
class Sensitivity:
    """``epsilon[i][j]`` is certified for b[j] and m[i]; NaN where nothing could be certified."""

    b: tuple[int, ...]
    m: tuple[int, ...]
    epsilon: tuple[tuple[float, ...], ...]
    noise_multiplier: float

    def at(self, b: int, m: int) -> float:
        """The certified epsilon at a point of the grid."""
        return self.epsilon[self.m.index(m)][self.b.index(b)]

    @property
    def holes(self) -> int:
        """How many points have no certified value."""
        return sum(math.isnan(value) for row in self.epsilon for value in row)


def grid_of(n: int, b: int, m: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """First stages and batches around (b, m); None if one of them cannot be varied."""
    first = tuple(sorted({min(n, max(1, round(b * factor))) for factor in _FACTORS}))
    batch = tuple(sorted({min(LARGEST_SIZE, max(1, round(m * factor))) for factor in _FACTORS}))
    return (first, batch) if len(first) > 1 and len(batch) > 1 else None


def epsilons_at(
    n: int,
    first: tuple[int, ...],
    m: int,
    noise_multiplier: float,
    steps: int,
    delta: float,
    relation: Relation,
    group: int,
) -> tuple[float, ...]:
    """Certified epsilons of MUSTow with batches of m, at every first stage; NaN for none."""
    return tuple(
        _epsilon(must_ow(n, b, m), noise_multiplier, steps, delta, relation, group) for b in first
    )


def _epsilon(
    scheme: Scheme,
    noise_multiplier: float,
    steps: int,
    delta: float,
    relation: Relation,
    group: int,
) -> float:
    plan = repeat(steps, subsample(scheme, gaussian(noise_multiplier=noise_multiplier)))
    try:
        found = account(plan, relation=relation, group=group).certified_epsilon(delta, _ACCURACY)
    except (NumericalFailure, NotCovered):
        return math.nan
    return found if math.isfinite(found) else math.nan


# The findings. All bounds come from :mod:`mustdp.accounting` and :mod:`mustdp.calibration`; nothing
# is computed twice in different ways.


#: Numbers of steps in the picture, as shares of the question's.
_SHARES = (0.03, 0.12, 0.3, 0.6, 1.0, 1.5)
_POINTS = 60
#: Schemes whose law is that of another one; they are left out of pictures.
SAME_LAW = {"must-wo": "wr", "must-oo": "wor"}
#: About how long bands take: what takes longest had better begin first.
_SECONDS = {"must-ow": 8.0, "wr": 5.0, "wor": 3.0, "must-ww": 3.0}
#: Schemes of the aligned privacy profile, as in the paper.
_ALIGNED = ("wor", "wr", "must-ow", "must-ww")


@dataclass(frozen=True)
class Findings:
    """The numbers of a report. Mappings are by name of the scheme."""

    question: Question
    comparison: Comparison
    #: delta against epsilon, each scheme at its own noise.
    profiles: Mapping[str, Curve]
    #: What an attacker can achieve, each scheme at its own noise.
    risks: Mapping[str, Risk]
    #: epsilon by number of steps, each scheme at its own noise.
    by_steps: Mapping[str, Mapping[int, Bounds]]
    #: What MUSTow and the reference cost at one and the same noise, that of the reference.
    at_one_noise: Mapping[str, Bounds]
    same_work: SameWork | None
    #: One application of the noise of the reference, by the paper's theorem.
    aligned: tuple[Amplification, ...]
    sensitivity: Sensitivity | None
    #: Median seconds of a draw, measured.
    draw_seconds: Mapping[str, float]

    @cached_property
    def rows(self) -> dict[str, ComparisonRow]:
        """The comparison by name of the scheme."""
        return {row.scheme.name: row for row in self.comparison}

    @property
    def reference(self) -> ComparisonRow:
        """The scheme that others are measured by: WOR, or WR where WOR does not exist."""
        return self.rows.get("wor") or self.rows["wr"]

    @property
    def same_noise(self) -> bool:
        """Whether schemes are compared at the same noise instead of the same guarantee."""
        return self.question.epsilon is None

    def cost(self, row: ComparisonRow) -> float:
        """What the comparison is about: noise at the same guarantee, or epsilon at equal noise."""
        return row.epsilon.upper if self.same_noise else row.noise_multiplier


def parts_of(question: Question) -> int:
    """How often :func:`gather` says that a part begins."""
    schemes = schemes_of(question.n, question.b, question.m)
    grid = grid_of(question.n, question.b, question.m)
    return len(distinct_laws(schemes)) + len(_drawn(schemes)) + (len(grid[1]) if grid else 0) + 1


def gather(
    question: Question, progress: Progress | None = None, mapper: Mapper = map_serial
) -> Findings:
    """Find all numbers of a report; ``progress`` hears of each part that begins.

    ``mapper`` works on the parts, one after the other unless told.
    """
    total, begun = parts_of(question), itertools.count()

    def begin(what: str, *_: object) -> None:
        if progress is not None and what:
            progress(what, next(begun), total)

    comparison = compare(
        n=question.n, b=question.b, m=question.m, delta=question.delta, steps=question.steps,
        epsilon=question.epsilon, noise_multiplier=question.noise_multiplier,
        relation=question.relation, group=question.group, progress=begin, mapper=mapper,
    )  # fmt: skip
    rows = {row.scheme.name: row for row in comparison}
    for name, row in rows.items():
        if not math.isfinite(row.epsilon.upper):
            raise NumericalFailure(
                f"epsilon of {name} has no finite upper bound at delta={question.delta!r}; more "
                "noise, fewer steps or a larger delta may help"
            )
    reference = rows.get("wor") or rows["wr"]
    drawn = [rows[scheme.name] for scheme in _drawn([row.scheme for row in comparison])]
    points = _epsilons(drawn)
    parts: dict[str | int, _Part] = {}
    for row in drawn:
        name = row.scheme.name
        parts[name] = _Part(
            _bands, (row, question, points), f"bands of {name}", _SECONDS.get(name, 1)
        )
    own = rows["must-ow"]
    if own.noise_multiplier != reference.noise_multiplier:
        there = own.scheme, reference.noise_multiplier, question, reference.epsilon.upper
        parts["one noise"] = _Part(epsilon_beside, there, seconds=2.0)
    grid = grid_of(question.n, question.b, question.m)
    first, batches = grid or ((), ())
    alike = (
        own.noise_multiplier,
        question.steps,
        question.delta,
        comparison.relation,
        question.group,
    )
    for size in batches:
        given = question.n, first, size, *alike
        parts[size] = _Part(epsilons_at, given, f"must-ow with m = {size}", 0.3)
    parts["same work"] = _Part(same_work, (own, question))
    answers = mapper(_found, parts.values(), lambda part: begin(part.name), attrgetter("seconds"))
    found = dict(zip(parts, answers, strict=True))
    at_one_noise = {
        row.scheme.name: row.epsilon
        for row in drawn
        if row.noise_multiplier == reference.noise_multiplier
    }
    if found.get("one noise"):
        at_one_noise["must-ow"] = found["one noise"]
    begin("one application, draws")
    noise = gaussian(noise_multiplier=reference.noise_multiplier)
    bases = _bases(2.0 / reference.noise_multiplier)
    aligned = tuple(amplify(rows[name].scheme, noise, bases) for name in _ALIGNED if name in rows)
    times = {row.scheme.name: draw_time(row.scheme) for row in comparison}
    profiles, risks, by_steps = (
        {row.scheme.name: found[row.scheme.name][place] for row in drawn} for place in range(3)
    )
    around = Sensitivity(first, batches, tuple(found[m] for m in batches), own.noise_multiplier)
    empty = around.holes == len(first) * len(batches)
    return Findings(
        question, comparison, profiles, risks, by_steps, at_one_noise, found["same work"], aligned,
        None if empty else around, times,
    )  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """One piece of work: a function of a module with its arguments, and about how long it takes."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    name: str = ""
    seconds: float = 1.0


def _found(part: _Part) -> Any:
    return part.function(*part.arguments)


def _bands(
    row: ComparisonRow, question: Question, points: FloatArray
) -> tuple[Curve, Risk, dict[int, Bounds]]:
    """Delta against epsilon, what an attacker can achieve, and epsilon against steps."""
    plan = plan_of(row.scheme, row.noise_multiplier, question.steps)
    own = account(plan, relation=question.relation, group=question.group)
    passed = own.along(question.delta, _counts(question), points)
    return _profile(own, points, passed), own.risk(), _by_steps(row, question, passed)


def _drawn(schemes: list[Scheme]) -> list[Scheme]:
    """One scheme for each law."""
    names = {scheme.name for scheme in schemes}
    return [scheme for scheme in schemes if SAME_LAW.get(scheme.name) not in names]


def _epsilons(rows: list[ComparisonRow]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Epsilons for the profiles: beyond all of the comparison, unless they lie far apart."""
    known = sorted(row.epsilon.upper for row in rows if np.isfinite(row.epsilon.upper))
    middle, largest = (known[len(known) // 2], known[-1]) if known else (1.0, 1.0)
    end = min(max(2.0 * middle, 1.2 * largest), 8.0 * middle)
    return np.linspace(0.01, 1.0, _POINTS) * min(max(end, 1e-3), 500.0)


def _counts(question: Question) -> set[int]:
    """The numbers of steps in the picture."""
    counts = {max(1, round(share * question.steps)) for share in _SHARES}
    return {count for count in counts if count <= MOST_STEPS} | {question.steps}


def _profile(own: Account, points: FloatArray, passed: StepProfile | None) -> Curve:
    """Delta against epsilon: one pair per step, or what a pass of the family says if less."""
    curve = own.curve(points)
    if passed is None:
        return curve
    upper = np.minimum(curve.upper, passed.delta)
    if not np.all(curve.lower <= upper * (1.0 + 1e-9) + 1e-300):
        raise NumericalFailure("the bounds of the profile contradict each other")
    return Curve(curve.epsilon, np.minimum(curve.lower, upper), upper)


def _by_steps(
    row: ComparisonRow, question: Question, passed: StepProfile | None
) -> dict[int, Bounds]:
    """Epsilon at pool numbers of steps; that of the question is known already.

    The others have one pair per step, or what a pass of the family says if that is less.
    """
    found = {question.steps: row.epsilon}
    for count in _counts(question) - {question.steps}:
        bounds = rough_epsilon_of(row.scheme, row.noise_multiplier, count, question)
        if bounds is None or not math.isfinite(bounds.upper):
            continue
        upper = bounds.upper if passed is None else min(bounds.upper, passed.epsilon[count])
        found[count] = replace(bounds, lower=consistent(bounds.lower, upper), upper=upper)
    return dict(sorted(found.items()))


def _bases(shift: float) -> tuple[float, ...]:
    """Base epsilons of the aligned profile: whole numbers and what lies between, up to where the
    base mechanism's delta is negligible."""
    end = max(2.0, min(60.0, float(np.ceil(3.0 * shift + 0.5 * shift * shift))))
    between = np.linspace(0.0, end, 160)[1:-1]
    return tuple(float(value) for value in np.union1d(between, np.arange(1.0, end)))
