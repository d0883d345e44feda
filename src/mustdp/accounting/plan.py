"""Plans: expressions that say what is released, from the inside out, and their JSON form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from mustdp.errors import InvalidParameter, NotCovered
from mustdp.limits import LARGEST_NOISE, MOST_STEPS, SMALLEST_NOISE
from mustdp.mechanisms.mechanism import AdditiveNoise, Mechanism, Proof, has_proof
from mustdp.mechanisms.registry import described, mechanism_from_description
from mustdp.numerics import checks
from mustdp.sampling.epochs import Epoch, Sampling, epoch_from_description
from mustdp.sampling.repetitions import Repetitions
from mustdp.sampling.schemes import (
    Multistage,
    Poisson,
    Scheme,
    TruncatedPoisson,
    scheme_from_description,
)

# Plans: expressions that say what is released, from the inside out.
#
#     gaussian(...)            one noisy release                       (a mechanism is a plan)
#     subsample(scheme, plan)  run the plan on one fresh draw of the scheme
#     subsample(epoch, noise)  one noisy release on every batch of one epoch
#     repeat(k, plan)          run the plan k times, independently
#     sequence(plan, ...)      run different plans one after another
#     banded(plan, bands=b)    noise correlated over b steps; the plan is that of one group
#     select_best(plan, ...)   run the plan a random number of times, release the best run alone
#
# A subset that is reused is written as it happens: ``subsample(wor(n, b), repeat(r, subsample(wr(b,
# m), noise)))`` draws b records once and m of those r times. That is not r independent two-stage
# draws, and it is not charged as such.


@dataclass(frozen=True)
class Subsample:
    """Run ``inner`` on one draw of ``scheme``."""

    scheme: Scheme
    inner: Plan

    def __post_init__(self) -> None:
        if not isinstance(self.scheme, Scheme):
            raise InvalidParameter(f"scheme must be a sampling scheme, got {self.scheme!r}")
        _check(self.inner, "inner")
        if contains(self.inner, InEpoch):
            raise NotCovered(
                "an epoch on a subset is not covered: no group profile is known for it here"
            )
        if contains(self.inner, Banded):
            raise NotCovered("banded noise on a subset is not covered")
        if contains(self.inner, SelectBest):
            raise NotCovered(
                "the best of several runs on a subset is not covered: no group profile is known "
                "for it here"
            )
        for scheme in _schemes(self.inner):
            if not isinstance(self.scheme, Multistage):
                raise NotCovered(
                    f"a scheme inside {self.scheme.name} sampling is not covered: it would have to "
                    "draw from a subset of random size"
                )
            if not isinstance(scheme, Multistage | Poisson):
                raise NotCovered(f"{scheme.name} sampling inside another stage is not covered")
            size = self.scheme.m
            if scheme.n != size:
                raise InvalidParameter(
                    f"the inner scheme draws from n = {scheme.n} entries, but the scheme around it "
                    f"hands over {size}"
                )


@dataclass(frozen=True)
class InEpoch:
    """Release with ``inner`` on every batch of one ``epoch``."""

    epoch: Epoch
    inner: AdditiveNoise

    def __post_init__(self) -> None:
        if not isinstance(self.epoch, Epoch):
            raise InvalidParameter(f"epoch must be an epoch, got {self.epoch!r}")
        # Shuffling is amplified for every noise whose profile is known exactly.
        laplace = self.epoch.fixed_size and has_proof(self.inner, Proof.LAPLACE)
        if not (laplace or has_proof(self.inner, Proof.GAUSSIAN)):
            raise NotCovered(
                "an epoch is covered with Gaussian noise on every batch alone, and a shuffled one "
                "with Laplace noise too, "
                f"got {getattr(self.inner, 'name', type(self.inner).__name__)!r}"
            )


@dataclass(frozen=True)
class Repeat:
    """Run ``inner`` ``count`` times, each time with fresh randomness."""

    count: int
    inner: Plan

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", checks.integer("count", self.count, 1, MOST_STEPS))
        _check(self.inner, "inner")


@dataclass(frozen=True)
class Sequence:
    """Run several plans one after another."""

    parts: tuple[Plan, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise InvalidParameter("a sequence must hold at least one plan, got none")
        for part in self.parts:
            _check(part, "every part of a sequence")


@dataclass(frozen=True)
class SelectBest:
    """Run ``inner`` a random number of times and release the best run alone."""

    inner: Plan
    repetitions: Repetitions

    def __post_init__(self) -> None:
        _check(self.inner, "plan")
        if not isinstance(self.repetitions, Repetitions):
            raise InvalidParameter(
                f"repetitions must be a law of the number of runs, got {self.repetitions!r}"
            )


@dataclass(frozen=True)
class Banded:
    """Noise of a strategy matrix with ``bands`` bands; ``inner`` is the plan of one group."""

    inner: Plan
    bands: int
    column_norm: float = 1.0

    def __post_init__(self) -> None:
        _check(self.inner, "plan")
        object.__setattr__(self, "bands", checks.integer("bands", self.bands, 1, MOST_STEPS))
        limits = {"at_least": SMALLEST_NOISE, "at_most": LARGEST_NOISE}
        norm = checks.real("column_norm", self.column_norm, **limits)
        object.__setattr__(self, "column_norm", norm)
        for atom in atoms(self.inner):
            noise = atom.inner if isinstance(atom, Subsample) else atom
            if not has_proof(noise, Proof.GAUSSIAN):
                raise NotCovered(
                    "banded noise is covered for Gaussian noise on fresh draws from one group, "
                    f"got {getattr(noise, 'name', type(noise).__name__)!r}"
                )

    @property
    def unrolled(self) -> Plan:
        """The same for a single record: one release in every round of its group."""
        return self._scaled(self.inner)

    def _scaled(self, plan: Plan) -> Plan:
        if isinstance(plan, Sequence):
            return Sequence(tuple(map(self._scaled, plan.parts)))
        if isinstance(plan, Repeat | Subsample):
            return replace(plan, inner=self._scaled(plan.inner))
        if isinstance(plan, InEpoch):
            return subsample(plan.epoch, self._scaled(plan.inner))
        if isinstance(plan, Banded):
            return self._scaled(plan.unrolled)
        if self.column_norm == 1.0:
            return plan
        larger = plan.magnified(self.column_norm) if isinstance(plan, Mechanism) else None
        if larger is None:
            raise NotCovered(f"the noise of {type(plan).__name__} has no scale for column_norm")
        return larger


Plan: TypeAlias = Mechanism | Subsample | InEpoch | Repeat | Sequence | SelectBest | Banded
#: What a plan consists of: single releases and subsampled plans, with how often each occurs.
Atom: TypeAlias = Mechanism | Subsample | InEpoch | SelectBest
_PLANS = Mechanism | Subsample | InEpoch | Repeat | Sequence | SelectBest | Banded


@overload
def subsample(scheme: Scheme, inner: Plan) -> Subsample: ...
@overload
def subsample(scheme: Epoch, inner: Plan) -> InEpoch: ...
@overload
def subsample(scheme: Sampling, inner: Plan) -> Subsample | InEpoch: ...
def subsample(scheme: Sampling, inner: Plan) -> Subsample | InEpoch:
    """Run ``inner`` on one fresh draw of ``scheme``, or on every batch of one epoch.

    Parameters
    ----------
    scheme : Scheme or Epoch
        How records are drawn.
    inner : Plan
        What is run on them: noise, or another plan; on the batches of an epoch, Gaussian noise
        (of a shuffled one, Laplace noise too).

    Returns
    -------
    Plan
        What can be repeated, put in a sequence and accounted for.

    Raises
    ------
    NotCovered
        No theorem of this package covers the combination, such as another scheme inside Poisson
        sampling.

    Examples
    --------
    A subset that is drawn once and used five times is one step:

    >>> import mustdp as md
    >>> noise = md.gaussian(noise_multiplier=4.0)
    >>> used = md.repeat(5, md.subsample(md.wr(100, 50), noise))
    >>> md.account(md.subsample(md.wor(1000, 100), used)).steps
    1
    """
    if isinstance(scheme, Epoch):
        return InEpoch(scheme, inner)  # type: ignore[arg-type]
    return Subsample(scheme, inner)


def steps_of(scheme: Sampling, steps: int, inner: Plan) -> Plan:
    """``steps`` releases: that many fresh draws, or whole epochs and a part of the last one."""
    if not isinstance(scheme, Epoch):
        return Repeat(steps, Subsample(scheme, inner))
    if scheme.steps < scheme.bins:
        raise InvalidParameter("scheme must be a whole epoch, got one that ends early")
    epochs, rest = divmod(checks.integer("steps", steps, 1, MOST_STEPS), scheme.bins)
    whole, part = subsample(scheme, inner), subsample(scheme.first(rest or 1), inner)
    if not rest:
        return Repeat(epochs, whole)
    return Sequence((Repeat(epochs, whole), part)) if epochs else part


def repeat(count: int, inner: Plan) -> Repeat:
    """Run ``inner`` ``count`` times, independently.

    Parameters
    ----------
    count : int
        How often, from 1 to 1e9.
    inner : Plan
        What is run, each time with fresh draws and fresh noise.

    Returns
    -------
    Plan
        What can be subsampled, put in a sequence and accounted for.

    Examples
    --------
    >>> import mustdp as md
    >>> md.repeat(100, md.gaussian(noise_multiplier=2.0)).count
    100
    """
    return Repeat(count, inner)


def sequence(*parts: Plan) -> Sequence:
    """Run plans one after another.

    Parameters
    ----------
    *parts : Plan
        What is run, at least one plan.

    Returns
    -------
    Plan
        What can be subsampled, repeated and accounted for.

    Examples
    --------
    >>> import mustdp as md
    >>> both = md.sequence(md.gaussian(noise_multiplier=5.0), md.laplace(shift=0.1))
    >>> len(both.parts)
    2
    """
    return Sequence(tuple(parts))


def banded(plan_of_one_group: Plan, bands: int, *, strategy: ArrayLike | None = None) -> Banded:
    """Noise that a banded strategy matrix correlates (BandMF), with groups that take turns.

    Records are split into ``bands`` groups by their places, as record i into group i modulo
    ``bands``, so that a replaced record stays in its group; under add_remove a public rule may look
    at the record itself, and at no other. Step t draws its batch from group t modulo ``bands``.
    What is released after step t is row t of strategy times gradients plus independent noise. A
    record then takes part in one of ``bands`` steps that follow each other, and in every round of
    its group it costs what one release with the noise of its column does.

    Parameters
    ----------
    plan_of_one_group : Plan
        What one group takes part in, as if nothing was correlated: ceil(steps / bands) rounds, each
        Gaussian noise on a fresh draw from that group (for Poisson sampling, with ``bands`` times
        the rate that all records would have).
    bands : int
        Number of bands and of groups, at least 1.
    strategy : array_like, default=None
        The strategy matrix, square and lower triangular with that many bands;
        its largest column norm
        is the factor by which sensitivities grow. None means that all columns have norm 1.

    Returns
    -------
    Plan
        What can be repeated, put in a sequence and accounted for. Lower bounds are attained if all
        columns of one group have the largest norm.

    References
    ----------
    Choquette-Choo et al. 2023, arXiv 2306.08153; docs/derivations/composition.md.

    Examples
    --------
    A hundred steps, each with 1 % of the records, the noise correlated over four:

    >>> import mustdp as md
    >>> step = md.subsample(md.poisson(250, 0.04), md.gaussian(noise_multiplier=2.0))
    >>> print(f"{md.account(md.banded(md.repeat(25, step), bands=4)).epsilon(1e-5).upper:.2f}")
    0.45
    """
    bands = checks.integer("bands", bands, 1, MOST_STEPS)
    return Banded(plan_of_one_group, bands, _column_norm(strategy, bands))


def _column_norm(strategy: ArrayLike | None, bands: int) -> float:
    """The largest 2-norm of a column, rounded up."""
    if strategy is None:
        return 1.0
    matrix = np.asarray(strategy, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.all(np.isfinite(matrix)):
        shape = "x".join(map(str, matrix.shape))
        raise InvalidParameter.refusing("strategy", "must be a square matrix of numbers", shape)
    if np.any(np.triu(matrix, 1)) or np.any(np.tril(matrix, -bands)):
        allowed = f"must be lower triangular with {{bands}} = {bands} bands"
        raise InvalidParameter.refusing("strategy", allowed, "other entries", mentions=("bands",))
    return float(np.sqrt(np.square(matrix).sum(axis=0).max()) * (1.0 + 1e-12))


def select_best(plan: Plan, repetitions: float, *, law: str | float = "logarithmic") -> SelectBest:
    """Run ``plan`` a random number of times and release the best run alone.

    What a search over settings costs: every run picks its settings at random, by a public rule, and
    ``plan`` is what one run releases at most, its score included. The number of runs must be drawn
    by ``select_best(...).repetitions.draw()`` and, like all runs but the best, not be released.

    Parameters
    ----------
    plan : Plan
        What one run releases: training and the score by which runs are compared. Where settings
        have plans of their own, that of the costliest.
    repetitions : float
        Mean number of runs, from 1.001 to 1e6.
    law : str or float, default="logarithmic"
        Of the number of runs: "logarithmic", "geometric", "poisson" (which may be no run at all),
        or the eta of a truncated negative binomial law, above -1. A smaller eta costs less, at a
        number of runs that varies more.

    Returns
    -------
    Plan
        What can be repeated, put in a sequence and accounted for. Lower bounds are those of one
        run, which equal scores attain.

    References
    ----------
    Papernot & Steinke 2022, arXiv 2110.03620v2; Koskela, Redberg & Wang 2024, arXiv 2402.06701.

    Examples
    --------
    >>> import mustdp as md
    >>> run = md.gaussian(noise_multiplier=20.0)
    >>> print(f"{md.account(run).epsilon(1e-5).upper:.2f}")
    0.34
    >>> print(f"{md.account(md.select_best(run, 20)).epsilon(1e-5).upper:.2f}")
    0.58
    """
    return SelectBest(plan, Repetitions(repetitions, law))


def atoms(plan: Plan) -> dict[Atom, int]:
    """Count the atoms of a plan; equal ones are added up, so that order does not matter."""
    _check(plan, "plan")
    counted: dict[Atom, int] = {}
    for atom, count in _walk(plan, 1):
        counted[atom] = counted.get(atom, 0) + count
    total = sum(counted.values())
    if total > MOST_STEPS:
        raise InvalidParameter(f"a plan must have at most {MOST_STEPS} steps, got {total}")
    return counted


def _check(plan: object, name: str) -> None:
    if not isinstance(plan, _PLANS):
        raise InvalidParameter(
            f"{name} must be a mechanism, subsample(...), repeat(...), sequence(...) or "
            f"select_best(...), got {plan!r}"
        )


def _schemes(plan: Plan) -> Iterator[Scheme]:
    """The schemes that draw directly from what ``plan`` is given."""
    if isinstance(plan, Subsample):
        yield plan.scheme
    elif isinstance(plan, Repeat):
        yield from _schemes(plan.inner)
    elif isinstance(plan, Sequence):
        for part in plan.parts:
            yield from _schemes(part)


def contains(plan: Plan, kind: type[InEpoch | SelectBest | Banded]) -> bool:
    """Whether a part of the plan, at any depth, is of this kind."""
    if isinstance(plan, kind):
        return True
    if isinstance(plan, Sequence):
        return any(contains(part, kind) for part in plan.parts)
    return isinstance(plan, Repeat | Subsample | SelectBest) and contains(plan.inner, kind)


def _walk(plan: Plan, times: int) -> Iterator[tuple[Atom, int]]:
    if isinstance(plan, Banded):
        yield from _walk(plan.unrolled, times)
    elif isinstance(plan, Repeat):
        yield from _walk(plan.inner, times * plan.count)
    elif isinstance(plan, Sequence):
        for part in plan.parts:
            yield from _walk(part, times)
    elif isinstance(plan, Subsample):
        merged = _merged(plan)
        if _takes_all_records(merged.scheme):
            yield from _walk(merged.inner, times)
        else:
            yield merged, times
    elif isinstance(plan, InEpoch) and plan.epoch.everywhere:  # every batch has all records
        yield plan.inner, times * plan.epoch.steps
    else:
        yield plan, times


#: This many different releases with exact profiles are joined; fewer are composed as they are.
_MANY = 8


def with_joined_guarantees(plan: Plan, drawn: Scheme | None = None) -> Plan:
    """The plan with all mechanisms that say how to be joined, wherever they are, as one.

    What happens in between may choose what comes later (docs/derivations/composition.md). On a
    subset of a fixed size Gaussian releases become two equal ones, not one: families of pairs are
    proved for a single release, and here contributions may depend on earlier outputs.
    """
    joined: list[tuple[Mechanism, list[Repeat]]] = []
    others: list[Plan] = []
    changed = False
    for atom, count in atoms(plan).items():
        once = atom.repeated(count) if isinstance(atom, Mechanism) else None
        if once is not None:
            for k, (total, members) in enumerate(joined):
                both = total.joined(once)
                if both is not None:
                    joined[k] = both, [*members, Repeat(count, atom)]
                    break
            else:
                joined.append((once, [Repeat(count, atom)]))
            continue
        part: Plan = atom
        if isinstance(atom, Subsample | SelectBest):
            scheme = atom.scheme if isinstance(atom, Subsample) else None
            inner = with_joined_guarantees(atom.inner, scheme)
            part = atom if inner is atom.inner else replace(atom, inner=inner)
            changed = changed or part is not atom
        others.append(Repeat(count, part))
    for total, members in joined:
        whole = _as_one(total, members, drawn)
        if whole is None:
            others += members
        else:
            others.append(whole)
            changed = True
    if not changed:
        return plan
    return Sequence(tuple(others)) if len(others) > 1 else others[0]


def _as_one(total: Mechanism, members: list[Repeat], drawn: Scheme | None) -> Plan | None:
    """What stands for all members, whose guarantees are ``total``; None where they stay."""
    if len(members) == 1 and members[0].count == 1:
        return None
    if total.attained(total.shift_for(2.0)) is None:  # adding up is all that is known
        return total
    if drawn is None:
        return total if len(members) >= _MANY else None
    if isinstance(drawn, Poisson | TruncatedPoisson):
        return total
    half = total.halved() if len(members) > 1 else None
    return None if half is None else Repeat(2, half)


def draws_all_records(plan: Plan) -> bool:
    """Whether an outermost draw of the plan hands over all records."""
    if isinstance(plan, Repeat | SelectBest | Banded):
        return draws_all_records(plan.inner)
    if isinstance(plan, Sequence):
        return any(draws_all_records(part) for part in plan.parts)
    return isinstance(plan, Subsample) and _takes_all_records(_merged(plan).scheme)


def _takes_all_records(scheme: Scheme) -> bool:
    """Whether the draw hands over all records, each once: then it changes nothing."""
    if isinstance(scheme, Multistage):
        first, *rest = scheme.reduced
        return not rest and first.kind == "wor" and first.size == scheme.n
    return False


def _merged(plan: Subsample) -> Subsample:
    """Write a draw of a single draw as one multistage draw: nothing is reused, so it is one."""
    while isinstance(plan.inner, Repeat) and plan.inner.count == 1:
        plan = Subsample(plan.scheme, plan.inner.inner)
    outer, inner = plan.scheme, plan.inner
    if isinstance(inner, Subsample) and isinstance(outer, Multistage):
        scheme = inner.scheme
        if isinstance(scheme, Multistage):
            joined = Multistage(outer.n, outer.stages + scheme.stages)
            return _merged(Subsample(joined, inner.inner))
    return plan


# Plans as plain values, for JSON, and back.


def describe(plan: Plan) -> dict[str, Any]:
    """Plain description of a plan, for JSON; :func:`plan_from_description` reads it back."""
    if isinstance(plan, Subsample):
        return {"subsample": plan.scheme.describe(), "inner": describe(plan.inner)}
    if isinstance(plan, InEpoch):
        return {"epoch": plan.epoch.describe(), "inner": describe(plan.inner)}
    if isinstance(plan, Repeat):
        return {"repeat": plan.count, "inner": describe(plan.inner)}
    if isinstance(plan, Sequence):
        return {"sequence": [describe(part) for part in plan.parts]}
    if isinstance(plan, Banded):
        banded = {"bands": plan.bands, "column_norm": plan.column_norm}
        return {"banded": banded, "inner": describe(plan.inner)}
    if isinstance(plan, SelectBest):
        return {"select_best": plan.repetitions.describe(), "inner": describe(plan.inner)}
    return described(plan)


def plan_from_description(description: object) -> Plan:
    """Rebuild a plan from what :func:`describe` gave; everything is checked again."""
    if not isinstance(description, dict):
        raise InvalidParameter(f"a plan's description must be an object, got {description!r}")
    if "subsample" in description:
        _only(description, "subsample", "inner")
        scheme = scheme_from_description(description["subsample"])
        return Subsample(scheme, plan_from_description(description["inner"]))
    if "epoch" in description:
        _only(description, "epoch", "inner")
        epoch = epoch_from_description(description["epoch"])
        return subsample(epoch, plan_from_description(description["inner"]))
    if "repeat" in description:
        _only(description, "repeat", "inner")
        return Repeat(description["repeat"], plan_from_description(description["inner"]))
    if "sequence" in description:
        _only(description, "sequence")
        if not isinstance(description["sequence"], list):
            raise InvalidParameter("a sequence's description must hold a list of plans")
        return Sequence(tuple(plan_from_description(part) for part in description["sequence"]))
    if "banded" in description:
        _only(description, "banded", "inner")
        given = description["banded"]
        if not isinstance(given, dict):
            raise InvalidParameter(f"banded noise must be described by an object, got {given!r}")
        _only(given, "bands", "column_norm")
        return Banded(plan_from_description(description["inner"]), **given)
    if "select_best" in description:
        _only(description, "select_best", "inner")
        runs = description["select_best"]
        if not isinstance(runs, dict):
            raise InvalidParameter(f"a law of runs must be an object, got {runs!r}")
        _only(runs, "law", "mean")
        inner = plan_from_description(description["inner"])
        return SelectBest(inner, Repetitions(runs["mean"], runs["law"]))
    return mechanism_from_description(description)


def _only(description: dict[str, Any], *keys: str) -> None:
    if set(description) != set(keys):
        raise InvalidParameter(
            f"a plan's description must have the entries {', '.join(keys)}, "
            f"got {', '.join(map(str, description))}"
        )
