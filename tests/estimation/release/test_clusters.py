"""No record and no cluster moves a release too far: of any size, slot, weight, with values missing.

Small random tables of clusters, of which one record or one whole cluster is added, removed or
replaced, and with it its cluster, its slot and what is missing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mustdp as md
from mustdp.estimation.queries import BoundedSum, JointSums, Piece
from mustdp.estimation.release import clustered
from mustdp.estimation.schema import Column, PublicSchema, Range
from mustdp.estimation.statistics.counts import CellCounts, CellSquares, Crossed, Listed, Within
from mustdp.estimation.statistics.moments import Influences, Moments
from mustdp.estimation.statistics.quantiles import QuantileCurve, QuantileSquares
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.types import Relation
from tests.estimation.release.swapping import allowed

COLUMNS = (Column("y", Range(0.0, 20.0)), Column("kind", categories=("a", "b")))
TRIES = 120


@dataclass(frozen=True, eq=False)
class People:
    """A table: values, slots, weights and the cluster of every record."""

    values: FloatArray
    slots: IntArray
    weights: FloatArray
    homes: IntArray

    def of(self, kept: Any) -> People:
        return People(self.values[kept], self.slots[kept], self.weights[kept], self.homes[kept])

    def and_(self, other: People) -> People:
        mine, theirs = vars(self), vars(other)
        return People(**{name: np.concatenate([mine[name], theirs[name]]) for name in mine})

    def piece(self, schema: PublicSchema) -> Piece:
        weights = self.weights if schema.weighted else None
        plain = Piece(self.values, self.slots, weights, self.values)
        return clustered([plain], self.homes.astype(float), schema)


def people(count: int, schema: PublicSchema, rng: np.random.Generator, homes: Any = None) -> People:
    """Records that are often alike, so that clusters are extreme."""
    chosen = [0.0, 20.0, 20.0, 3.0, *([np.nan] if schema.dropped else [])]
    alike = rng.random() < 0.5
    y = rng.choice(chosen, count) if not alike else np.full(count, rng.choice(chosen))
    kind = rng.integers(0, 3, count) if not alike else np.full(count, rng.integers(0, 3))
    slots = rng.integers(0, schema.slots, count)
    weights = rng.choice([0.0, 0.5, 1.0, 1.0], count)
    own = rng.integers(0, 4, count) if homes is None else np.full(count, homes)
    return People(np.column_stack([y, kind.astype(float)]), slots, weights, own)


def neighbour(table: People, schema: PublicSchema, unit: str, rng: np.random.Generator) -> People:
    replaced = schema.relation == Relation.REPLACE_ONE
    if unit == "record":
        rest = table.of(slice(1, None))
        return rest.and_(people(1, schema, rng)) if replaced else rest
    rest = table.of(table.homes != table.homes[0])
    if not replaced:
        return rest
    return people(int(rng.integers(1, 6)), schema, rng, homes=9).and_(rest)


def parts(schema: PublicSchema, rng: np.random.Generator) -> dict[str, BoundedSum]:
    moments = Moments(schema, (0,))
    share = CellCounts(schema, (0,), Within(2.0, 10.0))
    table = CellCounts(schema, (1, 0), Crossed((Listed(COLUMNS[1].cells), Within(2.0, 10.0))))
    corners = rng.dirichlet(np.full(6, 0.1), schema.slots)
    curve = QuantileCurve(schema, (0,), (0.0, 3.0, 9.0, 19.0))
    return {
        "moments": moments,
        "influences": Influences(
            moments,
            rng.normal(size=(schema.slots, 2, 2)),
            rng.uniform(-1.0, 1.0, size=(schema.slots, 2)),
        ),
        "share": share,
        "table": table,
        "squares of a share": CellSquares(share, rng.dirichlet([0.1, 0.1], schema.slots)),
        "squares of a table": CellSquares(table, 1.2 * corners),
        "curve": curve,
        "squares of quantiles": QuantileSquares(
            curve,
            (0.5, 0.9),
            rng.choice([0.0, 3.0, 19.0], (schema.slots, 2)),
            rng.choice([-0.1, 0.0, 0.2, 1.0], (schema.slots, 2)),
        ),
    }


@pytest.mark.parametrize("unit", ["record", "cluster"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("design", ["plain", "grouped", "dropped and weighted"])
@pytest.mark.parametrize("most", [1, 3])
def test_no_unit_moves_a_release_too_far(unit: str, relation: str, design: str, most: int) -> None:
    last = design == "dropped and weighted"
    schema = PublicSchema(
        COLUMNS, Relation.read(relation), 20,
        groups=("a", "b", "other") if design == "grouped" else (),
        by="kind" if design == "grouped" else None,
        dropped=last, largest_weight=2.0 if last else None,
        largest_cluster=most, whole_clusters=unit == "cluster",
    )  # fmt: skip
    rng = np.random.default_rng([most, len(design)])
    farthest: dict[str, float] = {}
    for _, (name, part) in itertools.product(range(5), parts(schema, rng).items()):
        stack = JointSums(schema, (part,), noise_multiplier=2.0)
        for _ in range(TRIES // 5):
            before = people(int(rng.integers(1, 9)), schema, rng)
            after = neighbour(before, schema, unit, rng)
            first, second = (
                stack.totals([one.piece(schema)] if len(one.slots) else [])[0]
                for one in (before, after)
            )
            moved = float(np.linalg.norm(first - second)) * stack.noise.lattice.step
            assert moved <= allowed(stack), name
            farthest[name] = max(farthest.get(name, 0.0), moved / allowed(stack))
    for name in ("moments", "share", "table", "curve"):
        assert farthest[name] > (0.3 if unit == "record" and design == "plain" else 0.45), farthest
    for name in ("influences", *(one for one in farthest if one.startswith("squares"))):
        assert farthest[name] > 0.15, farthest


def test_squares_of_clusters_are_those_of_the_textbook() -> None:
    """Added up before they are squared."""
    schema = PublicSchema(COLUMNS, Relation.REPLACE_ONE, 400, largest_cluster=5)
    rng = np.random.default_rng(3)
    homes = rng.integers(0, 100, 400)
    values = np.column_stack([rng.uniform(0, 20, 400), rng.integers(0, 3, 400)])
    table = People(values, np.zeros(400, dtype=np.int64), np.ones(400), homes)
    cells = CellCounts(schema, (1,), Listed(COLUMNS[1].cells))
    p = np.array([[0.3, 0.3, 0.4]])
    stack = JointSums(schema, (CellSquares(cells, p),), noise_multiplier=1e-3)
    totals = stack.totals([table.piece(schema)])[0] * stack.noise.lattice.step
    found = stack.read(totals)[0].sums[0]
    for k in range(3):
        within = np.bincount(homes, (values[:, 1] == k) - p[0, k])
        expected = float(np.minimum((within / 5) ** 2, 1.0).sum())
        assert found[k] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("unit", ["record", "cluster"])
def test_records_add_no_more_than_there_is_room_for(unit: str) -> None:
    """The lattice has room for a number of records, whatever clusters they come in."""
    rng, top = np.random.default_rng(11), 0.0
    for most, size in itertools.product([1, 3, 50], [1, 2, 3, 60]):
        schema = PublicSchema(
            COLUMNS, Relation.ADD_REMOVE, largest_cluster=most, whole_clusters=unit == "cluster"
        )
        homes = np.repeat(np.arange(4), size)
        for y, kind in itertools.product([0.0, 20.0], [0.0, 2.0]):
            values = np.tile([y, kind], (len(homes), 1))
            table = People(values, 0 * homes, np.ones(len(homes)), homes)
            for name, part in parts(schema, rng).items():
                stack = JointSums(schema, (part,), noise_multiplier=2.0)
                totals, records = stack.totals([table.piece(schema)])
                used = np.abs(totals).max() * stack.noise.lattice.step / (records * stack._radius())
                assert used <= 1.0, name
                top = max(top, used)
    assert top > 0.99


def test_large_clusters_tell_no_number_of_records() -> None:
    """Where it is private no number may be refused: the refusal would tell it, and cost nothing."""
    frame = pd.DataFrame({"y": np.linspace(0.0, 20.0, 6000), "home": np.arange(6000)})
    survey = md.types.Survey(cluster="home", largest_cluster=10**6)
    found = md.private_release(
        frame, "mean", columns="y", lower=0, upper=20, survey=survey, relation="add_remove",
        noise_multiplier=1.0, delta=1e-6,
    )  # fmt: skip
    assert len(found.estimates) == 1
