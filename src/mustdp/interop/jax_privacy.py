"""For people who train with jax-privacy: its runs with our accountant, our batches in its loops.

jax-privacy takes accountants of dp_accounting. Wherever it wants one, or a function from a relation
to one (``AccountantFn``), :class:`~mustdp.interop.dp_accounting.MustdpAccountant` fits:

    BandMFExecutionPlanConfig(..., accountant=MustdpAccountant(REPLACE_SPECIAL))
    BandMFConfig(...).calibrate(..., accountant_fn=MustdpAccountant)   # after version 2.0

In an execution plan under ``REPLACE_ONE`` the noise is the noise multiplier times 2C, so an event's
noise multiplier is relative to what replacing a record moves there. This accountant, like
dp_accounting's PLD accountant, takes it relative to C, and charges more than the plan costs.

:class:`TrainingAccountant` answers for ``DpParams``, batches of a fixed size included. (jax-privacy
2.0 replaces them by Poisson sampling with twice the sensitivity, which is no upper bound.)
:func:`plan_of` is what a batch selection strategy costs, and :class:`SchemeBatches` is any scheme
as a strategy. Clipping and noise are jax-privacy's own, in floating point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan, banded, repeat, sequence, steps_of, subsample
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.extras import required
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.mechanism import gaussian
from mustdp.numerics import checks
from mustdp.randomness.keys import release_key
from mustdp.sampling.epochs import Sampling, random_allocation
from mustdp.sampling.schemes import BatchStream, Scheme, poisson, truncated_poisson, wor, wr

if TYPE_CHECKING:
    from jax_privacy import accounting, batch_selection
else:
    accounting = required("jax_privacy.accounting", "the bridge to jax-privacy")
    batch_selection = required("jax_privacy.batch_selection", "the bridge to jax-privacy")

__all__ = ["SchemeBatches", "TrainingAccountant", "plan_of"]


class TrainingAccountant(accounting.DpTrainingAccountant):  # type: ignore[misc, unused-ignore]
    """A ``DpTrainingAccountant`` whose answers are certified by mustdp.

    For ``calibrate_noise_multiplier`` and its like, ``compute_epsilon`` and
    ``CachedExperimentAccountant``. Poisson sampling is answered under add_remove, with a cycle of
    batches as the cost of one group; batches of a fixed size under replace_one. With
    ``examples_per_user`` the guarantee is for users with up to that many examples.

    Parameters
    ----------
    composition : {"auto", "pair", "family"}, default="auto"
        How steps are composed, as in :func:`mustdp.account`: "pair" is the quickest.

    Examples
    --------
    >>> from jax_privacy.accounting import DpParams
    >>> from mustdp.interop.jax_privacy import TrainingAccountant
    >>> run = DpParams(noise_multipliers=2.0, num_samples=10_000, delta=1e-5, batch_size=100)
    >>> print(f"{TrainingAccountant().compute_epsilon(100, run):.2f}")
    0.19
    """

    def __init__(self, *, composition: str = "auto") -> None:
        self._composition = composition

    def can_calibrate_steps(self) -> bool:
        """Any number of steps can be answered for.

        Returns
        -------
        bool
            True.
        """
        return True

    def can_calibrate_batch_size(self) -> bool:
        """Any batch size can be answered for.

        Returns
        -------
        bool
            True.
        """
        return True

    def can_calibrate_noise_multipliers(self) -> bool:
        """Any noise can be answered for.

        Returns
        -------
        bool
            True.
        """
        return True

    def bounds(self, num_updates: int, dp_params: Any) -> Bounds:
        """Both bounds of epsilon.

        Parameters
        ----------
        num_updates : int
            The number of steps, at least 1.
        dp_params : jax_privacy.accounting.DpParams
            The run.

        Returns
        -------
        Bounds
            The attained lower and the certified upper bound.

        Raises
        ------
        NotCovered
            A cycle of batches has a schedule or a fixed size, or is truncated.
        """
        plan, relation = _training_plan(num_updates, dp_params)
        group = 1 if dp_params.examples_per_user is None else dp_params.examples_per_user
        found = account(plan, relation=relation, composition=self._composition, group=group)
        return found.epsilon(delta=dp_params.delta)

    def _compute_epsilon(self, num_updates: Any, dp_params: Any) -> float:
        return float(self.bounds(int(num_updates), dp_params).upper)


def _training_plan(num_updates: int, run: Any) -> tuple[Plan, str]:
    steps = checks.integer("num_updates", num_updates, 1, MOST_STEPS)
    n, cycle = run.num_samples, 1 if run.cycle_length is None else run.cycle_length
    checks.integer("cycle_length", cycle, 1)
    cap, fixed = run.truncated_batch_size, accounting.SamplingMethod.FIXED_BATCH_SIZE
    if cap is not None and (cycle > 1 or run.sampling_method is fixed):
        raise NotCovered(
            "truncated_batch_size must be None unless batches are Poisson samples of all records"
        )
    parts = _settings(run.noise_multipliers, run.batch_sizes, steps)
    if run.sampling_method is fixed:
        if cycle != 1:
            raise NotCovered("cycle_length must be 1 with batches of a fixed size")
        plans = [
            repeat(count, subsample(wor(n, size), gaussian(noise_multiplier=z)))
            for count, z, size in parts
        ]
        return sequence(*plans), "replace_one"
    if cycle > 1 and len(parts) > 1:
        raise NotCovered("cycle_length must be 1 where noise or batch size change")
    # Every record is in one group, which is sampled in every cycle once: Choquette-Choo et al.
    # 2023, arXiv 2306.08153v2, Theorem 4, for noise with at most that many bands.
    group = n // cycle
    if not group:
        raise InvalidParameter(f"cycle_length must be at most num_samples = {n}, got {cycle}")
    plans = [
        repeat(-(-count // cycle), subsample(_at_random(group, size / group, cap), noise))
        for count, z, size in parts
        for noise in [gaussian(noise_multiplier=z)]
    ]
    return _in_turn(sequence(*plans), cycle), "add_remove"


def _at_random(n: int, rate: float, cap: int | None) -> Scheme:
    """Poisson sampling, of which at most ``cap`` records are kept."""
    return poisson(n, rate) if cap is None else truncated_poisson(n, rate, cap)


def _in_turn(plan: Plan, cycle: int) -> Plan:
    """The plan of one of several groups; people with records in several groups are refused
    later."""
    return banded(plan, cycle) if cycle > 1 else plan


def _settings(noise: Any, sizes: Any, steps: int) -> list[tuple[int, float, int]]:
    """How many steps have which noise and batch size."""
    changes = [
        sorted((int(t), value) for t, value in given)
        if isinstance(given, Sequence)
        else [(0, given)]
        for given in (noise, sizes)
    ]
    for one in changes:
        if one[0][0] != 0:
            raise InvalidParameter(f"a schedule must begin with step 0, got {one[0][0]}")
    begin = sorted({t for one in changes for t, _ in one if t < steps})
    found = []
    for start, end in zip(begin, [*begin[1:], steps], strict=True):
        z, size = ([value for t, value in one if t <= start][-1] for one in changes)
        found.append((end - start, float(z), int(size)))
    return found


def plan_of(strategy: Any, num_examples: int, noise_multiplier: float) -> Plan:
    """What a batch selection strategy costs, with Gaussian noise on every batch.

    Parameters
    ----------
    strategy : jax_privacy.batch_selection.BatchSelectionStrategy
        How batches are drawn.
    num_examples : int
        How many records there are.
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm of one record.

    Returns
    -------
    Plan
        For :func:`mustdp.account`.

    Raises
    ------
    NotCovered
        No theorem here covers the strategy: truncated batches of a cycle, the same bin in several
        cycles, distances between batches, and groups of equal size in a cycle.

    Examples
    --------
    >>> import mustdp as md
    >>> from jax_privacy.batch_selection import FixedBatchSampling
    >>> from mustdp.interop.jax_privacy import plan_of
    >>> plan = plan_of(FixedBatchSampling(batch_size=50, iterations=20, replace=True), 5000, 4.0)
    >>> print(md.account(plan).epsilon(delta=1e-6))
    0.112 attained, 0.114 certified (replace-one)
    """
    n, noise = (
        checks.integer("num_examples", num_examples, 1),
        gaussian(noise_multiplier=noise_multiplier),
    )
    name = type(strategy).__name__
    steps = checks.integer("iterations", strategy.iterations, 1, MOST_STEPS)
    if isinstance(strategy, SchemeBatches):
        if strategy.scheme.n != n:
            raise InvalidParameter(f"num_examples must be {strategy.scheme.n}, got {n}")
        return steps_of(strategy.scheme, steps, noise)
    cap = getattr(strategy, "truncated_batch_size", None)
    if cap is not None and (
        type(strategy) is not batch_selection.CyclicPoissonSampling or strategy.cycle_length > 1
    ):
        raise NotCovered(f"strategy {name} must not truncate batches unless cycle_length is 1")
    if type(strategy) is batch_selection.FixedBatchSampling:
        draw = wr if strategy.replace else wor
        return repeat(steps, subsample(draw(n, strategy.batch_size), noise))
    if type(strategy) is batch_selection.CyclicPoissonSampling:
        cycle = checks.integer("cycle_length", strategy.cycle_length, 1)
        equal = strategy.partition_type is batch_selection.PartitionType.EQUAL_SPLIT
        if cycle > 1 and equal:
            raise NotCovered(
                "strategy must have groups of type INDEPENDENT: adding or removing one record "
                "changes groups of equal size"
            )
        step = subsample(_at_random(n, strategy.sampling_prob, cap), noise)
        return _in_turn(repeat(-(-steps // cycle), step), cycle)
    if type(strategy) is batch_selection.BallsInBinsSampling:
        if steps > strategy.cycle_length:
            raise NotCovered(
                "strategy must end within one cycle: every record has the same bin in all cycles"
            )
        return subsample(random_allocation(n, strategy.cycle_length).first(steps), noise)
    raise NotCovered(f"strategy {name} is not covered")


class SchemeBatches(batch_selection.BatchSelectionStrategy):  # type: ignore[misc, unused-ignore]
    """Any scheme or epoch of mustdp as a batch selection strategy of jax-privacy.

    A record that was drawn twice is in the batch twice. A pass with ``batch_iterator`` draws with
    fresh entropy; batches of an epoch go on from one epoch to the next.

    Parameters
    ----------
    scheme : Scheme or Epoch
        How batches are drawn.
    iterations : int
        How many batches a pass has.

    Examples
    --------
    >>> import mustdp as md
    >>> from mustdp.interop.jax_privacy import SchemeBatches
    >>> batches = SchemeBatches(md.must_ow(1000, 50, 20), iterations=3)
    >>> [len(batch) for batch in batches.batch_iterator(1000)]
    [20, 20, 20]
    """

    def __init__(self, scheme: Sampling, iterations: int) -> None:
        checks.real("expected size of the scheme", scheme.expected_size, above=0)
        self.scheme = scheme
        self.iterations = checks.integer("iterations", iterations, 1, MOST_STEPS)

    def batch_iterator(self, num_examples: int, rng: Any = None) -> Iterator[Any]:
        """Draw batches of numbers of records.

        Parameters
        ----------
        num_examples : int
            The n of the scheme.
        rng : int, default=None
            A seed, which repeats the batches and is for experiments; None takes fresh entropy.

        Yields
        ------
        ndarray
            The records of one batch.
        """
        if num_examples != self.scheme.n:
            raise InvalidParameter(
                f"num_examples must be the n = {self.scheme.n} of the scheme, got {num_examples!r}"
            )
        if rng is not None and not isinstance(rng, int | np.integer):
            raise InvalidParameter(
                "rng must be None or a seed: batches are drawn from a generator of their own, "
                f"got {type(rng).__name__}"
            )
        stream = BatchStream(self.scheme, release_key(rng, name="rng"))
        for number in range(self.iterations):
            yield stream.batch(number).rows()
