"""The noise of one release on all records: settled and certified before any data are touched."""

from __future__ import annotations

from dataclasses import dataclass

from mustdp.accounting.plan import Plan
from mustdp.calibration.settle import Spent, settle_noise
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.mechanism import AdditiveNoise
from mustdp.mechanisms.relation import Relation
from mustdp.sampling.scheme import Scheme, wor


@dataclass(frozen=True)
class OneRelease:
    """A job of one Gaussian release; nothing is drawn, so its number of records says nothing."""

    @property
    def scheme(self) -> Scheme:
        """All of one record."""
        return wor(1, 1)

    def plan(self, mechanism: AdditiveNoise, /) -> Plan:
        """The mechanism itself, on all records."""
        return mechanism


def settle_release(
    *,
    epsilon: float | None,
    delta: float | None,
    noise_multiplier: float | None,
    relation: Relation,
) -> Spent:
    """What a release with this budget costs; exactly one of epsilon and noise_multiplier."""
    if delta is None:
        raise InvalidParameter.refusing(
            "delta", "must be given, well below one over the number of records", "none"
        )
    return settle_noise(
        OneRelease(),
        delta=delta,
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        relation=relation,
    ).spent()
