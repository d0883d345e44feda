"""Draws in stages: each takes entries of what the one before has left, with or without replacement.

[Z] = Zhao, Zhou & Liu, "MUltistage Sampling Technique (MUST)", arXiv 2312.13389: the schemes
MUSTow, MUSTww, MUSTwo, MUSToo are the two-stage cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.numerics import checks
from mustdp.randomness.substreams import generator
from mustdp.sampling.batch import Batch
from mustdp.sampling.catalogue import name_of
from mustdp.sampling.draws import draw_stages
from mustdp.sampling.law import TAIL, MultiplicityLaw, chain_law
from mustdp.sampling.rule import Scheme
from mustdp.sampling.stage import Stage, check_stages, read_stage, reduce_stages


@dataclass(frozen=True)
class Multistage(Scheme):
    """Any number of stages, each with or without replacement; batches have a fixed size.

    Parameters
    ----------
    n : int
        Number of records, at least 1.
    stages : sequence of (kind, size)
        The stages from first to last: each draws ``size`` entries of what the one before has left,
        without ("wor") or with ("wr") replacement.

    Raises
    ------
    InvalidParameter
        A stage draws more entries without replacement than there are.

    Examples
    --------
    >>> import mustdp as md
    >>> scheme = md.Multistage(1000, (("wor", 50), ("wr", 10)))
    >>> scheme == md.must_ow(1000, 50, 10), scheme.m
    (True, 10)
    """

    n: int
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.integer("n", self.n, 1))
        if not isinstance(self.stages, tuple | list) or not self.stages:
            raise InvalidParameter(
                "stages must be a non-empty list of (kind, size) pairs such as ('wor', 118), "
                f"got {self.stages!r}"
            )
        stages = tuple(read_stage(given, k) for k, given in enumerate(self.stages, start=1))
        object.__setattr__(self, "stages", stages)
        check_stages(self.n, stages)

    @property
    def name(self) -> str:
        """``wor``, ``wr``, ``must-ow`` and so on; ``multistage`` from three stages on."""
        return name_of(tuple(stage.kind for stage in self.stages))

    @property
    def m(self) -> int:
        """Batch size: the number of draws of the last stage."""
        return self.stages[-1].size

    @property
    def expected_size(self) -> float:
        """The batch size, which is fixed."""
        return float(self.m)

    @cached_property
    def reduced(self) -> tuple[Stage, ...]:
        """The shortest list of stages with the same law; what is drawn and what is charged."""
        return reduce_stages(self.n, self.stages)

    @cached_property
    def eta(self) -> float:
        """Chance that one given record is drawn at least once."""
        first, *rest = self.reduced
        if not rest:
            if first.kind == "wor":
                return first.size / self.n
            return _at_least_once(first.size, 1, self.n)
        # Condition on the list before the last stage, which is always with replacement here.
        before = chain_law(self.n, self.reduced[:-1], 1)
        slots = self.reduced[-2].size
        return math.fsum(
            p * _at_least_once(self.m, int(i), slots)
            for i, p in zip(before.positive_values, before.positive, strict=True)
        )

    def law(self, group: int = 1, tail: float = TAIL) -> MultiplicityLaw:
        """Law of the copies of ``group`` given records: the chain of the stages' kernels."""
        return chain_law(self.n, self.reduced, *self._law_arguments(group, tail))

    def draw(self, rng: np.random.Generator | None = None) -> Batch:
        """Draw from the last stage backwards, so that only occupied slots are ever filled."""
        return draw_stages(self.n, self.reduced, generator(rng))

    def describe(self) -> dict[str, Any]:
        """Plain description, for JSON."""
        stages = [[stage.kind, stage.size] for stage in self.stages]
        return {"scheme": self.name, "n": self.n, "stages": stages}


def _at_least_once(draws: int, special: int, slots: int) -> float:
    """1 - (1 - special/slots)^draws without cancellation."""
    if special >= slots:
        return 1.0
    return -math.expm1(draws * math.log1p(-special / slots))
