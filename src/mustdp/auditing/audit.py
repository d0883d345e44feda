"""Audit a training run: canaries in one run, guesses from all it released, beside the certificate.

Every record is a canary. Canary i pulls in a direction of its own, parameter i of a linear model,
ten times harder than the clip allows; a fair bit decides whether it pulls one way or the other
(neighbours by one record replaced) or at all (one record more or less). The loss is linear, so what
a step releases does not depend on the steps before, and the directions do not meet: this is close
to the worst data the certificate speaks of. The attacker sees the model after every step.

Guesses that go too well contradict the certificate: something between the theorem and the bits that
were released is broken. Guesses that do not, prove nothing. Several independent runs together are
one mechanism on more records, with the same guarantee for each of them, so their canaries count as
those of one run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.auditing.game import Game, played
from mustdp.auditing.guessing import chance_under_curve, curve_of, least_epsilon, least_mu
from mustdp.auditing.scores import guesses, scores
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.decimals import as_stated, readable
from mustdp.training.budget import Budget

if TYPE_CHECKING:
    pass

#: Records of a game: each has a parameter of its own, so memory goes with their square.
FEWEST, MOST = 20, 5000
#: Share of the bits that is guessed, the most telling ones first. Settled beforehand: a share that
#: is chosen by how well it does would be one more guess.
_SHARE = 0.2


@dataclass(frozen=True)
class Audit:
    """What the guesses of the best attacker say.

    Attributes
    ----------
    epsilon : float
        Contradicted by the guesses: with confidence ``level``, the run is not (epsilon,
        delta)-private for any smaller one.
    mu : float
        The same for Gaussian DP.
    certified : Bounds
        What the budget certifies.
    delta : float
        The delta at which epsilon is stated.
    relation : Relation
        Which data sets are neighbours.
    level : float
        Confidence of ``epsilon`` and ``mu``.
    chance : float
        The most likely that guesses this good can be if the certificate holds.
    contradicted : bool
        That ``chance`` is too small to be believed.
    attacker : str
        Which attacker did best.
    canaries : int
        How many records there were to guess about.
    guesses : int
        How many guesses were made.
    right : int
        How many of them were right.
    seeded : bool
        Whether the bits of the canaries can be repeated.

    Examples
    --------
    >>> import mustdp as md
    >>> found = md.Audit(
    ...     epsilon=0.4, mu=0.2, certified=md.Bounds(0.9, 1.0), delta=1e-5,
    ...     relation=md.Relation.REPLACE_ONE, level=0.95, chance=0.3, contradicted=False,
    ...     attacker="all steps", canaries=1000, guesses=200, right=120, seeded=True,
    ... )
    >>> found.epsilon <= found.certified.upper, found.as_dict()["right"]
    (True, 120)
    """

    epsilon: float
    mu: float
    certified: Bounds
    delta: float
    relation: Relation
    level: float
    chance: float
    contradicted: bool
    attacker: str
    canaries: int
    guesses: int
    right: int
    seeded: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain description, for JSON.

        Returns
        -------
        dict
            Plain values, ready for JSON.
        """
        certified = self.certified.upper if math.isfinite(self.certified.upper) else None
        plain = ("chance", "contradicted", "attacker", "canaries", "guesses", "right", "seeded")
        return {
            "empirical": {"epsilon": self.epsilon, "mu": self.mu, "level": self.level},
            "certified": {"lower": self.certified.lower, "upper": certified},
            "delta": self.delta,
            "relation": self.relation.option,
            **{name: getattr(self, name) for name in plain},
        }

    def __str__(self) -> str:
        verdict = (
            "**the certificate is contradicted**: something that runs is not what was proved"
            if self.contradicted
            else "the certificate is not contradicted, which proves nothing"
        )
        upper = self.certified.upper
        certified = readable(upper, "up") if math.isfinite(upper) else "nothing finite"
        return (
            f"{self.right} of {self.guesses} guesses right among {self.canaries} canaries "
            f"({self.attacker}): epsilon is at least {readable(self.epsilon, 'down')} at delta "
            f"{as_stated(self.delta)} with confidence {as_stated(self.level)}; certified: at most "
            f"{certified}; {verdict}"
        )


