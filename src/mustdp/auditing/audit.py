"""Audits of training runs: canaries, attacks on what was released, and what right guesses prove."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import binom

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.calibration.budget import Budget
from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.formatting import as_stated, readable
from mustdp.sampling.schemes import MultiplicityLaw

if TYPE_CHECKING:
    from torch import Tensor, nn, optim

# Attacks: from what every step released about each canary to a score that follows its bit.
#
# Row t of ``seen`` has what step t released in the direction of every canary, in units of the
# bound C on one contribution; canary j adds its value c_j times how often it was drawn. Three
# attackers look at it:
#
# - *total*: adds up. Best where every record is drawn in every step.
# - *likelihood*: weighs both values of the bit by the law of the draw and the noise that was
#   stated.
# - *pattern*: compares steps with each other, where noise that is used twice cancels.


def scores(
    seen: FloatArray, law: MultiplicityLaw, noise: float, values: tuple[float, float]
) -> dict[str, FloatArray]:
    """Scores of all attackers; large ones speak for the second of the two ``values``."""
    first, second = values
    likelihood = _log_likelihood(seen, law, noise, second) - _log_likelihood(
        seen, law, noise, first
    )
    centred = seen - np.median(seen, axis=0)
    odd = np.cbrt((centred**3).sum(axis=0))
    spread = (centred**2).sum(axis=0)
    pattern = odd if first == -second else spread
    return {"total": seen.sum(axis=0), "likelihood": likelihood, "pattern": pattern}


def _log_likelihood(
    seen: FloatArray, law: MultiplicityLaw, noise: float, value: float
) -> FloatArray:
    """Log-likelihood of each canary's column if it contributes ``value`` per copy."""
    copies, weights = [0.0], [law.zero]
    copies += [float(copy) for copy in law.positive_values]
    weights += [float(weight) for weight in law.positive]
    likely = [k for k in np.argsort(weights)[::-1][:64] if weights[k] > 0]
    terms = [np.log(weights[k]) - 0.5 * ((seen - copies[k] * value) / noise) ** 2 for k in likely]
    found: FloatArray = logsumexp(np.stack(terms), axis=0).sum(axis=0)
    return found


def guesses(score: FloatArray, count: int) -> tuple[NDArray[np.intp], FloatArray]:
    """Which bits to guess, those of the most extreme scores, and the guesses (-1 or 1)."""
    centred = score - np.median(score)
    chosen = np.argsort(-np.abs(centred), kind="stable")[:count]
    return chosen, np.where(centred[chosen] > 0, 1.0, -1.0)


# What the number of right guesses in one run says about its privacy.
#
# In the game m bits are drawn independently and fairly, each decides what one record of the data
# is, a mechanism runs once, and somebody guesses some of the bits from what it released. Guessing
# too well contradicts a claim about the mechanism.
#
# *Claim (epsilon, delta).* Steinke, Nasr & Jagielski 2023, arXiv 2305.08846v1, Theorem 5.2: among r
# guesses, v or more are right with chance at most
#
#     P(B >= v) + 2 m delta max over i of P(v > B >= v - i) / i,   B = Bin(r, 1/(1 + e^-epsilon)).
#
# *Claim f-DP.* Mahloujifar, Melis & Chaudhuri 2024, arXiv 2410.22235v1, Theorem 3.2 and Algorithm
# 3, for two possible values: suppose that v or more of r guesses are right with chance tau. Then
# the chances r_i of "at least i right, and this one right" and h_i of "..., and this one wrong"
# obey
#
#     h_v = tau (r - v)/m,  r_v = tau v/m,   h_i >= max(h_{i+1}, f(1 - r_{i+1})),
#     r_i >= r_{i+1} + i/(r - i) (h_i - h_{i+1}),
#
# down to i = 0, where r_0 + h_0 is the chance r/m that a given bit is guessed at all. If more
# comes out, tau cannot be that large. f is symmetric: the trade-off curve covers both orders of
# neighbours.


#: Missed-detection rate at a false-positive rate: the trade-off curve f.
Curve = Callable[[float], float]

#: Where the search for mu ends: noise of a thousandth of the sensitivity, which hides nothing.
_LARGEST_MU = 1e3


