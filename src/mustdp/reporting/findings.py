"""Everything that the report and the explorer show, as numbers, before it is worded or drawn.

The report computes all parts of a question at once, over several processes (:func:`gather`); the
explorer computes them one by one (:class:`FindingsPart`) and shows those that are ready. All bounds
come from :mod:`mustdp.accounting` and :mod:`mustdp.calibration`.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from mustdp.accounting.account import Account, account
from mustdp.accounting.bounds import Bounds, Curve
from mustdp.accounting.certify import consistent
from mustdp.accounting.families.composition import StepProfile
from mustdp.accounting.plan import steps_of
from mustdp.accounting.risk import Risk
from mustdp.accounting.subsampling.one_slope import Amplification, amplify
from mustdp.calibration.budget import calibrate
from mustdp.calibration.compare import (
    Comparison,
    ComparisonRow,
    EpochRow,
    RowRequest,
    compare,
    distinct_laws,
    epochs_of,
    schemes_of,
)
from mustdp.errors import NotCovered, NumericalFailure
from mustdp.execution.processes import Mapper, map_serial
from mustdp.limits import LARGEST_EPSILON, LARGEST_SIZE, MOST_STEPS
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray
from mustdp.progress import Progress
from mustdp.sampling.epochs import Epoch, Sampling
from mustdp.sampling.schemes import Scheme, must_ow, wor

#: Schemes whose law is that of another one: they have a row, and no picture or risk of their own.
SAME_LAW = {"must-wo": "wr", "must-oo": "wor"}
#: Relative accuracy of what is drawn away from the question; bounds are certified whatever it is.
_DRAWN_ACCURACY = 0.02


@dataclass(frozen=True)
class ReportQuestion:
    """The arguments of :func:`mustdp.compare`, with Gaussian noise."""

    n: int
    b: int
    m: int
    steps: int
    delta: float
    epsilon: float | None = None
    noise_multiplier: float | None = None
    relation: str = Relation.REPLACE_ONE
    group: int = 1
    #: Whether random allocation and shuffling are rows too; None as :func:`mustdp.compare` decides.
    epochs: bool | None = None

    @property
    def schemes(self) -> list[Sampling]:
        """The schemes that exist for these sizes, those of whole epochs last."""
        epochs = self.noise_multiplier is not None if self.epochs is None else self.epochs
        return [
            *schemes_of(self.n, self.b, self.m),
            *(epochs_of(self.n, self.m) if epochs else []),
        ]

    @property
    def options(self) -> str:
        """The question as options of ``mustdp compare`` and ``mustdp report``."""
        target = (
            f"--noise-multiplier {self.noise_multiplier!r}"
            if self.epsilon is None
            else f"--epsilon {self.epsilon!r}"
        )
        return f"{self.sizes} {target} {self.neighbours}"

    @property
    def sizes(self) -> str:
        """The options of sizes, steps and delta."""
        sizes = f"-n {self.n} -b {self.b} -m {self.m}"
        return f"{sizes} --steps {self.steps} --delta {float(self.delta)!r}"

    @property
    def neighbours(self) -> str:
        """The options of relation and group."""
        group = f" --group {self.group}" if self.group > 1 else ""
        return f"--relation {Relation(self.relation).option}{group}"

    @property
    def request(self) -> RowRequest:
        """What the rows of the comparison are computed for."""
        return RowRequest(
            self.delta, self.steps, self.epsilon, self.noise_multiplier, relation=self.relation,
            group=self.group,
        )  # fmt: skip


def _account(
    question: ReportQuestion,
    scheme: Sampling,
    noise_multiplier: float,
    steps: int,
    composition: str = "quick",
    accuracy: float | None = None,
) -> Account:
    plan = steps_of(scheme, steps, gaussian(noise_multiplier=noise_multiplier))
    return account(
        plan, relation=question.relation, group=question.group, composition=composition,
        accuracy=accuracy,
    )  # fmt: skip


@lru_cache(maxsize=32)
def _kept_account(question: ReportQuestion, row: EpochRow) -> Account:
    """The account of a row: what is computed for the risk of a scheme serves its bands."""
    return _account(question, row.scheme, row.noise_multiplier, question.steps)


# One scheme at its own noise: what an attacker can achieve, and bounds by epsilon and by steps.

#: Numbers of steps in the picture, as shares of the question's.
_SHARES = (0.03, 0.12, 0.3, 0.6, 1.0, 1.5)
#: Epsilons of a curve.
_POINTS = 60


@dataclass(frozen=True)
class ComparisonBands:
    """delta against epsilon, and epsilon by number of steps."""

    profile: Curve
    by_steps: Mapping[int, Bounds]


def risk_of(row: EpochRow, question: ReportQuestion) -> Risk:
    """What an attacker can achieve."""
    return _kept_account(question, row).risk()


def bands_of(
    row: EpochRow, question: ReportQuestion, largest: float | None = None
) -> ComparisonBands:
    """The bands of one scheme, the profile for epsilons up to ``largest``."""
    own = _kept_account(question, row)
    end = 2.0 * row.epsilon.upper if largest is None else largest
    points = np.linspace(0.01, 1.0, _POINTS) * min(max(end, 1e-3), LARGEST_EPSILON)
    counts = _counts(question, row.scheme)
    family = own.along(question.delta, counts, points)
    return ComparisonBands(_profile(own, points, family), _by_steps(row, question, counts, family))


def _counts(question: ReportQuestion, scheme: Sampling) -> set[int]:
    """The numbers of steps in the picture; whole epochs where there are any."""
    unit = scheme.bins if isinstance(scheme, Epoch) and scheme.bins <= question.steps else 1
    counts = {max(1, round(share * question.steps / unit)) * unit for share in _SHARES}
    return {count for count in counts if count <= MOST_STEPS} | {question.steps}


def _profile(own: Account, points: FloatArray, family: StepProfile | None) -> Curve:
    """Delta against epsilon: one pair per step, or what the family says if that is less."""
    curve = own.curve(points)
    if family is None:
        return curve
    upper = np.minimum(curve.upper, family.delta)
    if not np.all(curve.lower <= upper * (1.0 + 1e-9) + 1e-300):
        raise NumericalFailure("the bounds of the profile contradict each other")
    return Curve(curve.epsilon, np.minimum(curve.lower, upper), upper)


def _by_steps(
    row: EpochRow, question: ReportQuestion, counts: set[int], family: StepProfile | None
) -> dict[int, Bounds]:
    """Epsilon at several numbers of steps; that of the question is known already.

    The others have one pair per step, or what the family says if that is less.
    """
    found = {question.steps: row.epsilon}
    for count in counts - {question.steps}:
        given = row.scheme, row.noise_multiplier, question, "pair"
        bounds = _epsilon(*given, steps=count, accuracy=_DRAWN_ACCURACY)
        bounds = bounds or _epsilon(*given, steps=count)
        if bounds is None or not math.isfinite(bounds.upper):
            continue
        upper = bounds.upper if family is None else min(bounds.upper, family.epsilon[count])
        found[count] = replace(bounds, lower=consistent(bounds.lower, upper), upper=upper)
    return {count: one for count, one in sorted(found.items()) if math.isfinite(one.upper)}


def _epsilon(
    scheme: Sampling,
    noise_multiplier: float,
    question: ReportQuestion,
    composition: str = "quick",
    *,
    steps: int,
    accuracy: float | None = None,
) -> Bounds | None:
    """Epsilon away from the question itself; None where nothing can be certified."""
    try:
        own = _account(question, scheme, noise_multiplier, steps, composition, accuracy)
        return own.epsilon(question.delta)
    except NumericalFailure:
        return None


# MUSTow beside the reference: at its noise, and for the same work.


@dataclass(frozen=True)
class SameWork:
    """WOR with as many records as MUSTow has distinct ones, at the guarantee that MUSTow has."""

    m: int
    noise_multiplier: float
    epsilon: Bounds


def epsilon_beside(
    scheme: Scheme, noise_multiplier: float, question: ReportQuestion, other: float
) -> Bounds | None:
    """Epsilon at the noise of another scheme that is certified for ``other``.

    If what is attained is more than that already, bounds need not be any closer.
    """
    given = scheme, noise_multiplier, question
    found = _epsilon(*given, "pair", steps=question.steps)
    if found is not None and found.lower > other:
        return found
    return _epsilon(*given, steps=question.steps)


def same_work(row: ComparisonRow, question: ReportQuestion) -> SameWork | None:
    """What WOR needs that touches as many records; None where there is no such batch."""
    size = max(1, round(row.expected_distinct))
    target = question.epsilon if question.epsilon is not None else row.epsilon.upper
    if not (size <= question.n and 0 < target <= LARGEST_EPSILON):
        return None
    if question.relation == "add_remove" and size > question.n - question.group:
        return None
    try:
        found = calibrate(
            wor(question.n, size), epsilon=target, delta=question.delta, steps=question.steps,
            relation=question.relation, group=question.group, composition="quick",
        )  # fmt: skip
    except NumericalFailure:
        return None
    return SameWork(size, found.noise_multiplier, found.epsilon)


# Other sizes: the certified epsilon of MUSTow at other b and m with the same noise.

#: Factors from a quarter to four times, with one in the middle.
_FACTORS = tuple(4.0 ** (step / 3.0) for step in range(-3, 4))


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


def grid_of(n: int, b: int, m: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First stages and batches around (b, m); empty if one of them cannot be varied."""
    first = tuple(sorted({min(n, max(1, round(b * factor))) for factor in _FACTORS}))
    batch = tuple(sorted({min(LARGEST_SIZE, max(1, round(m * factor))) for factor in _FACTORS}))
    return (first, batch) if len(first) > 1 and len(batch) > 1 else ((), ())


