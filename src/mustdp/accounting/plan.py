"""Plans: expressions that say what is released, from the inside out, and their JSON form."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, overload

from mustdp.errors import InvalidParameter, NotCovered
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.contract import Mechanism, Proof, has_proof
from mustdp.mechanisms.mechanism import AdditiveNoise
from mustdp.mechanisms.registry import described, mechanism_from_description
from mustdp.numerics import checks
from mustdp.sampling.epochs import Epoch, Sampling, epoch_from_description
from mustdp.sampling.repetitions import Repetitions
from mustdp.sampling.schemes import Multistage, Poisson, Scheme, scheme_from_description

# Plans: expressions that say what is released, from the inside out.
#
#     gaussian(...)            one noisy release                       (a mechanism is a plan)
#     subsample(scheme, plan)  run the plan on one fresh draw of the scheme
#     subsample(epoch, noise)  one noisy release on every batch of one epoch
#     repeat(k, plan)          run the plan k times, independently
#     sequence(plan, ...)      run different plans one after another
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
        if _contains(self.inner, InEpoch):
            raise NotCovered(
                "an epoch on a subset is not covered: no group profile is known for it here"
            )
        if _contains(self.inner, SelectBest):
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


Plan: TypeAlias = Mechanism | Subsample | InEpoch | Repeat | Sequence | SelectBest
#: What a plan comes down to: single releases and subsampled plans, each so many times.
Atom: TypeAlias = Mechanism | Subsample | InEpoch | SelectBest
_PLANS = Mechanism | Subsample | InEpoch | Repeat | Sequence | SelectBest


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
    """``steps`` releases: so many fresh draws, or whole epochs and what is left of the last."""
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
    >>> run = md.repeat(100, md.subsample(md.poisson(1000, 0.01), md.gaussian(noise_multiplier=2)))
    >>> search = md.select_best(run, 20)
    >>> print(f"{md.account(run).epsilon(1e-5).upper:.2f}")
    0.19
    >>> print(f"{md.account(search).epsilon(1e-5).upper:.1f}")
    0.3
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


def _contains(plan: Plan, kind: type[InEpoch | SelectBest]) -> bool:
    if isinstance(plan, kind):
        return True
    if isinstance(plan, Sequence):
        return any(_contains(part, kind) for part in plan.parts)
    return isinstance(plan, Repeat | Subsample) and _contains(plan.inner, kind)


def _walk(plan: Plan, times: int) -> Iterator[tuple[Atom, int]]:
    if isinstance(plan, Repeat):
        yield from _walk(plan.inner, times * plan.count)
    elif isinstance(plan, Sequence):
        for part in plan.parts:
            yield from _walk(part, times)
    elif isinstance(plan, Subsample):
        merged = _merged(plan)
        if _takes_everything(merged.scheme):
            yield from _walk(merged.inner, times)
        else:
            yield merged, times
    elif isinstance(plan, InEpoch) and plan.epoch.everywhere:  # every batch has all records
        yield plan.inner, times * plan.epoch.steps
    else:
        yield plan, times


def with_joined_guarantees(plan: Plan) -> Plan:
    """The plan with mechanisms that follow each other directly joined, where they say how.

    Only neighbours are joined: what happens in between may choose what comes later, and then sums
    of divergences are no longer one mechanism.
    """
    if isinstance(plan, Repeat):
        inner = with_joined_guarantees(plan.inner)
        once = inner.repeated(plan.count) if isinstance(inner, Mechanism) else None
        return once or (plan if inner is plan.inner else Repeat(plan.count, inner))
    if isinstance(plan, Sequence):
        parts: list[Plan] = []
        for part in map(with_joined_guarantees, plan.parts):
            last = parts[-1] if parts else None
            both = None
            if isinstance(last, Mechanism) and isinstance(part, Mechanism):
                both = last.joined(part)
            if both is not None:
                parts[-1] = both
            else:
                parts.append(part)
        if len(parts) == len(plan.parts) and all(map(operator.is_, parts, plan.parts)):
            return plan
        return Sequence(tuple(parts)) if len(parts) > 1 else parts[0]
    if isinstance(plan, Subsample | SelectBest):
        inner = with_joined_guarantees(plan.inner)
        return plan if inner is plan.inner else replace(plan, inner=inner)
    return plan


def draws_everything(plan: Plan) -> bool:
    """Whether an outermost draw of the plan hands over all records."""
    if isinstance(plan, Repeat | SelectBest):
        return draws_everything(plan.inner)
    if isinstance(plan, Sequence):
        return any(draws_everything(part) for part in plan.parts)
    return isinstance(plan, Subsample) and _takes_everything(_merged(plan).scheme)


def _takes_everything(scheme: Scheme) -> bool:
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
