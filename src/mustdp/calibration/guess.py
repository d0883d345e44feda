"""A first guess of epsilon, so that a search begins close to its end.

One concrete pair of data sets is composed on a coarse grid, without any care for rounding or for
what lies outside, and raised by as much as what is certified mostly lies above it: a millisecond or
a few, and mostly within a few per cent. The search multiplies it by a factor that it learns from
certified values, so nothing depends on it but the number of accounts that are made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.fft import next_fast_len

from mustdp.accounting.account import relation_of
from mustdp.accounting.atom_pairs import atom_pairs
from mustdp.accounting.plan import InEpoch, Plan, Subsample, atoms
from mustdp.errors import MustdpError
from mustdp.loss.pairs import MixturePair
from mustdp.mechanisms.mechanism import AdditiveNoise, Mechanism
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import FloatArray
from mustdp.sampling.epochs import RandomAllocation

#: Outcomes of one step, points of the grid, and how many deviations the grid spans; grids for rare
#: losses that reach further are longer, up to some length.
_OUTCOMES, _POINTS, _DEVIATIONS, _MOST_POINTS = 1500, 8192, 24.0, 65536
#: Losses rarer than this share of delta, over all steps, do not count.
_RARE = 1e-3
#: What is certified lies above what one pair attains by about so much: where data sets may choose
#: between orders in every step, and where one pair is the worst.
_CHOOSING, _FIXED = 1.0115, 1.0007
#: Shifts beyond this are taken as this, and outcomes of all batches without the record.
_FARTHEST, _OTHERS = 25.0, 41
#: Exponents beyond this are taken as this.
_LARGEST = 600.0
#: Smaller deltas are lost in the rounding of a transform.
_SMALLEST_DELTA = 1e-12


def rough_epsilon(plan: Plan, delta: float, relation: str | None, group: int) -> float | None:
    """About the epsilon of a plan at ``delta``; None where no guess can be made."""
    if not delta >= _SMALLEST_DELTA:
        return None
    steps, counted, above = [], atoms(plan), _FIXED
    used = relation_of(counted, relation)
    try:
        for atom, count in counted.items():
            inner = atom.inner if isinstance(atom, Subsample | InEpoch) else atom
            if not isinstance(inner, Mechanism) or not isinstance(inner, AdditiveNoise):
                return None
            if isinstance(atom, InEpoch) and isinstance(atom.epoch, RandomAllocation):
                steps.append((*_epoch_losses(atom, used, group), count))
                continue
            families = atom_pairs(atom, used, "certified", group).families
            pair = families.get("aligned") or families.get("symmetric")
            if not isinstance(pair, MixturePair):
                return None
            steps.append((*_losses(pair), count))
            if _chooses(families, used):
                above = _CHOOSING
    except MustdpError:  # whoever asks for a certificate will hear of it
        return None
    found = _composed(steps, delta)
    return None if found is None else above * found


def guess_is_close(plan: Plan, relation: str | None, group: int) -> bool:
    """Whether one pair is the worst in every step: the guess then is good to a few thousandths."""
    counted = atoms(plan)
    used = relation_of(counted, relation)
    return not any(
        _chooses(atom_pairs(atom, used, "certified", group).families, used) for atom in counted
    )


def _chooses(families: Mapping[str, object], relation: Relation) -> bool:
    return relation == Relation.REPLACE_ONE and "reversed" in families


def _epoch_losses(atom: InEpoch, relation: Relation, group: int) -> tuple[FloatArray, FloatArray]:
    """Losses of an epoch: the batch with the record by itself, all others as if lognormal."""
    replaced = relation == Relation.REPLACE_ONE
    shift = min(group * atom.inner.shift_for(1.0), _FARTHEST)
    seen, bins = atom.epoch.steps, atom.epoch.bins
    square = shift * shift
    one = 2.0 * math.sinh(square) if replaced else math.expm1(square)

    def others(count: int) -> FloatArray:
        spread = math.log1p(one * count / bins**2) * (2.0 if replaced else 1.0)
        return np.asarray(math.sqrt(spread) * z - (0.0 if replaced else 0.5 * spread))

    z, x = np.linspace(-8.0, 8.0, _OTHERS), np.linspace(-8.0, 8.0, _OUTCOMES // 3)
    own = np.log1p(np.expm1(np.minimum(shift * x + 0.5 * square, 700.0)) / bins)
    if replaced:
        own -= np.log1p(np.expm1(-shift * x - 1.5 * square) / bins)
    loss = np.concatenate([np.add.outer(own, others(seen - 1)).ravel(), others(seen)])
    mine, theirs = (np.exp(-0.5 * np.square(at)) for at in (x, z))
    there = seen / bins
    chance = np.concatenate(
        [there * np.outer(mine / mine.sum(), theirs).ravel(), (1.0 - there) * theirs]
    )
    return loss, chance / theirs.sum()


def _losses(pair: MixturePair) -> tuple[FloatArray, FloatArray]:
    """Losses of one step and their chances under P."""
    p, q = pair.cells(np.linspace(-9.0 - pair.span, 9.0 + pair.span, _OUTCOMES))
    kept = (p > 1e-290) & (q > 1e-290)
    return np.log(p[kept] / q[kept]), p[kept] / p[kept].sum()


def _composed(steps: list[tuple[FloatArray, FloatArray, int]], delta: float) -> float | None:
    """Epsilon at ``delta`` of all steps together."""
    means = [float(loss @ p) for loss, p, _ in steps]
    variance = sum(
        k * float(np.square(loss - mean) @ p)
        for (loss, p, k), mean in zip(steps, means, strict=True)
    )
    if not 0.0 < variance < math.inf:
        return None
    spacing = _DEVIATIONS * math.sqrt(variance) / _POINTS
    reach = max(
        _reach(loss - mean, k * p, _RARE * delta)
        for (loss, p, k), mean in zip(steps, means, strict=True)
    )
    # As far again on either side as the rest of the losses spreads.
    points = next_fast_len(min(_POINTS + math.ceil(2.0 * reach / spacing), _MOST_POINTS), real=True)
    spectrum = np.ones(points // 2 + 1, dtype=np.complex128)
    start, centre = 0, 0.0
    for (loss, p, count), mean in zip(steps, means, strict=True):
        # Every loss is shared by its two neighbours on the grid, which keeps the mean.
        middle = math.floor(mean / spacing)
        place = np.clip(loss / spacing - middle, 1 - points // 2, points // 2 - 2)
        cell = np.floor(place).astype(np.int64)
        share = place - cell
        masses = np.bincount(cell % points, p * (1.0 - share), points)
        masses += np.bincount((cell + 1) % points, p * share, points)
        spectrum = spectrum * np.fft.rfft(masses) ** count
        start += count * middle
        centre += count * (mean / spacing - middle)
    # The transform knows places up to multiples of its length: those around the mean are meant.
    index = round(centre) + np.arange(points) - points // 2
    masses = np.maximum(np.fft.irfft(spectrum, points)[index % points], 0.0)
    total = (start + index) * spacing
    above = np.cumsum(masses[::-1])[::-1]
    # Far out nothing is left of what is taken off.
    far = np.clip(total, -_LARGEST, _LARGEST)
    weighted = np.cumsum((masses * np.exp(-far))[::-1])[::-1]
    profile = np.maximum(above - np.exp(far) * weighted, 1e-300)
    exceeds = np.flatnonzero(profile > delta)
    if not exceeds.size:
        return None
    if exceeds[-1] + 1 == points:  # as far as the grid reaches at least
        return float(total[-1]) if total[-1] > 0.0 else None
    at = int(exceeds[-1])
    logs = np.log(profile[at : at + 2])
    found = float(total[at] + spacing * (logs[0] - math.log(delta)) / (logs[0] - logs[1]))
    return found if found > 0.0 else None


def _reach(loss: FloatArray, chance: FloatArray, rare: float) -> float:
    """The largest loss that is not rarer than this."""
    order = np.argsort(loss)
    counts = np.flatnonzero(np.cumsum(chance[order][::-1])[::-1] > rare)
    return max(0.0, float(loss[order[counts[-1]]])) if counts.size else 0.0