def epsilons_at(m: int, noise_multiplier: float, question: ReportQuestion) -> tuple[float, ...]:
    """Certified epsilons of MUSTow with batches of m, at every first stage; NaN for none."""
    found = []
    for b in grid_of(question.n, question.b, question.m)[0]:
        try:
            own = _account(question, must_ow(question.n, b, m), noise_multiplier, question.steps)
            value = own.certified_epsilon(question.delta, _DRAWN_ACCURACY)
        except (NumericalFailure, NotCovered):
            value = math.nan
        found.append(value if math.isfinite(value) else math.nan)
    return tuple(found)


# Draw times, measured: the only numbers of a report that differ from run to run.

#: Draws at most, of which the median is shown.
_DRAWS = 15
#: No further draw is begun after this many seconds.
_ENOUGH = 0.5
#: Draws of more records than this are not timed.
_LARGEST = 5_000_000


def draw_time(scheme: Scheme) -> float:
    """Median seconds of one draw on this machine, after one that warms up; NaN if not timed.

    What is drawn is discarded, so a fixed seed does no harm here.
    """
    if scheme.expected_size > _LARGEST:
        return math.nan
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    scheme.draw(rng)
    seconds: list[float] = []
    while len(seconds) < _DRAWS and (not seconds or time.perf_counter() - start < _ENOUGH):
        begun = time.perf_counter()
        scheme.draw(rng)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