def chance_under_epsilon(
    canaries: int, guesses: int, right: int, epsilon: float, delta: float
) -> float:
    """The most likely that ``right`` or more right guesses can be under (epsilon, delta)-DP."""
    check_counts(canaries, guesses, right)
    law = binom(guesses, 1.0 / (1.0 + np.exp(-epsilon)))
    steps = np.arange(1, right + 1)
    fewer = np.cumsum(law.pmf(right - steps)) / steps
    worst = float(fewer.max()) if right else 0.0
    return min(1.0, float(law.sf(right - 1)) + 2.0 * canaries * delta * worst)


def chance_under_curve(canaries: int, guesses: int, right: int, missed: Curve) -> float:
    """The same under f-DP with the trade-off curve ``missed``, from above to three digits."""
    check_counts(canaries, guesses, right)
    if not _contradicted(canaries, guesses, right, missed, 1.0):
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-3 * high and high > 1e-12:
        middle = 0.5 * (low + high)
        if _contradicted(canaries, guesses, right, missed, middle):
            high = middle
        else:
            low = middle
    return high


def least_epsilon(canaries: int, guesses: int, right: int, delta: float, doubt: float) -> float:
    """The largest epsilon that the right guesses contradict, with ``doubt`` of being wrong."""

    def contradicted(epsilon: float) -> bool:
        return chance_under_epsilon(canaries, guesses, right, epsilon, delta) <= doubt

    return _largest(contradicted, 500.0)


def least_mu(canaries: int, guesses: int, right: int, doubt: float) -> float:
    """The largest mu of Gaussian DP that is contradicted."""

    def contradicted(mu: float) -> bool:
        return _contradicted(canaries, guesses, right, gaussian_curve(mu), doubt)

    return _largest(contradicted, _LARGEST_MU)


def gaussian_curve(mu: float) -> Curve:
    """The trade-off curve of a Gaussian shift by mu."""
    return lambda rate: float(ndtr(-ndtri(rate) - mu))


def curve_of(epsilon: FloatArray, delta: FloatArray) -> Curve:
    """The trade-off curve that deltas at epsilons >= 0 guarantee: the highest of their lines."""
    alpha, kept = np.exp(epsilon), 1.0 - delta

    def missed(rate: float) -> float:
        lines = np.maximum(kept - alpha * rate, (kept - rate) / alpha)
        return float(np.clip(lines.max(), 0.0, 1.0))

    return missed


def _contradicted(canaries: int, guesses: int, right: int, missed: Curve, tau: float) -> bool:
    """Whether ``right`` or more right guesses cannot have the chance ``tau``."""
    hit = tau * right / canaries
    miss = tau * (guesses - right) / canaries
    most = guesses / canaries
    for i in range(right - 1, -1, -1):
        more = max(miss, missed(1.0 - hit))
        hit += i / (guesses - i) * (more - miss)
        miss = more
        if hit + miss > most:
            return True
    return False


def _largest(contradicted: Callable[[float], bool], most: float) -> float:
    if not contradicted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high < most and contradicted(high):
        low, high = high, 2.0 * high
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if contradicted(middle) else (low, middle)
    return low


def check_counts(canaries: int, guesses: int, right: int) -> None:
    """Refuse numbers of guesses that cannot be."""
    checks.integer("canaries", canaries, 1)
    checks.integer("guesses", guesses, 1, canaries)
    if not 0 <= checks.integer("right", right, 0) <= guesses:
        raise InvalidParameter.refusing("right", f"must be at most {guesses} guesses", right)


# The game of an audit: canaries that pull in directions of their own, and what every step shows.
#
# Canary i is a record that moves parameter i of a linear model alone, ten times harder than the
# clip allows. The loss is linear, so what a step releases does not depend on the steps before.


#: How much harder than the clip a canary pulls.
_PULL = 10.0


@dataclass(frozen=True, eq=False)
class Game:
    """What a trainer is to train: model, loss, data and optimiser of the game.

    Attributes
    ----------
    model : torch.nn.Module
        A linear model with a parameter for every canary.
    loss : callable
        From outputs and targets to one value per record.
    data : tuple of Tensor
        The canaries and their targets.
    optimizer : torch.optim.Optimizer
        That of the model.

    Examples
    --------
    >>> import mustdp as md
    >>> from dataclasses import fields
    >>> [field.name for field in fields(md.types.Game)]
    ['model', 'loss', 'data', 'optimizer']
    """

    model: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    data: tuple[Tensor, Tensor]
    optimizer: optim.Optimizer


