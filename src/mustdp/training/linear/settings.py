"""From the parameters of an estimator to a settled recipe, before any work on the data."""

from __future__ import annotations

from typing import Any

from mustdp.errors import InvalidParameter
from mustdp.mechanisms.relation import Relation, drawn_from, resolve_relation
from mustdp.numerics import checks
from mustdp.sampling.catalogue import NAMES
from mustdp.sampling.epochs import Sampling
from mustdp.sampling.naming import scheme_by_name
from mustdp.training.budget import settle
from mustdp.training.linear.clipping import check_clip
from mustdp.training.linear.descent import Recipe, check_draws
from mustdp.training.linear.rates import learning_rates

#: What is spent in all when neither noise nor target is given.
DEFAULT_EPSILON = 1.0
_MOST_STEPS = 10_000_000


def resolve_scheme(
    scheme: Any, n: int, b: int | None, m: int | None, relation: str | None = None
) -> Sampling:
    """The scheme of n records: by name with sizes, or an object made for these n records.

    By name, m defaults to a tenth of the records and b to twice m (at most n). Poisson sampling
    under add_remove, where the number of records is private, takes a scheme object.

    >>> resolve_scheme("must-ow", 1000, None, None).describe()["stages"]
    [['wor', 200], ['wr', 100]]
    """
    if isinstance(scheme, Sampling):
        if b is not None or m is not None:
            raise InvalidParameter(
                f"b and m must not be given beside a scheme object, got b={b!r}, m={m!r}"
            )
        drawn_from(scheme, resolve_relation(scheme, relation), n)
        return scheme
    if not isinstance(scheme, str):
        raise InvalidParameter(
            f"scheme must be one of {', '.join(NAMES)} or a scheme object, got {scheme!r}"
        )
    if scheme == "poisson" and relation != Relation.REPLACE_ONE:
        raise InvalidParameter(
            "scheme must be an object such as md.poisson(n, rate), with a public estimate n, where "
            "the number of records is private (add_remove); got 'poisson', whose rate would tell it"
        )
    size = max(1, n // 10) if m is None else m
    if b is None and scheme.startswith("must-"):
        b = min(n, 2 * checks.integer("m", size, 1))
    return scheme_by_name(scheme, n=n, m=size, b=b)


def settle_recipe(estimator: Any, n: int) -> Recipe:
    """Read the parameters of ``estimator`` for n records; refuse what makes no sense."""
    steps = checks.integer("steps", estimator.steps, 1, _MOST_STEPS)
    clip = check_clip(estimator.clip)
    start = checks.real("start", estimator.start, at_least=-1e9, at_most=1e9)
    checks.choice("fit_intercept", estimator.fit_intercept, (True, False))
    checks.choice("keep_losses", estimator.keep_losses, (True, False))
    if estimator.on_step is not None and not callable(estimator.on_step):
        raise InvalidParameter(f"on_step must be a function or None, got {estimator.on_step!r}")
    rates = learning_rates(estimator.learning_rate, estimator.schedule, steps)
    scheme = resolve_scheme(estimator.scheme, n, estimator.b, estimator.m, estimator.relation)
    check_draws(scheme)
    given = (estimator.noise_multiplier, estimator.epsilon, estimator.epsilon_prime)
    epsilon = DEFAULT_EPSILON if all(one is None for one in given) else estimator.epsilon
    budget = settle(
        scheme,
        steps=steps,
        noise_multiplier=estimator.noise_multiplier,
        epsilon=epsilon,
        delta=estimator.delta,
        epsilon_prime=estimator.epsilon_prime,
        paper_noise=estimator.paper_noise,
        relation=estimator.relation,
    )
    return Recipe(budget, clip, rates, start)