# The findings: all of them for the report, those that are ready for the explorer.


@dataclass(frozen=True)
class Findings:
    """The numbers of a report, or those known so far. Mappings are by name of the scheme."""

    question: ReportQuestion
    comparison: Comparison
    #: delta against epsilon, each scheme at its own noise.
    profiles: Mapping[str, Curve] = field(default_factory=dict)
    #: What an attacker can achieve, each scheme at its own noise.
    risks: Mapping[str, Risk] = field(default_factory=dict)
    #: epsilon by number of steps, each scheme at its own noise.
    by_steps: Mapping[str, Mapping[int, Bounds]] = field(default_factory=dict)
    sensitivity: Sensitivity | None = None
    #: What MUSTow and the reference cost at one and the same noise, that of the reference.
    at_one_noise: Mapping[str, Bounds] = field(default_factory=dict)
    same_work: SameWork | None = None
    #: One application of the noise of the reference, by the paper's theorem.
    aligned: tuple[Amplification, ...] = ()
    #: Median seconds of a draw, measured.
    draw_seconds: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def rows(self) -> dict[str, EpochRow]:
        """The comparison by name of the scheme, whole epochs last."""
        return {row.scheme.name: row for row in (*self.comparison.rows, *self.comparison.epochs)}

    @property
    def reference(self) -> EpochRow:
        """The scheme that others are measured by: WOR, or WR where WOR does not exist."""
        return self.rows.get("wor") or self.rows["wr"]

    @property
    def same_noise(self) -> bool:
        """Whether schemes are compared at the same noise instead of the same guarantee."""
        return self.question.epsilon is None

    def cost(self, row: EpochRow) -> float:
        """What the comparison is about: noise at the same guarantee, or epsilon at equal noise."""
        return row.epsilon.upper if self.same_noise else row.noise_multiplier

    def risk(self, name: str) -> Risk | None:
        """The risk under a scheme, which may be known from another scheme of the same law."""
        return self.risks.get(name) or self.risks.get(SAME_LAW.get(name, name))