def played(
    trainer: Callable[[Game], Any], pulls: FloatArray, budget: Budget, clip: float
) -> FloatArray:
    """What every step released in the direction of every canary, in units of the clip."""
    torch: Any = required("torch", "an audit")
    n = len(pulls)
    rows = torch.diag(torch.tensor(_PULL * clip * pulls, dtype=torch.float32))
    model = torch.nn.Linear(n, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    # One step of descent with this rate and a linear loss adds the noisy mean of the gradients.
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    game = Game(model, _pulled, (rows, torch.zeros(n)), optimizer)
    made = trainer(game)
    seen = np.empty((budget.steps, n))
    before = np.zeros(n)
    for step in range(budget.steps):
        made.train(1)
        # A copy: the weights of a model in double precision would change under our hands.
        after = np.array(model.weight.detach().cpu().numpy()[0], dtype=np.float64)
        seen[step] = (after - before) * (budget.scheme.expected_size / clip)
        before = after
    if not np.isfinite(seen).all():
        raise InvalidParameter("trainer must leave a finite model behind, got another")
    return seen


def _pulled(outputs: Tensor, target: Tensor) -> Tensor:
    """A loss whose gradient with respect to the weights is minus the record itself."""
    return -outputs.flatten(1).sum(1) - 0.0 * target


# The game on a user's own model and data: some of the records are canaries.
#
# A fair bit decides for each of them which of two versions of it is in the data: itself or another
# (neighbours by one record replaced), itself or nothing (one record added or removed). All other
# records stay. The attacker sees the model after every step and compares how well it fits each
# version. Such canaries are no worst case: what is found is what this attacker finds on these data.


@dataclass(frozen=True, eq=False)
class OwnRecords:
    """A user's own records in an audit: what they are, and what canaries are otherwise.

    Attributes
    ----------
    data : tuple of Tensor
        All records, ``(inputs, target)``.
    other : tuple of Tensor or None
        What the first records, the canaries, are if their bits say so, such as the same inputs with
        other targets. None where the bit decides whether a record is there at all, which needs a
        budget under add_remove, and ``canaries``.
    loss : callable
        From the model's outputs and targets to one value per record.
    canaries : int, default=None
        How many of the first records are canaries; None means as many as ``other`` has.

    Examples
    --------
    >>> import mustdp as md
    >>> import torch
    >>> data = torch.randn(100, 3), torch.randint(2, (100,))
    >>> loss = torch.nn.CrossEntropyLoss(reduction="none")
    >>> md.types.OwnRecords(data, (data[0][:30], 1 - data[1][:30]), loss).number
    30
    """

    data: tuple[Tensor, Tensor]
    other: tuple[Tensor, Tensor] | None
    loss: Callable[[Any, Any], Tensor]
    canaries: int | None = None

    @property
    def number(self) -> int:
        """How many canaries there are."""
        if (self.other is None) == (self.canaries is None):
            raise InvalidParameter("exactly one of other and canaries must be given")
        count = self.canaries if self.other is None else len(self.other[1])
        return checks.integer("canaries", count, FEWEST, len(self.data[1]))

    def versions(self, bits: FloatArray) -> tuple[Tensor, Tensor]:
        """The data for some bits, each -1 or 1.

        Parameters
        ----------
        bits : ndarray
            One for each canary; 1 for the record as it is.

        Returns
        -------
        tuple of Tensor
            Inputs and target.
        """
        torch: Any = required("torch", "an audit")
        kept = torch.tensor(bits > 0)
        found = []
        for place, values in enumerate(self.data):
            first, rest = values[: len(bits)], values[len(bits) :]
            if self.other is None:
                first = first[kept]
            else:
                chosen = kept.view(-1, *([1] * (first.ndim - 1)))
                first = torch.where(chosen, first, self.other[place])
            found.append(torch.cat([first, rest]))
        return found[0], found[1]

    def fits(self, model: Any) -> FloatArray:
        """How much better a model fits each canary as it is than otherwise.

        Parameters
        ----------
        model : torch.nn.Module
            The model at some step.

        Returns
        -------
        ndarray
            One number for each canary, large where it is likely to be as it is.
        """
        torch: Any = required("torch", "an audit")
        where = next(model.parameters()).device
        with torch.no_grad():
            inputs, target = (x[: self.number].to(where) for x in self.data)
            found = -self.loss(model(inputs), target)
            if self.other is not None:
                others, targets = (x.to(where) for x in self.other)
                found = found + self.loss(model(others), targets)
        return np.asarray(found.double().cpu().numpy())


def _attacked(
    trainer: Callable[[Any], Any], records: OwnRecords, bits: FloatArray, budget: Budget
) -> dict[str, FloatArray]:
    """Scores of the canaries of one run: by the last model, and by all of them."""
    made = trainer(records.versions(bits))
    # Some records fit any model well: what counts is what training changes.
    before, total = records.fits(made.model), np.zeros(len(bits))
    for _ in range(budget.steps):
        last = records.fits(made.train(1).model) - before
        total += last
    if not np.isfinite(total).all():
        raise InvalidParameter("trainer must leave a finite model behind, got another")
    return {"last model": last, "all models": total}


# The audit of a training run: canaries, guesses from all it released, beside the certificate.
#
# Every record is a canary. Canary i pulls in a direction of its own, parameter i of a linear
# model, ten times harder than the clip allows; a fair bit decides whether it pulls one way or the
# other (neighbours by one record replaced) or at all (one record added or removed). The loss is
# linear, so what a step releases does not depend on the steps before, and the directions do not
# meet: this is close to the worst data the certificate speaks of. The attacker sees the model
# after every step.
#
# Guesses that go too well contradict the certificate: something between the theorem and the bits
# that were released is broken. Guesses that do not, prove nothing. Several independent runs
# together are one mechanism on more records, with the same guarantee for each of them, so their
# canaries count as those of one run.


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
    >>> found = md.types.Audit(
    ...     epsilon=0.4, mu=0.2, certified=md.Bounds(0.9, 1.0), delta=1e-5,
    ...     relation=md.types.Relation.REPLACE_ONE, level=0.95, chance=0.3, contradicted=False,
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
    trainer: Callable[[Any], Any],
    budget: Budget,
    *,
    clip: float | None = None,
    records: OwnRecords | None = None,
    runs: int = 1,
    level: float = 0.95,
    seed: int | None = None,
) -> Audit:
    """Attack runs of ``trainer``, and compare what is found with the certified epsilon.

    All steps of the budget are made. The scheme of the budget says how many canaries there are, 20
    to 5000. With ``records`` the game is played on a user's own model and data instead.

    Parameters
    ----------
    trainer : callable
        From a :class:`Game` to what has ``train(1)`` for one step on ``game.data``, such as a
        :class:`PrivateTrainer` made of the game's parts with this ``budget`` and
        ``clip`` as its ``max_grad_norm``. With ``records``, from data ``(inputs, target)`` to a
        :class:`PrivateTrainer` of a fresh model.
    budget : Budget
        What :func:`calibrated_budget` gives, for batches that are drawn one by one.
    clip : float
        The bound C on the norm of one record's gradient, above 0; left out with ``records``.
    records : OwnRecords, default=None
        A user's own data and which of them are canaries.
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
    >>> scheme = md.poisson(40, 0.5)
    >>> budget = md.calibrated_budget(scheme, noise_multiplier=1.0, steps=2, delta=1e-5)
    >>> def trainer(game):
    ...     return md.PrivateTrainer(
    ...         game.model, game.loss, game.data, budget,
    ...         optimizer=game.optimizer, max_grad_norm=1.0,
    ...     )
    >>> found = md.audit(trainer, budget, clip=1.0)
    >>> found.canaries, found.level
    (40, 0.95)
    """
    if not isinstance(budget, Budget):
        raise InvalidParameter(f"budget must be what calibrated_budget(...) gives, got {budget!r}")
    level = checks.real("level", level, above=0.5, below=1)
    runs = checks.integer("runs", runs, 1, 1000)
    # Bits that somebody could repeat would be no secret; the trainer has randomness of its own.
    rng = np.random.default_rng(seed)
    if records is not None:
        if clip is not None:
            raise InvalidParameter(f"clip must be left out beside records, got {clip!r}")
        if (records.other is None) != (budget.relation == Relation.ADD_REMOVE):
            raise InvalidParameter(
                "records.other must be given under replace_one and left out under add_remove, "
                f"whose neighbours have one record less, got {budget.relation.option}"
            )
        bits = rng.choice([-1.0, 1.0], size=(runs, records.number))
        made = [_attacked(trainer, records, one, budget) for one in bits]
        attacks = {name: np.concatenate([one[name] for one in made]) for name in made[0]}
        return _judged(attacks, bits.ravel(), budget, level, seeded=seed is not None)
    law, n = budget.fresh_draws.law(1, 1e-12), budget.scheme.n
    check_size(n)
    clip = checks.real("clip", clip, above=0)
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
