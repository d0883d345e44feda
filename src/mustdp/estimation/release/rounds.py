"""The rounds of a release: one for all statistics, a second for some of them.

The second round tells the errors of curved estimates and of clusters, for a share of the whole
budget, and looks closer at quantiles, for a part of their own. Every part of either round has its
share of the budget; a round's is the sum of those of its parts, and both together are all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.release.cells import Unclipped
from mustdp.estimation.release.counts import Count
from mustdp.estimation.release.curve import Curve
from mustdp.estimation.release.estimate import ReleasedEstimate
from mustdp.estimation.release.moments import Moments, WeightSquares
from mustdp.estimation.release.parts import Covariance, Noisy, Part, Piece, Stack
from mustdp.estimation.release.schema import PublicSchema
from mustdp.estimation.release.statistic import StatisticRequest
from mustdp.numerics.arrays import FloatArray
from mustdp.progress import Progress
from mustdp.randomness.noise_bits import NoiseSource

#: The part of the budget that the errors of curved estimates get, where there are any.
SECOND_SHARE = 0.15
#: The part of its own budget that a curve of quantiles spends in the first of two rounds.
FIRST_OF_CURVE = 0.4
#: Moments of up to so many columns serve the statistics of some of them, too: with more columns
#: a part of their own costs less.
_MOST_MERGED = 3
#: A number of records that is a sum of more noisy ones than this is better released by itself.
_LONGEST_SUM = 4.0
#: Numbers in one release, over all groups.
_MOST = 10**7


@dataclass(frozen=True)
class Expectation:
    """In place of noise: none, and sums brought to ``records`` of them. For plans, not for data."""

    records: int


def run_rounds(
    schema: PublicSchema,
    pieces: Callable[[], Iterable[Piece]],
    asked: Callable[[PublicSchema], Sequence[StatisticRequest]],
    noise_multiplier: float,
    *,
    charge: Callable[[], None],
    source: NoiseSource | Expectation,
    level: float,
    simultaneous: bool = False,
    clipping: float | None = None,
    progress: Progress | None = None,
) -> tuple[ReleasedEstimate, ...]:
    """All estimates. ``charge`` is called once, after the exact sums and before any noise.

    ``clipping`` is the share of the budget for what is said about clipping; None: as for the rest.

    ``asked`` gives the statistics on a schema; ``pieces`` begins the records anew.
    """
    wanted = asked(schema)
    places = parts_of(wanted)
    shared = _shared(wanted)
    closer = {one.part for one in shared if isinstance(one.part, Curve)}
    rest = 1.0 - SECOND_SHARE if len(shared) > len(closer) else 1.0
    own = [rest * share for share in _shares(places, clipping)]
    now = [
        x * (FIRST_OF_CURVE if one in closer else 1.0) for x, one in zip(own, places, strict=True)
    ]
    first: tuple[Noisy, ...] = ()
    second: dict[StatisticRequest, Noisy] = {}
    stack = _stack(schema, tuple(places), noise_multiplier, now)
    _refuse_many(stack)
    totals, seen = stack.totals(pieces(), progress)
    records = source.records if isinstance(source, Expectation) else seen
    # Where the size is private nobody may learn that there are none: the noise alone is released.
    refused = schema.public_size or isinstance(source, Expectation)
    if refused and not (records and seen):
        raise InvalidParameter("data must have at least one record, got none")
    if schema.public_size:
        schema = replace(schema, n=records)
        _check_population(schema)
        wanted = asked(schema)
        places = parts_of(wanted)
        stack = replace(stack, schema=schema, parts=tuple(places))
    if places:
        charge()
        first = _released(stack, totals, seen, source)
    found = _with_squares(dict(zip(places, first, strict=True)))
    shared = _shared(wanted)
    if shared:
        later = {part: x - y for part, x, y in zip(places, own, now, strict=True)}
        each = SECOND_SHARE / max(len(shared) - len(closer), 1)
        budgets = [later[one.part] if isinstance(one.part, Curve) else each for one in shared]
        if not math.fsum([*now, *budgets]) <= 1.0 + 2.0**-45:  # the noise has 2^-40 to spare
            raise NumericalFailure(
                "two rounds must cost no more than one; nothing more is released"
            )
        again = tuple(one.again(_known(_behind(one, found)), shared[one]) for one in shared)
        stack = _stack(schema, again, noise_multiplier, budgets)
        totals, count = stack.totals(pieces(), progress)
        if count != seen:
            raise InvalidParameter("data must not change while they are read, got other records")
        second = dict(zip(shared, _released(stack, totals, seen, source), strict=True))
    return read_estimates(wanted, found, second, level, simultaneous)


def _shared(wanted: Sequence[StatisticRequest]) -> dict[StatisticRequest, list[StatisticRequest]]:
    """What the second round is asked, and by which statistics."""
    found: dict[StatisticRequest, list[StatisticRequest]] = {}
    for one in wanted:
        if one.twice:
            found.setdefault(one.linearised, []).append(one)
    return found


def _stack(
    schema: PublicSchema, parts: tuple[Part, ...], noise_multiplier: float, budgets: Sequence[float]
) -> Stack:
    """One round, of which every part has its share of the whole budget."""
    share = math.fsum(budgets)
    # A square root may be rounded up, and so may the sum of the squares.
    weights = tuple(math.sqrt(one / share) * (1.0 - 2.0**-50) for one in budgets)
    return Stack(schema, parts, noise_multiplier, share if parts else 1.0, weights)


def _released(
    stack: Stack, totals: FloatArray, seen: int, source: NoiseSource | Expectation
) -> tuple[Noisy, ...]:
    if isinstance(source, Expectation):
        return stack.read(totals * (stack.noise.lattice.step * source.records / seen))
    return stack.released(totals, source)


def _with_squares(found: dict[Part, Noisy]) -> dict[Part, Noisy]:
    """Every part with the sums of the squared weights, where they were released."""
    squares = next((one for one in found if isinstance(one, WeightSquares)), None)
    if squares is None:
        return found
    sums = found[squares].sums[:, 0]
    return {part: replace(noisy, squares=sums) for part, noisy in found.items()}


def _known(noisy: Noisy | None) -> Noisy:
    if noisy is None:
        raise InvalidParameter("a statistic with a second round must have had a first one")
    return noisy


def read_estimates(
    wanted: Sequence[StatisticRequest],
    found: dict[Part, Noisy],
    second: dict[StatisticRequest, Noisy],
    level: float,
    simultaneous: bool = False,
) -> tuple[ReleasedEstimate, ...]:
    """The estimates behind what was released in both rounds."""

    def at(own: float) -> tuple[ReleasedEstimate, ...]:
        return tuple(
            estimate
            for one in wanted
            for estimate in one.estimates(
                _behind(one, found),
                second.get(one.linearised),
                own,
            )
        )

    estimates = at(level)
    return at(1.0 - (1.0 - level) / len(estimates)) if simultaneous else estimates


def parts_of(wanted: Sequence[StatisticRequest]) -> dict[Part, None]:
    """The different parts, in order; a count that another part tells needs none of its own."""
    found: dict[Part, None] = {}
    for one in sorted(wanted, key=lambda each: isinstance(each, Count)):
        if isinstance(one, Count) and _telling(one, found) is not None:
            continue
        if one.part is not None:
            found.setdefault(one.part)
    if any(one.schema.weighted and not one.influenced for one in wanted):
        found.setdefault(WeightSquares(wanted[0].schema))
    kept = [one for one in found if not any(_holds(other, one) for other in found)]
    earlier = ((one, kept[:k]) for k, one in enumerate(kept))
    return {one: None for one, before in earlier if not any(_same(other, one) for other in before)}


def _behind(one: StatisticRequest, found: dict[Part, Noisy]) -> Noisy | None:
    if isinstance(one, Count):
        telling = _telling(one, found)
        return None if telling is None else found[telling]
    if one.part is None or one.part in found:
        return None if one.part is None else found[one.part]
    return _within(one.part, found)


def _within(part: Part, found: dict[Part, Noisy]) -> Noisy:
    """A part of moments, read off a larger one."""
    large = next(larger for larger in found if _same(larger, part) or _holds(larger, part))
    if not isinstance(large, Moments):
        raise InvalidParameter("a part must be released, or be held by one that is")
    at = large.positions(part.columns)
    noise, sums = found[large].noise, found[large].sums
    kept = Covariance(noise.first[at], noise.own[at], noise.matrix[np.ix_(at, at)])
    return Noisy(part, sums[:, at], kept, found[large].squares)


def _holds(large: Part, small: Part) -> bool:
    """Whether moments of few columns hold those of some of them, on the same records."""
    return (
        isinstance(large, Moments)
        and isinstance(small, Moments)
        and not large.schema.dropped
        and set(small.columns) < set(large.columns)
        and large.count <= _MOST_MERGED
    )


def _same(one: Part, other: Part) -> bool:
    """Whether moments are those of the same columns in another order."""
    both = isinstance(one, Moments) and isinstance(other, Moments)
    return both and sorted(one.columns) == sorted(other.columns)


def _telling(count: Count, found: Iterable[Part]) -> Part | None:
    """A part that holds the number of records which ``count`` asks for, and not as a long sum."""
    if count.part is None:
        return None
    for part in found:
        if isinstance(part, WeightSquares):
            continue
        same = not count.schema.dropped or part.columns == count.columns
        if part == count.part or (same and part.covariance.own[0] <= _LONGEST_SUM):
            return part
    return None


def _check_population(schema: PublicSchema) -> None:
    if schema.n is not None and not schema.population >= schema.n:
        raise InvalidParameter.refusing(
            "population",
            f"must be at least the number of records, {schema.n}",
            f"{schema.population:g}",
        )


def _shares(parts: Collection[Part], clipping: float | None) -> list[float]:
    """Shares of the budget that add up to one; equal but for what is said about clipping."""
    apart = sum(isinstance(part, Unclipped) for part in parts)
    if clipping is None or apart in (0, len(parts)):
        return [1.0 / len(parts) for _ in parts]
    rest, own = (1.0 - clipping) / (len(parts) - apart), clipping / apart
    return [own if isinstance(one, Unclipped) else rest for one in parts]


def _refuse_many(stack: Stack) -> None:
    numbers = stack.schema.slots * sum(part.width for part in stack.parts)
    if not numbers <= _MOST:
        raise InvalidParameter(f"a release must hold at most {_MOST} numbers, got {numbers}")
