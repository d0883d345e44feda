"""Pure privacy: the largest loss there is, where a mechanism bounds it, as Laplace noise does.

Directly on all records g copies cost g s, whatever comes out. A stage that hands over J copies to
what costs f(J) inside costs log E e^{f(J)}: at alpha_j = e^{f(j)} every delta_j of the certificate
is zero, and its constraint holds from that alpha on. Poisson sampling of replaced records from a
ball costs log E e^{sJ/2} - log E e^{-sJ/2}. All are attained, by results far out
(docs/derivations/composition.md), so a plan's largest loss is the sum over its steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mustdp.accounting.plan import Atom, Plan, SelectBest, Subsample, atoms
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.contract import Mechanism
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.arrays import ROUNDOFF, FloatArray
from mustdp.numerics.checks import frozen
from mustdp.sampling.law import MultiplicityLaw, Stage, stage_law
from mustdp.sampling.schemes import Multistage, Poisson

#: More different numbers of copies than this are not worked through one by one.
_MOST_COPIES = 20_000
_LARGEST_EXPONENT = 700.0
#: Relative rounding of a few logarithms and products, generously.
_LOG_ERROR = 1e-14
_NONE = MultiplicityLaw(0, frozen(np.ones(1)), 0.0, 0.0)
#: Stages, each with the number of entries that it draws from.
_Kernels = tuple[tuple[Stage, int], ...]


@dataclass(frozen=True)
class Pure:
    """Both sides of the largest loss, who attains it, and a lower bound of the chance of it."""

    lower: float
    upper: float
    attained_by: str
    chance: float = 0.0

    def attained(self, epsilon: float) -> float:
        """Delta at ``epsilon`` of the results with the largest loss alone, rounded down."""
        return self.chance * max(0.0, -math.expm1(epsilon - self.lower) * (1.0 - 1e-14))


def pure_epsilon(counted: Mapping[Atom, int], relation: Relation, group: int) -> Pure | None:
    """The largest loss of a plan between data sets that differ in ``group`` records, if finite."""
    plain, lower, upper, steps = Fraction(0), 0.0, 0.0, 0
    names = sorted({_attained_by(atom, relation) for atom in counted})
    for atom, count in counted.items():
        each = _largest(atom, 2 if relation == Relation.REPLACE_ONE else 1)
        if each is not None:
            plain += count * group * each
            steps += count
            continue
        try:
            ends = _of_atom(atom, relation, group)
        except NumericalFailure:
            return None
        if ends is None:
            return None
        lower += count * ends[0] * (1.0 - 4.0 * ROUNDOFF)
        upper += count * ends[1] * (1.0 + 4.0 * ROUNDOFF)
    if not lower and not upper:
        return Pure(_down(plain), _up(plain), "aligned", 0.5**steps)
    margin = 1e-15 * (len(counted) + 4)
    low, high = (lower + _down(plain)) * (1.0 - margin), (upper + _up(plain)) * (1.0 + margin)
    return Pure(low, high, " and ".join(names))


def _attained_by(atom: Atom, relation: Relation) -> str:
    """The pair with the largest loss: in a ball, a record's empty place is in the middle of it."""
    if relation == Relation.REPLACE_ONE and isinstance(atom, Subsample):
        noise = atom.inner if isinstance(atom.scheme, Poisson) else None
        if isinstance(noise, Mechanism) and noise.in_a_ball:
            return "symmetric"
    return "aligned"


def _of_atom(atom: Atom, relation: Relation, group: int) -> tuple[float, float] | None:
    """Both ends of the largest loss of one atom on a draw; None where it has no bound."""
    if isinstance(atom, SelectBest):
        from mustdp.accounting.selection import log_growth  # accounts for one run first

        one = pure_epsilon(atoms(atom.inner), relation, group)
        return None if one is None else (one.lower, one.upper + log_growth(atom, relation, group))
    if not isinstance(atom, Subsample):
        return None
    scheme, inner = atom.scheme, atom.inner
    if isinstance(scheme, Poisson):
        each = _largest(inner, 2 if relation == Relation.REPLACE_ONE else 1)
        if each is None or not isinstance(inner, Mechanism):
            return None
        halved = relation == Relation.REPLACE_ONE and inner.in_a_ball
        return _poisson(scheme.rate, each, group, halved=halved)
    low, high = (_inside(atom, np.array([float(group)]), up) for up in (False, True))
    return None if low is None or high is None else (float(low[0]), float(high[0]))


