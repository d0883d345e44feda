"""Releases on simulated data without ledger or calibration, so that hundreds of them are quick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from mustdp.estimation.queries import Piece
from mustdp.estimation.release import clustered, run_rounds
from mustdp.estimation.schema import Columns, PublicSchema, Survey, read_schema
from mustdp.estimation.statistics.statistic import StatisticRequest, read_statistic
from mustdp.estimation.tables import read_groupings
from mustdp.numerics.arrays import FloatArray
from mustdp.randomness.keys import NoiseSource
from mustdp.types import Relation, ReleasedEstimate

#: Chance of an error of either kind in one check of a coverage.
ALPHA = 1e-4


def public(*, upper: float = 1.0, relation: str = "replace_one", **settings: Any) -> PublicSchema:
    """One column, x, from 0 to ``upper``."""
    given: dict[str, Any] = {"dropped": False, "population": None, **settings}
    grouping = read_groupings(given.pop("by", None), given.pop("groups", None))
    of_design = ("largest_weight", "largest_cluster", "whole_clusters", "shares")
    design = {name: given.pop(name) for name in of_design if name in given}
    plain = read_schema(
        Columns("x"),
        ("x",),
        lower=0.0,
        upper=upper,
        relation=Relation.read(relation),
        grouping=grouping,
        survey=Survey(),
        **given,
    )
    return replace(plain, **design)


def released(
    schema: PublicSchema,
    x: FloatArray,
    asked: Sequence[str],
    noise: float,
    seed: Sequence[int],
    *,
    slots: Any = None,
    clusters: Any = None,
    level: float = 0.95,
) -> tuple[ReleasedEstimate, ...]:
    """One release on the values ``x``, NaN for missing ones."""
    where = np.zeros(len(x), dtype=np.int64) if slots is None else np.asarray(slots)
    values = np.clip(x, 0.0, schema.columns[0].numeric.upper)[:, None]
    piece = Piece(values, where, None, values)
    if clusters is not None:
        piece = clustered([piece], np.asarray(clusters, dtype=np.float64), schema)

    def bound(to: PublicSchema) -> list[StatisticRequest]:
        return [one for text in asked for one in read_statistic(text).requests(to)]

    key = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    return run_rounds(
        schema, lambda: iter((piece,)), bound, noise, charge=lambda: None,
        source=NoiseSource(key), level=level,
    )  # fmt: skip


def covered(
    runs: int, one: Callable[[int], ReleasedEstimate], truth: float, shift: float = 0.0
) -> tuple[int, int]:
    """How often the truth is in the interval, and how often the truth moved by ``shift`` errors."""
    found = [one(seed) for seed in range(runs)]
    right = sum(est.interval[0] <= truth <= est.interval[1] for est in found)
    error = float(np.median([est.standard_error for est in found]))
    wrong = truth + shift * error
    return right, sum(est.interval[0] <= wrong <= est.interval[1] for est in found)


def accepted(hits: int, runs: int, least: float = 0.93) -> bool:
    """Whether a coverage of at least ``least`` is not refuted."""
    return bool(stats.binom.cdf(hits, runs, least) > ALPHA)
