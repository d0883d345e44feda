"""What an attacker who sees everything that is released can achieve, as numbers and in words.

The attacker decides between two neighbouring data sets. The true-positive rate at a false-positive
rate, the advantage (the largest difference of the two, which is the total variation distance) and
what a suspicion can become all follow from the certified profile in both orders; the proofs are in
docs/derivations/risk.md. Wasserman & Zhou 2010 (arXiv 0811.2501) have the first for
one epsilon, Dong, Roth & Su 2019 (arXiv 1905.02383) for the whole curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mustdp.accounting.bounds import Bounds
from mustdp.accounting.certify import consistent
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.formatting import as_stated, percent, percent_stated, readable

if TYPE_CHECKING:
    from mustdp.accounting.account import Account

#: False-positive rates that everybody asks about.
USUAL_FPR = (0.001, 0.01, 0.1)
#: Suspicions that the words speak of.
PRIORS = (0.5, 0.01)
#: More than what differences from one, and a few sums of numbers up to one, lose to rounding.
_ROUNDING = 4e-15
#: How many epsilons are looked at at once, and how far out.
_POINTS, _FARTHEST = 60, 50.0


@dataclass(frozen=True)
class Risk:
    """What an attacker can achieve at most (certified), and does achieve on a pair of data sets.

    Attributes
    ----------
    relation : Relation
        Which data sets are neighbours.
    advantage : Bounds
        The true-positive rate less the false-positive rate, at its largest: a guess between two
        equally likely data sets is right in (1 + advantage)/2 of all cases.
    fpr : tuple of float
        False-positive rates.
    tpr : tuple of Bounds
        The true-positive rate at each of them.
    group : int
        How many records of one person are decided about together.

    Examples
    --------
    >>> import mustdp as md
    >>> risk = md.account(md.gaussian(noise_multiplier=2.0)).risk([0.01])
    >>> print(risk.advantage)
    0.382 attained, 0.383 certified (replace-one)
    >>> print(f"{risk.tpr[0]:.4f}, {risk.becomes(0.5)[0]:.3f}")
    0.0916 to 0.0925, 0.901 to 0.903
    """

    relation: Relation
    advantage: Bounds
    fpr: tuple[float, ...]
    tpr: tuple[Bounds, ...]
    group: int = 1

    @property
    def accuracy(self) -> Bounds:
        """How often a guess between two equally likely data sets is right."""
        both = self.advantage
        upper = min(1.0, 0.5 + 0.5 * both.upper + _ROUNDING)
        return Bounds(max(0.5, 0.5 + 0.5 * both.lower - _ROUNDING), upper, relation=self.relation)

    def becomes(self, prior: float) -> tuple[Bounds, ...]:
        """What an alarm makes of a suspicion held before.

        By Bayes' rule ``prior tpr / (prior tpr + (1 - prior) fpr)``, which grows with the
        true-positive rate.

        Parameters
        ----------
        prior : float
            The suspicion held before, as a probability.

        Returns
        -------
        tuple of Bounds
            What it becomes, one for each false-positive rate.
        """
        held = checks.real("prior", prior, at_least=0, at_most=1)
        return tuple(
            Bounds(
                max(0.0, _bayes(held, one.lower, rate) - _ROUNDING),
                min(1.0, _bayes(held, one.upper, rate) + _ROUNDING),
                relation=self.relation,
            )
            for rate, one in zip(self.fpr, self.tpr, strict=True)
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data, as JSON has it.

        Returns
        -------
        dict
            Advantage, true-positive rates, what suspicions become, and the two sentences.
        """
        return {
            "advantage": _ends(self.advantage),
            "tpr": [
                {"fpr": rate, **_ends(one)} for rate, one in zip(self.fpr, self.tpr, strict=True)
            ],
            "suspicion": [
                {"prior": prior, "fpr": rate, **_ends(one)}
                for prior in PRIORS
                for rate, one in zip(self.fpr, self.becomes(prior), strict=True)
            ],
            "words": list(self.sentences()),
        }

    def sentences(self) -> tuple[str, str]:
        """Two sentences to quote; all numbers are certified and rounded up.

        The second speaks of the false-positive rate nearest to one in a hundred.

        Returns
        -------
        tuple of str
            Two sentences, for people who know nothing of epsilon and delta.
        """
        told = _DECISION[self.relation]
        records = "records"
        if self.group > 1:
            told = _DECISION_ABOUT_MANY[self.relation].format(self.group)
            records = f"groups of {self.group} records"
        first = (
            "Somebody who sees everything that is released, knows all other records and computes "
            f"without limit is right about {told} in at most {percent(self.accuracy.upper, 'up')} "
            "of cases if both are equally likely beforehand; guessing is right in 50 %."
        )
        place = min(range(len(self.fpr)), key=lambda index: abs(self.fpr[index] - 0.01))
        grown = [
            f"{named} of {percent_stated(prior)} to at most "
            f"{percent(self.becomes(prior)[place].upper, 'up')}"
            for named, prior in zip(("a suspicion", "one"), PRIORS, strict=True)
        ]
        second = (
            f"If they falsely accuse {percent_stated(self.fpr[place])} of the {records} that were "
            f"not there, they find at most {percent(self.tpr[place].upper, 'up')} of those that "
            f"were, and such an accusation raises {' and '.join(grown)}."
        )
        return first, second

    def __str__(self) -> str:
        return "\n".join((*self.sentences(), *self._table()))

    def _table(self) -> list[str]:
        lines = [f"advantage: from {_span(self.advantage)}"]
        for rate, one in zip(self.fpr, self.tpr, strict=True):
            lines.append(
                f"true-positive rate at false-positive rate {as_stated(rate)}: from {_span(one)}"
            )
        return lines