@dataclass(frozen=True)
class FindingsPart:
    """One piece of the findings: its kind, and the name of a scheme or a batch size."""

    kind: str
    question: ReportQuestion
    which: str

    @property
    def title(self) -> str:
        """What is computed, in words."""
        return {
            "row": f"bounds of {self.which}",
            "risk": f"risk under {self.which}",
            "bands": f"bands of {self.which}",
            "sizes": f"must-ow with m = {self.which}",
        }[self.kind]

    @property
    def row(self) -> FindingsPart | None:
        """The row whose noise this part needs; None for a row."""
        if self.kind == "row":
            return None
        return FindingsPart("row", self.question, "must-ow" if self.kind == "sizes" else self.which)

    def compute(self, row: EpochRow | None) -> Any:
        """The numbers of this part; ``row`` is what :attr:`row` has found."""
        if row is None:
            schemes = {scheme.name: scheme for scheme in self.question.schemes}
            return self.question.request.row(schemes[self.which])
        if self.kind == "sizes":
            return epsilons_at(int(self.which), row.noise_multiplier, self.question)
        return (risk_of if self.kind == "risk" else bands_of)(row, self.question)


def parts_of(question: ReportQuestion) -> list[FindingsPart]:
    """All parts of a question, those that are shown first in front."""
    names = [scheme.name for scheme in question.schemes]
    parts = [FindingsPart("row", question, name) for name in names]
    parts += [
        FindingsPart(kind, question, name) for kind in ("risk", "bands") for name in drawn(names)
    ]
    _, batches = grid_of(question.n, question.b, question.m)
    return parts + [FindingsPart("sizes", question, str(size)) for size in batches]


def drawn(names: list[str]) -> list[str]:
    """One scheme for each law."""
    return [name for name in names if SAME_LAW.get(name) not in names]


def assemble(question: ReportQuestion, answers: Mapping[FindingsPart, Any]) -> Findings:
    """The findings from the parts that are known."""
    by_kind: dict[str, dict[str, Any]] = {"row": {}, "risk": {}, "bands": {}, "sizes": {}}
    for part, answer in answers.items():
        by_kind[part.kind][part.which] = answer
    rows = [
        by_kind["row"][scheme.name] for scheme in question.schemes if scheme.name in by_kind["row"]
    ]
    comparison = Comparison(
        Relation(question.relation), question.steps, question.delta, (), tuple(rows)
    )
    first, batches = grid_of(question.n, question.b, question.m)
    own, lines = by_kind["row"].get("must-ow"), by_kind["sizes"]
    nothing = (math.nan,) * len(first)
    around = None
    if own is not None and lines:
        grid = tuple(lines.get(str(size), nothing) for size in batches)
        around = Sensitivity(first, batches, grid, own.noise_multiplier)
    return Findings(
        question,
        comparison,
        profiles={name: one.profile for name, one in by_kind["bands"].items()},
        risks=by_kind["risk"],
        by_steps={name: one.by_steps for name, one in by_kind["bands"].items()},
        sensitivity=around,
    )


#: Schemes of the aligned privacy profile, as in the paper.
_ALIGNED = ("wor", "wr", "must-ow", "must-ww")
#: About how long bands take: the longest start first.
_SECONDS = {"must-ow": 8.0, "wr": 5.0, "wor": 3.0, "must-ww": 3.0}


