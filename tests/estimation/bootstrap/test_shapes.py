"""What the accountant builds on is true of what is released: a ball, or distances; one number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import mustdp as md
from mustdp.accounting.plan import Atom, Subsample, atoms
from mustdp.errors import NumericalFailure
from mustdp.estimation.bootstrap import check_shape, design_with_noise, shape_of
from mustdp.estimation.queries import JointQuery, LinearQuery, exact_release
from mustdp.estimation.schema import Shape, SubsetSchema
from mustdp.estimation.statistics.statistic import Statistic, read_statistic
from mustdp.types import Gaussian, Mean

AVERAGE = md.types.UserStatistic(lambda v, c: c @ v / c.sum(), sensitivity=0.4, average=True)
TWO = md.types.UserStatistic(
    lambda v, c: np.repeat(c @ v / c.sum(), 2), sensitivity=0.6, average=True, labels=("a", "b")
)
HALVED = md.types.UserStatistic(lambda v, c: float(v.max()), sensitivity=lambda m: 10.0)
STATISTICS: list[tuple[Statistic, int, Shape]] = [
    (Mean(squares=False), 1, Shape(True, True)),
    (md.types.Proportion(above=3.0), 1, Shape(True, True)),
    (md.types.Quantile(0.3, grid=5), 1, Shape(True)),
    (md.types.Quantile(0.3, grid=1), 1, Shape(True)),  # one number, of which no use is made
    (Mean(), 1, Shape(False)),
    (md.types.Variance(), 1, Shape(False)),
    (md.types.Variance(form="pairs"), 1, Shape(False, True)),
    (read_statistic("sd"), 1, Shape(False)),
    (md.types.Covariance(), 2, Shape(False)),
    (md.types.Correlation(form="pairs"), 2, Shape(False)),
    (md.types.LinearRegression(), 3, Shape(False)),
    (AVERAGE, 1, Shape(False, True)),
    (TWO, 1, Shape(False)),
    (HALVED, 1, Shape(False)),
]
#: What the notes say of estimates is not the subject here.
pytestmark = pytest.mark.filterwarnings("ignore::mustdp.estimation.result.InferenceNote")
DESIGN = md.types.Design(md.wor(400, 25), 50)
RECORDS = np.random.default_rng(3).uniform(0.0, 10.0, (400, 2))


def joint(*statistics: Statistic, columns: int = 1, poisson: bool = False) -> JointQuery:
    public = SubsetSchema((0.0,) * columns, (10.0,) * columns, 25, poisson)
    picks = tuple(tuple(range(columns)) for _ in statistics)
    return JointQuery(tuple(one.query(public) for one in statistics), picks)


@pytest.mark.parametrize(("statistic", "columns", "shape"), STATISTICS)
def test_shapes_are_those_of_the_queries(statistic: Statistic, columns: int, shape: Shape) -> None:
    assert statistic.shape(poisson=False) == shape
    query = joint(statistic, columns=columns)
    adds_up = all(isinstance(part, LinearQuery) and part.in_a_ball for part in query.queries)
    assert adds_up == shape.in_a_ball
    assert not shape.one_number or query.width == 1


@pytest.mark.parametrize(("statistic", "columns", "shape"), STATISTICS)
def test_on_poisson_subsets_a_size_is_released_too(
    statistic: Statistic, columns: int, shape: Shape
) -> None:
    known = statistic.shape(poisson=True)
    assert not known.one_number
    if isinstance(statistic, md.types.UserStatistic):
        return  # refused there
    query = joint(statistic, columns=columns, poisson=True)
    assert query.width > 1
    assert known.in_a_ball == all(part.in_a_ball for part in query.queries)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("statistic", "columns", "shape"), STATISTICS)
def test_contributions_in_a_ball_are_no_longer_than_the_reach(
    statistic: Statistic, columns: int, shape: Shape
) -> None:
    if not shape.in_a_ball:
        return
    query = joint(statistic, columns=columns)
    (own,) = query.queries
    values = np.random.default_rng(1).choice([0.0, 2.9, 3.0, 3.1, 10.0], (200, columns))
    assert isinstance(own, LinearQuery)
    radii = np.concatenate([np.full(b.width, b.radius_of_total) for b in query.blocks])
    assert np.linalg.norm(own.contributions(values) / radii, axis=1).max() <= 1.0


def test_three_moments_do_not_fit_into_the_ball_that_any_two_of_them_fit_into() -> None:
    """So no multiplier may be stated for them: families for balls would leave this triple out."""
    query = joint(Mean())
    (own,) = query.queries
    radii = np.array([block.radius_of_total for block in query.blocks])
    assert isinstance(own, LinearQuery)
    x, other, y = own.contributions(np.array([[0.0], [10.0], [5.0]])) / radii
    u, v, w = (float(np.linalg.norm(d)) for d in (x - y, other - y, x - other))
    assert max(u, v, w) <= 2.0
    assert u * u + v * v > w * w  # acute: the circle through them is the smallest around them
    angle = np.arccos((u * u + v * v - w * w) / (2.0 * u * v))
    assert w / (2.0 * np.sin(angle)) > 1.13


def noise_of(plan: Any) -> Gaussian:
    (atom,) = atoms(plan)
    found: Atom = atom
    assert isinstance(found, Subsample)
    assert isinstance(found.inner, Gaussian)
    return found.inner


def release(statistic: Any, columns: int = 1, **changes: Any) -> md.types.BootstrapResult:
    settings: dict[str, Any] = {
        "lower": 0.0, "upper": 10.0, "design": DESIGN, "noise_multiplier": 3.0, "delta": 1e-5,
    }  # fmt: skip
    return md.private_bootstrap(RECORDS[:, :columns], statistic, **(settings | changes))


def test_one_number_a_subset_is_accounted_for_as_such() -> None:
    privacy = release("proportion:>3").privacy
    assert privacy.dimension == privacy.as_dict()["dimension"] == 1
    plan = DESIGN.plan(md.gaussian(noise_multiplier=3.0))
    line = md.account(plan, relation="replace_one", dimension=1).epsilon(1e-5)
    disc = md.account(plan, relation="replace_one").epsilon(1e-5)
    assert privacy.plan == plan
    assert privacy.epsilon == line
    assert line.lower <= line.upper < disc.upper
    assert "one number a subset" in str(release("proportion:>3"))


def test_what_is_released_about_a_subset_is_one_integer_and_one_noise() -> None:
    """The lattice sum of a statistic of dimension 1, before and after noise, has one coordinate."""
    for statistic, columns, shape in STATISTICS:
        exact = exact_release(joint(statistic, columns=columns), 3.0, 25)
        if not shape.one_number:
            continue
        assert len(exact.noise) == len(exact.stepped.lattices) == exact.stepped.width == 1
        total = exact.stepped.total(RECORDS[:25, :columns], np.ones(25, dtype=np.int64))
        assert total.shape == (1,)
        assert total[0] == round(total[0])


@pytest.mark.parametrize(
    ("statistic", "columns"),
    [("mean", 1), ("covariance", 2), (["proportion:>3", "proportion:<7"], 1), (TWO, 1),
     ([md.types.Proportion(above=3.0, columns=(one,)) for one in (0, 1)], 2)],
)  # fmt: skip
def test_more_than_one_number_is_not(statistic: Any, columns: int) -> None:
    privacy = release(statistic, columns, design=md.types.Design(md.wor(400, 25), 6)).privacy
    assert privacy.dimension is None
    assert "dimension" not in privacy.as_dict()


@pytest.mark.parametrize(
    ("statistic", "ball"), [("median", True), ("proportion:>3", True), ("mean", False),
                            ("variance", False), (["proportion:>3", "mean"], False)],
)  # fmt: skip
def test_plans_say_no_more_than_is_proved(statistic: Any, ball: bool) -> None:
    result = release(statistic, design=md.types.Design(md.wr(400, 25), 6))
    noise = noise_of(result.privacy.plan)
    assert noise.in_a_ball == ball
    assert noise.shift_for(2.0) == 2.0 / 3.0
    assert result.privacy.noise_multiplier == 3.0


def test_distances_alone_cost_more_than_a_ball_and_no_more_than_one_pair() -> None:
    known = {"delta": 1e-5, "noise_multiplier": 3.0}
    ball, apart = (
        design_with_noise(DESIGN, shape=Shape(inside), **known).spent().epsilon  # type: ignore[arg-type]
        for inside in (True, False)
    )
    plan = DESIGN.plan(md.gaussian(noise_multiplier=3.0))
    pair = md.account(plan, relation="replace_one", composition="pair").epsilon(1e-5)
    assert ball.upper < apart.upper <= pair.upper * (1.0 + 1e-9)


@dataclass(frozen=True)
class _Lying(Mean):
    """Claims of a mean with squares what is true of one without."""

    def shape(self, poisson: bool) -> Shape:
        return Shape(in_a_ball=True, one_number=not self.squares)


def test_a_statistic_that_is_not_what_it_claims_releases_nothing() -> None:
    with pytest.raises(NumericalFailure, match="nothing was released"):
        release(_Lying())
    privacy = release("proportion:>3", design=md.types.Design(md.wor(400, 25), 6)).privacy
    with pytest.raises(
        NumericalFailure, match="for one number, and does not fit a release of 2 numbers"
    ):
        check_shape(Shape(False, True), joint(Mean()), privacy)
    check_shape(Shape(False, True), joint(Mean()), replace(privacy, plan=None))  # not charged


def test_a_ledger_counts_releases_of_any_dimension(tmp_path: Any) -> None:
    share = (md.types.Proportion(above=3.0),)
    assert shape_of(share, poisson=False, charged=False).one_number
    assert not shape_of(share, poisson=False, charged=True).one_number
    with md.Ledger.open(tmp_path / "own.ledger", epsilon=50, delta=1e-5) as ledger:
        privacy = release(share, ledger=ledger, design=md.types.Design(md.wor(400, 25), 6)).privacy
    assert privacy.dimension is None
