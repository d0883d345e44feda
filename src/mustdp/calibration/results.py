"""What a calibration returns: the same five facts always, and beside them what was looked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan
from mustdp.mechanisms.mechanism import AdditiveNoise, Mechanism
from mustdp.mechanisms.relation import Relation
from mustdp.sampling.epochs import Sampling
from mustdp.sampling.scheme import Scheme


@dataclass(frozen=True)
class Calibrated:
    """A plan that meets a target: ``epsilon.upper`` at ``delta`` is at most what was asked."""

    plan: Plan
    mechanism: Mechanism
    relation: Relation
    epsilon: Bounds
    delta: float


@dataclass(frozen=True)
class PlanCalibration(Calibrated):
    """Noise for a whole plan that meets a target."""

    mechanism: AdditiveNoise

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier found."""
        return float(self.mechanism.noise_multiplier or math.nan)


@dataclass(frozen=True)
class Calibration(PlanCalibration):
    """Noise that meets a target for repeated draws of one scheme, or so many batches of epochs."""

    scheme: Sampling
    steps: int


@dataclass(frozen=True)
class Solution(Calibrated):
    """Steps or a size that meet a target for a given noise; ``value`` is the one looked for."""

    scheme: Scheme
    steps: int
    value: int
