"""Every scheme side by side: at the same guarantee, or at the same noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import steps_of
from mustdp.calibration.budget import calibrate, noise_of_kind
from mustdp.errors import InvalidParameter
from mustdp.execution.processes import Mapper, map_serial
from mustdp.limits import DELTA_RANGE, MOST_STEPS
from mustdp.mechanisms.mechanism import Mechanism, Proof
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.formatting import Display, as_stated, chance_drawn, noise_needed, readable
from mustdp.progress import Progress
from mustdp.sampling.catalogue import CATALOGUE
from mustdp.sampling.epochs import Sampling, random_allocation, shuffle
from mustdp.sampling.schemes import Multistage, Scheme, scheme_by_name

# What a comparison of schemes gives: a row for each, and a table of them.


@dataclass(frozen=True)
class EpochRow:
    """What one scheme, or one kind of epoch, needs and gives."""

    scheme: Sampling
    noise_multiplier: float
    epsilon: Bounds

    @property
    def eta(self) -> float:
        """Chance that one given record is drawn."""
        return self.scheme.eta

    @property
    def expected_distinct(self) -> float:
        """Expected number of distinct records a step touches."""
        return self.scheme.expected_distinct


@dataclass(frozen=True)
class ComparisonRow(EpochRow):
    """What one scheme needs and gives.

    Attributes
    ----------
    scheme : Scheme
        How batches are drawn.
    noise_multiplier : float
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum.
    epsilon : Bounds
        Bounds of epsilon at delta; the upper one is certified.

    Examples
    --------
    >>> import mustdp as md
    >>> row = md.types.ComparisonRow(md.must_ow(1000, 50, 10), 2.0, md.Bounds(0.72, 0.73))
    >>> row.scheme.name, row.scheme.m, round(row.expected_distinct, 2)
    ('must-ow', 10, 9.15)
    """

    scheme: Scheme


@dataclass(frozen=True)
class Comparison:
    """Rows for all schemes that fit the sizes, under one relation, and for epochs if wanted.

    Attributes
    ----------
    relation : Relation
        Which data sets are neighbours.
    steps : int
        Number of steps that every row is for.
    delta : float
        The delta at which epsilon is stated.
    rows : tuple of ComparisonRow
        One row for every scheme.
    epochs : tuple of EpochRow
        One row for random allocation and one for shuffling; none where they were not wanted.

    Examples
    --------
    >>> import mustdp as md
    >>> row = md.types.ComparisonRow(md.wor(1000, 10), 2.0, md.Bounds(0.72, 0.73))
    >>> relation = md.types.Relation.REPLACE_ONE
    >>> found = md.types.Comparison(relation, steps=100, delta=1e-5, rows=(row,))
    >>> print(found)
    all schemes; steps: 100, delta 1e-05, relation replace-one
    scheme     eta  distinct  noise  epsilon, attained  certified
       wor  0.0100        10      2              0.719      0.730
    """

    relation: Relation
    steps: int
    delta: float
    rows: tuple[ComparisonRow, ...]
    epochs: tuple[EpochRow, ...] = ()

    def __iter__(self) -> Iterator[ComparisonRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self._display().text()

    def _repr_html_(self) -> str:
        return self._display().html()

    def _display(self) -> Display:
        heading = f"all schemes; steps: {self.steps}, delta {as_stated(self.delta)}, relation "
        return Display(
            heading + self.relation.option,
            ("scheme", "eta", "distinct", "noise", "epsilon, attained", "certified"),
            tuple(
                (
                    row.scheme.name,
                    chance_drawn(row.eta),
                    readable(row.expected_distinct, "nearest"),
                    noise_needed(row.noise_multiplier, 4),
                    readable(row.epsilon.lower, "down"),
                    readable(row.epsilon.upper, "up") if isfinite(row.epsilon.upper) else "none",
                )
                for row in (*self.rows, *self.epochs)
            ),
        )


# Every scheme side by side: at the same guarantee, or at the same noise.


#: About how long the rows of families take: what takes longest had better begin first.
_SECONDS = {"must-ow": 4.0, "wor": 2.0, "wr": 2.0, "must-ww": 1.5, "poisson": 0.2}


def compare(
    *,
    n: int,
    b: int,
    m: int,
    delta: float,
    steps: int,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    mechanism: str | Mechanism = "gaussian",
    relation: str = Relation.REPLACE_ONE,
    group: int = 1,
    composition: str = "quick",
    epochs: bool | None = None,
    progress: Progress | None = None,
    mapper: Mapper = map_serial,
) -> Comparison:
    """Compare all schemes with batches of m (in expectation, for Poisson and allocation).

    Give ``epsilon`` to see the noise each scheme needs for the same guarantee, or
    ``noise_multiplier`` to see what each guarantees at the same noise. One relation serves all
    rows: guarantees under different relations do not compare.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    b : int
        Size of the first of two stages, from 1 to n.
    m : int
        Size of a batch, copies counted, at least 1.
    delta : float
        The delta at which epsilon is stated, from 1e-25 to below 1; well below 1/n.
    steps : int
        Number of steps, each on a batch of its own, from 1 to 1e9.
    epsilon : float, default=None
        The guarantee that all schemes are to meet.
    noise_multiplier : float, default=None
        Scale of the noise over C, the bound on the norm of what one record contributes to a sum;
        from 1e-9 to 1e9.
    mechanism : str or Mechanism, default="gaussian"
        The kind of noise: "gaussian" or "laplace", or a noise of that kind, whose size is not used.
    relation : {"replace_one", "add_remove"}, default="replace_one"
        Which data sets are neighbours.
    group : int, default=1
        How many records of one person the guarantee covers: neighbours differ in up to this many.
    composition : {"auto", "quick", "pair", "family"}, default="quick"
        How steps are composed, as in :func:`account`.
    epochs : bool, default=None
        Whether to add random allocation to ceil(n / m) bins and shuffling, with as many batches;
        for Gaussian noise only. None means at the same noise, where that takes a second or two.
    progress : Progress, default=None
        Called with the name of each scheme before it is worked on.
    mapper : callable, default=map_serial
        Works on all schemes, one after the other unless told (``mustdp.execution.processes``).

    Returns
    -------
    Comparison
        A row for every scheme that exists for these sizes; ``print`` shows them as a table.

    Raises
    ------
    InvalidParameter
        Both or none of ``epsilon`` and ``noise_multiplier`` are given, or another argument is
        outside what is allowed.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.compare(n=100, b=20, m=5, steps=1, delta=1e-5, noise_multiplier=4.0)
    >>> [(row.scheme.name, round(row.epsilon.upper, 2)) for row in found if row.scheme.eta == 0.05]
    [('poisson', 0.08), ('wor', 0.18), ('must-oo', 0.18)]
    """
    if (epsilon is None) == (noise_multiplier is None):
        raise InvalidParameter(
            "exactly one of epsilon and noise_multiplier must be given, got "
            f"epsilon={epsilon!r} and noise_multiplier={noise_multiplier!r}"
        )
    used = Relation.read(relation)
    delta = checks.real("delta", delta, **DELTA_RANGE)
    steps = checks.integer("steps", steps, 1, MOST_STEPS)
    make = noise_of_kind(mechanism)
    if make.entry.searched != "noise_multiplier":
        raise InvalidParameter.refusing(
            "mechanism", "must be one with a noise multiplier, which is compared", make.entry.name
        )
    request = RowRequest(
        delta, steps, epsilon, noise_multiplier, mechanism, used, group, composition
    )
    schemes: list[Sampling] = [*schemes_of(n, b, m)]
    if epochs is None:
        epochs = noise_multiplier is not None and make(1.0).proof is Proof.GAUSSIAN
    if epochs:
        schemes += epochs_of(n, m)
    jobs = distinct_laws(schemes)
    started = itertools.count()

    def on_start(scheme: Sampling) -> None:
        if progress is not None:
            progress(scheme.name, next(started), len(jobs))

    found = mapper(request.row, jobs, on_start, lambda scheme: _SECONDS.get(scheme.name, 1.0))
    known = {_law(row.scheme): row for row in found}
    rows: list[ComparisonRow] = []
    others: list[EpochRow] = []
    for scheme in schemes:
        row = known[_law(scheme)]
        if isinstance(scheme, Scheme):
            rows.append(ComparisonRow(scheme, row.noise_multiplier, row.epsilon))
        else:
            others.append(row)
    return Comparison(used, steps, delta, tuple(rows), tuple(others))


@dataclass(frozen=True)
class RowRequest:
    """What every row is computed for; either ``epsilon`` or ``noise_multiplier`` is given."""

    delta: float
    steps: int
    epsilon: float | None = None
    noise_multiplier: float | None = None
    mechanism: str | Mechanism = "gaussian"
    relation: str = Relation.REPLACE_ONE
    group: int = 1
    composition: str = "quick"

    def row(self, scheme: Sampling) -> EpochRow:
        """The noise of one scheme and what it guarantees."""
        if self.epsilon is not None:
            found = calibrate(
                scheme,
                epsilon=self.epsilon,
                delta=self.delta,
                steps=self.steps,
                mechanism=self.mechanism,
                relation=self.relation,
                group=self.group,
                composition=self.composition,
            )
            return EpochRow(scheme, found.noise_multiplier, found.epsilon)
        noise = noise_of_kind(self.mechanism)(self.noise_multiplier or math.nan)
        own = account(
            steps_of(scheme, self.steps, noise),
            relation=self.relation,
            composition=self.composition,
            group=self.group,
        )
        return EpochRow(scheme, self.noise_multiplier or math.nan, own.epsilon(self.delta))


def distinct_laws(schemes: Sequence[Sampling]) -> list[Sampling]:
    """The first scheme of each law: some schemes draw alike under another name."""
    found: dict[object, Sampling] = {}
    for scheme in schemes:
        found.setdefault(_law(scheme), scheme)
    return list(found.values())


def _law(scheme: Sampling) -> object:
    """The same for schemes that draw alike under another name."""
    return (scheme.n, scheme.reduced) if isinstance(scheme, Multistage) else scheme


def epochs_of(n: int, m: int) -> list[Sampling]:
    """Random allocation to ceil(n / m) bins and shuffling, where a batch is not everything."""
    return [random_allocation(n, -(-n // m)), shuffle(n, m)] if m < n else []


def schemes_of(n: int, b: int, m: int) -> list[Scheme]:
    """The schemes that exist for these sizes.

    Without replacement, no more than n can be drawn in one stage (poisson, wor) and no more than b
    in the second of two (must-wo, must-oo).
    """
    n = checks.integer("n", n, 1)
    b = checks.integer("b", b, 1, n)
    m = checks.integer("m", m, 1)
    return [
        scheme_by_name(one.name, n=n, m=m, b=b if one.two_stages else None)
        for one in CATALOGUE
        if one.compared and m <= (one.largest_batch(n, b) or m)
    ]
