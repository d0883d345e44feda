"""Rounds of federated learning with Flower, charged by mustdp.

    config = PrivacyConfig(1e-5, 10_000, NeighboringRelation.ADD_OR_REMOVE_ONE,
                           SamplingMethod.NO_AMPLIFICATION)
    accountant = FlowerAccountant(config)
    strategy = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(...), noise_multiplier, clipping_norm, num_sampled_clients, accountant=accountant)

A strategy with an accountant refuses rounds in which clients have unequal weights or do not all
reply; without one ``FedAvg`` weights clients by their examples, which its sensitivity does not
allow. So :func:`rounds_of` takes no strategy without an accountant.

*What one client moves.* A round releases the mean of exactly ``num_sampled_clients`` clipped
updates, with noise of standard deviation z C / num_sampled_clients. Where a client is left out,
another one is drawn in its place, so the mean moves by up to 2 C / num_sampled_clients, under
either relation. Flower's own ``RdpAccountant`` counts half of that.

*Who is drawn.* Flower draws by ``random.sample`` from the clients that are connected. That is
sampling without replacement from the population only if all of it is connected in every round,
which ``all_connected=True`` says; and the generator is not a cryptographic one. Clipping and noise
are Flower's own, in floating point: what is charged is the mechanism in real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan, repeat, sequence, subsample
from mustdp.errors import InvalidParameter, NotCovered, NumericalFailure
from mustdp.extras import required
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.mechanism import gaussian
from mustdp.numerics import checks
from mustdp.sampling.schemes import poisson, wor

if TYPE_CHECKING:
    import flwr.serverapp as flower
else:
    flower = required("flwr.serverapp", "the bridge to Flower")

__all__ = ["FlowerAccountant", "rounds_of"]

#: What the state of an accountant begins with.
_STATE = {"backend": "mustdp", "schema_version": 1}


class FlowerAccountant:
    """An accountant for Flower's strategies (``flwr.serverapp.PrivacyAccountant``).

    Parameters
    ----------
    config : flwr.serverapp.PrivacyConfig
        Population, relation, sampling and delta, as Flower's own accountant takes them.
    all_connected : bool, default=False
        Whether all clients of the population are connected in every round, so that Flower draws
        from all of them without replacement; then that is charged, also where Flower's strategies
        require a config without amplification.

    Examples
    --------
    >>> from flwr.serverapp import NeighboringRelation, PrivacyConfig, SamplingMethod
    >>> from flwr.serverapp import GaussianPrivacyEvent
    >>> from mustdp.interop.flower import FlowerAccountant
    >>> config = PrivacyConfig(
    ...     1e-5, 1000, NeighboringRelation.REPLACE_ONE, SamplingMethod.WITHOUT_REPLACEMENT
    ... )
    >>> accountant = FlowerAccountant(config)
    >>> accountant.compose(GaussianPrivacyEvent(4.0, 20, 1000), 50)
    >>> print(f"{accountant.get_epsilon(1e-5):.1f}")
    0.3
    """

    def __init__(self, config: Any, *, all_connected: bool = False) -> None:
        if not isinstance(config, flower.PrivacyConfig):
            raise InvalidParameter(
                f"config must be a flwr.serverapp.PrivacyConfig, got {type(config).__name__}"
            )
        method = flower.SamplingMethod
        if all_connected and config.sampling_method is method.POISSON:
            raise InvalidParameter("all_connected does not fit Poisson sampling")
        self._config = config
        self._drawn = all_connected or config.sampling_method is method.WITHOUT_REPLACEMENT
        self._releases: list[tuple[Any, int]] = []
        self._answered: tuple[tuple[Any, ...], Any] | None = None

    @property
    def config(self) -> Any:
        """The config that was given."""
        return self._config

    @property
    def num_releases(self) -> int:
        """How many rounds were charged."""
        return sum(count for _, count in self._releases)

    def compose(self, event: Any, count: int = 1) -> None:
        """Charge rounds.

        Parameters
        ----------
        event : flwr.serverapp.GaussianPrivacyEvent
            One round.
        count : int, default=1
            How many of them.

        Raises
        ------
        InvalidParameter
            The event is of another population.
        """
        self._plan(event)
        self._releases.append((event, checks.integer("count", count, 1, MOST_STEPS)))

    def bounds(self, delta: float) -> Bounds:
        """Both bounds of epsilon for all rounds so far.

        Parameters
        ----------
        delta : float
            The delta of the guarantee.

        Returns
        -------
        Bounds
            The attained lower and the certified upper bound.
        """
        found = self._account(self._releases)
        return Bounds(0.0, 0.0) if found is None else found.epsilon(delta=delta)

    def get_epsilon(self, delta: float) -> float:
        """The certified upper bound of epsilon.

        Parameters
        ----------
        delta : float
            The delta of the guarantee.

        Returns
        -------
        float
            The bound, infinite where next to no noise was added.
        """
        return self._epsilon(self._releases, delta)

    def get_delta(self, epsilon: float) -> float:
        """The certified upper bound of delta.

        Parameters
        ----------
        epsilon : float
            The epsilon of the guarantee.

        Returns
        -------
        float
            The bound, 1 where next to no noise was added.
        """
        found = self._account(self._releases)
        if found is None:
            return 0.0
        try:
            return float(found.delta(epsilon=epsilon).upper)
        except NumericalFailure:
            return 1.0

    def get_privacy_spent(self, delta: float | None = None) -> Any:
        """What was spent, in Flower's own form.

        Parameters
        ----------
        delta : float, default=None
            The delta of the guarantee; None means that of the config.

        Returns
        -------
        flwr.serverapp.PrivacySpent
            With the certified epsilon.
        """
        at = self._config.target_delta if delta is None else delta
        return flower.PrivacySpent(self.get_epsilon(at), at, self.num_releases, "mustdp")

    def would_exceed(self, event: Any, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Whether further rounds would cost more than a limit; nothing is charged.

        Parameters
        ----------
        event : flwr.serverapp.GaussianPrivacyEvent
            One round.
        max_epsilon : float, default=None
            The limit; None means that of the config.
        count : int, default=1
            How many rounds.

        Returns
        -------
        bool
            True unless the certified epsilon stays within the limit.
        """
        limit = self._config.max_epsilon if max_epsilon is None else max_epsilon
        checks.real("max_epsilon", limit, above=0)
        further = [*self._releases, (event, checks.integer("count", count, 1, MOST_STEPS))]
        return not self._epsilon(further, self._config.target_delta) <= limit

    def state_dict(self) -> dict[str, object]:
        """The state, ready for JSON.

        Returns
        -------
        dict
            What :meth:`load_state_dict` reads.
        """
        rounds = [
            [one.noise_multiplier, one.sample_size, one.population_size, count]
            for one, count in self._releases
        ]
        return {**_STATE, **self._settings(), "rounds": rounds}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Take over the rounds of a state with the same config.

        Parameters
        ----------
        state : dict
            From :meth:`state_dict`.

        Raises
        ------
        InvalidParameter
            It is the state of another accountant, or of another config.
        """
        said = {**_STATE, **self._settings()}
        if not isinstance(state, dict) or set(state) != {*said, "rounds"}:
            raise InvalidParameter("state must be one of state_dict of a FlowerAccountant")
        for name, value in said.items():
            if state[name] != value:
                raise InvalidParameter(f"state must have {name} {value!r}, got {state[name]!r}")
        restored = FlowerAccountant(self._config, all_connected=self._drawn)
        rounds = state["rounds"]
        if not isinstance(rounds, list):
            raise InvalidParameter("rounds must be a list")
        for one in rounds:
            if not isinstance(one, list) or len(one) != 4:
                raise InvalidParameter("rounds must have entries of four numbers")
            try:
                event = flower.GaussianPrivacyEvent(*one[:3])
            except (TypeError, ValueError):
                raise InvalidParameter("rounds must be rounds of Flower") from None
            restored.compose(event, one[3])
        self._releases = restored._releases

    def _settings(self) -> dict[str, object]:
        config = self._config
        return {
            "target_delta": config.target_delta,
            "population_size": config.population_size,
            "neighboring_relation": config.neighboring_relation.value,
            "sampling_method": config.sampling_method.value,
            "without_replacement": self._drawn,
        }

    def _plan(self, event: Any) -> Plan:
        """One round as a plan."""
        if not isinstance(event, flower.GaussianPrivacyEvent):
            raise InvalidParameter(
                f"event must be a flwr.serverapp.GaussianPrivacyEvent, got {type(event).__name__}"
            )
        population, size = event.population_size, event.sample_size
        if population != self._config.population_size:
            raise InvalidParameter(
                f"population_size must be {self._config.population_size}, got {population}"
            )
        if self._drawn and size < population:
            noise = gaussian(noise_multiplier=event.noise_multiplier)
            return subsample(wor(population, size), noise)
        if self._config.sampling_method is flower.SamplingMethod.POISSON:
            noise = gaussian(noise_multiplier=event.noise_multiplier)
            return subsample(poisson(population, size / population), noise)
        # A mean of a fixed number of clients: another one fills an empty place.
        return gaussian(shift=math.nextafter(2.0 / event.noise_multiplier, math.inf))

    def _account(self, releases: Iterable[tuple[Any, int]]) -> Any:
        counted: dict[Any, int] = {}
        for event, count in releases:
            counted[event] = counted.get(event, 0) + count
        if not counted:
            return None
        key = tuple(counted.items())
        if self._answered is None or self._answered[0] != key:
            parts = [repeat(count, self._plan(event)) for event, count in counted.items()]
            replaced = flower.NeighboringRelation.REPLACE_ONE
            relation = (
                "replace_one" if self._config.neighboring_relation is replaced else "add_remove"
            )
            self._answered = (key, account(sequence(*parts), relation=relation))
        return self._answered[1]

    def _epsilon(self, releases: list[tuple[Any, int]], delta: float) -> float:
        found = self._account(releases)
        if found is None:
            return 0.0
        try:
            return float(found.epsilon(delta=delta).upper)
        except NumericalFailure:  # next to no noise: no bound that could be stated as a number
            return math.inf


def rounds_of(strategy: Any, rounds: int) -> Plan:
    """The plan of rounds of a strategy, if all clients are connected in every round.

    Parameters
    ----------
    strategy : DifferentialPrivacyServerSideFixedClipping or its client-side twin
        Of ``flwr.serverapp.strategy``, around ``FedAvg``, with an accountant: without one Flower
        accepts clients with unequal weights.
    rounds : int
        How many rounds.

    Returns
    -------
    Plan
        Clients drawn without replacement from the population of the accountant's config; for
        :func:`mustdp.account` and ``calibrate_plan``.

    Raises
    ------
    NotCovered
        The strategy may weight clients unequally, or adapts its clipping norm.
    InvalidParameter
        The strategy does not draw as many clients as its noise is made for.

    Examples
    --------
    >>> from flwr.serverapp import NeighboringRelation, PrivacyConfig, SamplingMethod
    >>> from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
    >>> from mustdp.interop.flower import FlowerAccountant, rounds_of
    >>> config = PrivacyConfig(
    ...     1e-5, 1000, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION
    ... )
    >>> strategy = DifferentialPrivacyServerSideFixedClipping(
    ...     FedAvg(fraction_train=0.02), 4.0, 1.0, 20, accountant=FlowerAccountant(config)
    ... )
    >>> plan = rounds_of(strategy, 50)
    >>> plan.count, plan.inner.scheme.describe()["stages"]
    (50, [['wor', 20]])
    """
    strategies = required("flwr.serverapp.strategy", "the bridge to Flower")
    allowed = (
        strategies.DifferentialPrivacyServerSideFixedClipping,
        strategies.DifferentialPrivacyClientSideFixedClipping,
    )
    if type(strategy) not in allowed:
        raise NotCovered(
            "strategy must be one of flwr.serverapp.strategy with fixed clipping, "
            f"got {type(strategy).__name__}"
        )
    if strategy.accountant is None:
        raise NotCovered(
            "strategy must have an accountant: without one FedAvg weights clients by their "
            "examples, and one client may move the mean by more than its noise is made for"
        )
    average, clients = strategy.strategy, strategy.accountant.config.population_size
    if type(average) is not strategies.FedAvg:
        raise NotCovered(f"strategy must wrap FedAvg, got {type(average).__name__}")
    drawn = max(int(clients * average.fraction_train), average.min_train_nodes)
    if drawn != strategy.num_sampled_clients or drawn > clients:
        raise InvalidParameter(
            f"strategy must draw its {strategy.num_sampled_clients} sampled clients in a round, "
            f"got {drawn} of {clients}"
        )
    noise = gaussian(noise_multiplier=strategy.noise_multiplier)
    return repeat(rounds, subsample(wor(clients, drawn), noise))