def audit(
    trainer: Callable[[Game], Any],
    budget: Budget,
    *,
    clip: float,
    runs: int = 1,
    level: float = 0.95,
    seed: int | None = None,
) -> Audit:
    """Play the game with several runs of the trainers that ``trainer`` makes for it.

    All steps of the budget are made. The scheme of the budget says how many canaries there are, 20
    to 5000.

    Parameters
    ----------
    trainer : callable
        From a :class:`Game` to what has ``train(1)`` for one step on ``game.data``, such as a
        :class:`PrivateTrainer` made of the game's parts with this ``budget`` and ``clip``.
    budget : Budget
        What :func:`settle` gives, for batches that are drawn one by one.
    clip : float
        The bound C on the norm of one record's gradient, above 0.
    runs : int, default=1
        How many runs, from 1 to 1000; their canaries count as those of one run.
    level : float, default=0.95
        Confidence, above 0.5 and below 1.
    seed : int, default=None
        Repeats the bits of the canaries, for experiments; None draws fresh ones.

    Returns
    -------
    Audit
        What the guesses contradict, beside what is certified.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.
    NotCovered
        The budget is one of epochs.

    Examples
    --------
    >>> import mustdp as md
    >>> budget = md.settle(md.poisson(40, 0.5), noise_multiplier=1.0, steps=2, delta=1e-5)
    >>> def trainer(game):
    ...     return md.PrivateTrainer(
    ...         game.model, game.loss, game.data, budget, optimizer=game.optimizer, clip=1.0
    ...     )
    >>> found = md.audit(trainer, budget, clip=1.0)
    >>> found.canaries, found.level
    (40, 0.95)
    """
    if not isinstance(budget, Budget):
        raise InvalidParameter(f"budget must be what settle(...) gives, got {budget!r}")
    law, n = budget.fresh_draws.law(1, 1e-12), budget.scheme.n
    check_size(n)
    clip = checks.real("clip", clip, above=0)
    level = checks.real("level", level, above=0.5, below=1)
    runs = checks.integer("runs", runs, 1, 1000)
    # Bits that somebody could repeat would be no secret; the trainer has randomness of its own.
    rng = np.random.default_rng(seed)
    bits = rng.choice([-1.0, 1.0], size=(runs, n))
    values = (-1.0, 1.0) if budget.relation == Relation.REPLACE_ONE else (0.0, 1.0)
    pulls = np.where(bits > 0, values[1], values[0])
    seen = np.concatenate([played(trainer, one, budget, clip) for one in pulls], axis=1)
    attacks = scores(seen, law, budget.noise_multiplier, values)
    return _judged(attacks, bits.ravel(), budget, level, seeded=seed is not None)


def check_size(n: int) -> None:
    """Refuse a number of canaries."""
    if not FEWEST <= n <= MOST:
        allowed = f"must be an integer from {FEWEST} to {MOST} for an audit"
        raise InvalidParameter.refusing("n", allowed, n)


def _judged(
    attacks: dict[str, FloatArray], bits: FloatArray, budget: Budget, level: float, *, seeded: bool
) -> Audit:
    """The attack that contradicts most; all of them share the doubt that is left."""
    n, count = len(bits), max(1, round(_SHARE * len(bits)))
    spent, doubt = budget.spent(), (1.0 - level) / len(attacks)
    well = {}
    for name, score in attacks.items():
        chosen, said = guesses(score, count)
        well[name] = int((bits[chosen] == said).sum())
    name = max(well, key=lambda attacker: well[attacker])
    right, chance = well[name], 1.0
    if spent.certified:
        eps = np.linspace(0.0, max(1.0, 1.5 * spent.epsilon.upper), 400)
        upper = account(budget.plan(), relation=budget.relation).curve(eps).upper
        chance = chance_under_curve(n, count, right, curve_of(eps, upper))
    return Audit(
        epsilon=least_epsilon(n, count, right, budget.delta, doubt),
        mu=least_mu(n, count, right, doubt),
        certified=spent.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        level=level,
        chance=min(1.0, chance * len(attacks)),
        contradicted=chance <= doubt,
        attacker=name,
        canaries=n,
        guesses=count,
        right=right,
        seeded=seeded,
    )
