"""Accounts and releases for OpenDP.

:func:`privacy_profile` hands an account to OpenDP as a ``PrivacyProfile``. :func:`make_release` is
one :func:`mustdp.private_release` as a ``Measurement``, which OpenDP composes with its own.

Both are made of functions that OpenDP cannot check, so it asks for
``dp.enable_features("contrib", "honest-but-curious")`` first.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mustdp.accounting.account import Account, account
from mustdp.errors import InvalidParameter, NumericalFailure
from mustdp.estimation.release import private_release, release_with_noise
from mustdp.extras import required
from mustdp.limits import LARGEST_EPSILON
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks

if TYPE_CHECKING:
    import opendp.prelude as dp
else:
    dp = required("opendp.prelude", "the bridge to OpenDP")

__all__ = ["make_release", "privacy_profile"]


def privacy_profile(found: Account) -> Any:
    """An account as OpenDP's ``PrivacyProfile``.

    Parameters
    ----------
    found : Account
        What :func:`mustdp.account` returned.

    Returns
    -------
    opendp.mod.PrivacyProfile
        ``delta(epsilon=)`` is the certified upper bound, and ``epsilon(delta=)`` OpenDP's inverse
        of it: an upper bound as well.

    Examples
    --------
    >>> import mustdp as md
    >>> import opendp.prelude as dp
    >>> from mustdp.interop.opendp import privacy_profile
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> step = md.subsample(md.poisson(1000, 0.01), md.gaussian(noise_multiplier=2.0))
    >>> profile = privacy_profile(md.account(md.repeat(100, step)))
    >>> profile.delta(epsilon=0.5) < 1e-5
    True
    """
    if not isinstance(found, Account):
        raise InvalidParameter(
            f"found must be what mustdp.account returned, got {type(found).__name__}"
        )

    @lru_cache(maxsize=4096)  # OpenDP searches for epsilon, and asks for some of them twice
    def delta(epsilon: float) -> float:
        if not epsilon >= 0:
            raise InvalidParameter(f"epsilon must be at least 0, got {epsilon!r}")
        try:  # delta never increases in epsilon, and accounts answer up to here
            return min(float(found.delta(epsilon=min(epsilon, LARGEST_EPSILON)).upper), 1.0)
        except NumericalFailure:  # next to no noise
            return 1.0

    return dp.new_privacy_profile(delta)


def make_release(
    statistics: Any,
    *,
    n: int,
    lower: float,
    upper: float,
    delta: float,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    **options: Any,
) -> Any:
    """One release of statistics of a column, as OpenDP's ``Measurement``.

    Parameters
    ----------
    statistics : str, Statistic or sequence of them
        As :func:`mustdp.private_release` takes them.
    n : int
        The number of records, which is public.
    lower, upper : float
        The public range that values are clipped to.
    delta : float
        The delta at which the guarantee is stated.
    epsilon : float, default=None
        What the certified epsilon must not exceed; give this or ``noise_multiplier``.
    noise_multiplier : float, default=None
        Scale of the noise over the bound on what one record contributes.
    **options
        What else :func:`mustdp.private_release` takes, such as ``level``.

    Returns
    -------
    opendp.mod.Measurement
        From n numbers to a :class:`mustdp.types.ReleaseResult`, on the distance of changed records.
        Its map gives (epsilon, delta) for any number of them.

    Raises
    ------
    InvalidParameter
        An argument is outside what is allowed.

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from mustdp.interop.opendp import make_release
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> mean = make_release("mean", n=1000, lower=0, upper=100, epsilon=1.0, delta=1e-6)
    >>> mean.check(d_in=1, d_out=(1.0, 1e-6))
    True
    >>> result = mean([50.0] * 1000)
    >>> bool(result.interval[0] < 50.0 < result.interval[1])
    True
    """
    n = checks.integer("n", n, 1)
    for name in ("relation", "seed", "ledger", "by", "groups", "missing"):
        if name in options:
            raise InvalidParameter(f"{name} must not be given: a measurement cannot express it")
    low = checks.real("lower", lower)
    high = checks.real("upper", upper, above=low)
    settled = release_with_noise(
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        relation=Relation.REPLACE_ONE,
    )
    if settled.plan is None:
        raise InvalidParameter("noise_multiplier must leave something to be guaranteed")
    plan, noise = settled.plan, settled.noise_multiplier

    def release(records: list[float]) -> Any:
        data = np.asarray(records, dtype=np.float64)
        if data.shape != (n,):  # OpenDP does not compare data with the domain
            raise InvalidParameter(f"records must be the n = {n} numbers of the measurement")
        return private_release(
            data, statistics, lower=low, upper=high, noise_multiplier=noise, delta=delta, **options
        )

    @lru_cache(maxsize=256)
    def cost(changed: int) -> tuple[float, float]:
        if changed == 0:
            return 0.0, 0.0
        found = account(plan, relation="replace_one", group=changed)
        try:
            return float(found.epsilon(delta=delta).upper), delta
        except NumericalFailure:
            return math.inf, delta

    # A release of made-up records refuses statistics and options before there are any data.
    release([low] * n)
    return dp.m.make_user_measurement(
        dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n),
        dp.change_one_distance(),
        dp.approximate(dp.max_divergence()),
        function=release,
        privacy_map=cost,
    )