def _poisson(rate: float, each: Fraction, group: int, *, halved: bool) -> tuple[float, float]:
    """J binomial: log E e^{sJ}, or log E e^{sJ/2} - log E e^{-sJ/2} where records are replaced."""
    low, high = _ends(each)
    if halved:
        low, high = (_mixed(rate, s / 2.0) - _mixed(rate, -s / 2.0) for s in (low, high))
    else:
        low, high = (_mixed(rate, s) for s in (low, high))
    return group * low * (1.0 - _LOG_ERROR), group * high * (1.0 + _LOG_ERROR)


def _mixed(rate: float, loss: float) -> float:
    """log(1 - rate + rate e^loss), accurate for small rates and without overflow."""
    if loss <= _LARGEST_EXPONENT:
        return math.log1p(rate * math.expm1(loss))
    if not 0.0 < rate < 1.0:
        return loss * rate
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + loss))


def _inside(plan: Plan, copies: FloatArray, up: bool) -> FloatArray | None:
    """The largest loss for each number of copies, rounded up or down; None without a bound."""
    total = np.zeros(copies.size)
    for atom, count in atoms(plan).items():
        each = _largest(atom, 2)
        if each is not None:
            part: FloatArray | None = copies * _ends(each)[up]
        elif isinstance(atom, Subsample) and isinstance(atom.scheme, Multistage):
            sizes = [stage.size for stage in atom.scheme.reduced]
            kernels = tuple(zip(atom.scheme.reduced, [atom.scheme.n, *sizes], strict=False))
            part = _through(kernels, atom.inner, copies, up)
        else:
            return None
        if part is None:
            return None
        total = total + count * part
    return total * (1.0 + (_LOG_ERROR if up else -_LOG_ERROR))


def _through(kernels: _Kernels, inner: Plan, copies: FloatArray, up: bool) -> FloatArray | None:
    """The same for a plan behind stages: each takes the log of a mean of exponentials."""
    if not kernels:
        return _inside(inner, copies, up)
    (stage, population), *rest = kernels
    if (
        not rest
        and stage.kind == "wr"
        and all(_largest(one, 2) is not None for one in atoms(inner))
    ):
        # Every copy costs the same again, so every draw does: (1 - i/N + (i/N) e^s)^M.
        each = _inside(inner, np.ones(1), up)
        if each is not None:
            draws = [_mixed(i / population, float(each[0])) for i in copies.tolist()]
            return stage.size * np.array(draws)
    if copies.size > _MOST_COPIES:
        raise NumericalFailure(f"{copies.size} numbers of copies are too many to go through")
    means = []
    for special in copies.astype(np.int64).tolist():
        law = stage_law(stage, population, special) if special else _NONE
        most = min(special, stage.size) if stage.kind == "wor" else stage.size
        losses = _through(tuple(rest), inner, np.append(law.support, float(most)), up)
        if losses is None:
            return None
        means.append(_log_mean(law, losses[:-1], float(losses[-1]), up))
    return np.array(means)


def _log_mean(law: MultiplicityLaw, losses: FloatArray, largest: float, up: bool) -> float:
    """log E e^loss, rounded; the mass that the law left out may have the largest loss."""
    error = law.relative_error + (law.support.size + 16.0) * ROUNDOFF
    top = float(losses.max())
    mean = float(law.weights @ np.exp(losses - top))
    doubt = 8.0 * ROUNDOFF * (1.0 + top)
    if not up:
        return max(0.0, top + math.log(mean * (1.0 - error)) - doubt)
    value = top + math.log(mean * (1.0 + error)) + doubt
    cut = math.log(law.cut) + largest if law.cut > 0.0 else -math.inf
    return float(np.logaddexp(value, cut)) + doubt


def _largest(plan: Plan, moved: int) -> Fraction | None:
    """The largest loss of one copy without any rounding; None where no mechanism states one."""
    return plan.largest_loss(moved) if isinstance(plan, Mechanism) else None


def _ends(value: Fraction) -> tuple[float, float]:
    return _down(value), _up(value)


def _up(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _down(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)