#: What the attacker decides.
_DECISION = {
    Relation.REPLACE_ONE: "which of two given records was in the data",
    Relation.ADD_REMOVE: "whether one given record was in the data",
}
_DECISION_ABOUT_MANY = {
    Relation.REPLACE_ONE: "which of two given groups of {} records was in the data",
    Relation.ADD_REMOVE: "whether a given group of {} records was in the data",
}


def _ends(bounds: Bounds) -> dict[str, float]:
    return {"lower": bounds.lower, "upper": bounds.upper}


def risk(account: Account, fpr: ArrayLike = USUAL_FPR) -> Risk:
    """The risk of an account at these false-positive rates.

    The missed-detection rate comes from the account's trade-off curve, and the true-positive rate
    is one less it; what that difference rounds away is added to the bound.
    """
    rates = checks.reals("fpr", fpr, at_least=0, at_most=1)
    if rates.size == 0:
        raise InvalidParameter.refusing("fpr", "must have at least one rate", "none")
    # At epsilon = 0 the profile is the largest P(S) - Q(S).
    advantage = account.delta(0.0)
    curve = account.tradeoff(rates)
    found = []
    closest = account.certified_tprs(rates, with_family=True)
    for rate, missed, reached, close in zip(
        rates.tolist(), curve.lower.tolist(), curve.upper.tolist(), closest, strict=True
    ):
        upper = min(_from_missed(rate, missed), rate + advantage.upper + _ROUNDING, close)
        lower = max(rate, 1.0 - reached - _ROUNDING)
        found.append(Bounds(consistent(lower, upper), upper, relation=account.relation))
    return Risk(account.relation, advantage, tuple(rates.tolist()), tuple(found), account.group)


def closest_tprs(fprs: Sequence[float], profile: Callable[[FloatArray], FloatArray]) -> list[float]:
    """The smallest upper bounds of true-positive rates over many epsilons, then near the best.

    ``profile`` gives certified deltas in both orders; it is asked for all rates at once. Every
    epsilon gives a valid bound, so those looked at decide only how tight it is. Beyond log(1/fpr)
    the first kind of bound says nothing.
    """
    ends = [min(_FARTHEST, -math.log(max(fpr, 1e-300)) + 1e-3) for fpr in fprs]
    looks = [np.linspace(0.0, end, _POINTS) for end in ends]
    best = [1.0] * len(looks)
    for _ in range(2):
        seen = np.split(profile(np.concatenate(looks)), len(looks))
        for which, (fpr, eps, values) in enumerate(zip(fprs, looks, seen, strict=True)):
            alpha = np.exp(eps)
            rates = np.minimum(values + alpha * fpr, 1.0 - (1.0 - fpr - values) / alpha)
            best[which] = min(best[which], float(rates.min()))
            place, gap = float(eps[int(rates.argmin())]), float(eps[1] - eps[0])
            looks[which] = np.linspace(max(0.0, place - gap), place + gap, _POINTS)
    return [min(1.0, max(fpr, one + _ROUNDING)) for fpr, one in zip(fprs, best, strict=True)]


def _from_missed(fpr: float, missed: float) -> float:
    """An upper bound of the true-positive rate from a lower bound of the missed-detection rate."""
    return min(1.0, max(fpr, 1.0 - missed + _ROUNDING))


def _bayes(prior: float, tpr: float, fpr: float) -> float:
    found, wrong = prior * tpr, (1.0 - prior) * fpr
    return found / (found + wrong) if found > 0 else 0.0


def _span(bounds: Bounds) -> str:
    return (
        f"{readable(bounds.lower, 'down')} (attained) to {readable(bounds.upper, 'up')} (certified)"
    )