@dataclass(frozen=True)
class _Job:
    """A function of this module with its arguments, and about how long it takes."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    name: str = ""
    seconds: float = 1.0


def _run(job: _Job) -> Any:
    return job.function(*job.arguments)


def _risk_and_bands(
    row: EpochRow, question: ReportQuestion, largest: float
) -> tuple[Risk, ComparisonBands]:
    """Both from one account."""
    bands = bands_of(row, question, largest)
    return risk_of(row, question), bands


def count_parts(question: ReportQuestion) -> int:
    """How often :func:`gather` reports progress."""
    own = [scheme for scheme in question.schemes if isinstance(scheme, Scheme)]
    _, batches = grid_of(question.n, question.b, question.m)
    bands = drawn([scheme.name for scheme in own])
    return len(distinct_laws(question.schemes)) + len(bands) + len(batches) + 1


def gather(
    question: ReportQuestion, progress: Progress | None = None, mapper: Mapper = map_serial
) -> Findings:
    """Compute all numbers of a report; ``progress`` is called as each part starts."""
    total, started = count_parts(question), itertools.count()

    def start(what: str, *_: object) -> None:
        if progress is not None and what:
            progress(what, next(started), total)

    comparison = compare(
        n=question.n, b=question.b, m=question.m, delta=question.delta, steps=question.steps,
        epsilon=question.epsilon, noise_multiplier=question.noise_multiplier,
        relation=question.relation, group=question.group, epochs=question.epochs, progress=start,
        mapper=mapper,
    )  # fmt: skip
    rows = {row.scheme.name: row for row in comparison}
    for name, row in rows.items():
        if not math.isfinite(row.epsilon.upper):
            raise NumericalFailure(
                f"epsilon of {name} has no finite upper bound at delta={question.delta!r}; more "
                "noise, fewer steps or a larger delta may help"
            )
    reference, own = rows.get("wor") or rows["wr"], rows["must-ow"]
    names = drawn(list(rows))
    largest = _largest_epsilon([rows[name].epsilon.upper for name in names])
    jobs: dict[str | int, _Job] = {
        name: _Job(
            _risk_and_bands,
            (rows[name], question, largest),
            f"bands of {name}",
            _SECONDS.get(name, 1.0),
        )
        for name in names
    }
    if own.noise_multiplier != reference.noise_multiplier:
        there = own.scheme, reference.noise_multiplier, question, reference.epsilon.upper
        jobs["one noise"] = _Job(epsilon_beside, there, seconds=2.0)
    first, batches = grid_of(question.n, question.b, question.m)
    for size in batches:
        given = size, own.noise_multiplier, question
        jobs[size] = _Job(epsilons_at, given, f"must-ow with m = {size}", 0.3)
    jobs["same work"] = _Job(same_work, (own, question))
    answers = mapper(_run, jobs.values(), lambda job: start(job.name), attrgetter("seconds"))
    found = dict(zip(jobs, answers, strict=True))
    at_one_noise = {
        name: rows[name].epsilon
        for name in names
        if rows[name].noise_multiplier == reference.noise_multiplier
    }
    if found.get("one noise"):
        at_one_noise["must-ow"] = found["one noise"]
    start("one application, draws")
    around = Sensitivity(first, batches, tuple(found[m] for m in batches), own.noise_multiplier)
    return Findings(
        question,
        comparison,
        profiles={name: found[name][1].profile for name in names},
        risks={name: found[name][0] for name in names},
        by_steps={name: found[name][1].by_steps for name in names},
        sensitivity=None if around.holes == len(first) * len(batches) else around,
        at_one_noise=at_one_noise,
        same_work=found["same work"],
        aligned=_aligned(rows, reference.noise_multiplier),
        draw_seconds={name: draw_time(row.scheme) for name, row in rows.items()},
    )


def _largest_epsilon(known: list[float]) -> float:
    """The end of the profiles: beyond all of the comparison, unless they lie far apart."""
    known = sorted(known)
    middle, largest = known[len(known) // 2], known[-1]
    return min(max(2.0 * middle, 1.2 * largest), 8.0 * middle)


def _aligned(
    rows: Mapping[str, ComparisonRow], noise_multiplier: float
) -> tuple[Amplification, ...]:
    """One application by the paper's theorem, up to where the mechanism's delta is negligible."""
    shift = 2.0 / noise_multiplier
    end = max(2.0, min(60.0, float(np.ceil(3.0 * shift + 0.5 * shift * shift))))
    bases = np.union1d(np.linspace(0.0, end, 160)[1:-1], np.arange(1.0, end))
    noise = gaussian(noise_multiplier=noise_multiplier)
    chosen = [rows[name].scheme for name in _ALIGNED if name in rows]
    return tuple(amplify(scheme, noise, tuple(map(float, bases))) for scheme in chosen)
