"""Intervals: shapes, scalings and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import mustdp as md
from mustdp.errors import InvalidParameter
from mustdp.estimation.bootstrap import check_kind, infer
from mustdp.estimation.result import Spread
from mustdp.estimation.schema import SubsetSchema
from mustdp.types import Design, Mean, Variance


def test_t_quantiles_grow_where_little_is_known() -> None:
    assert Spread(1.0, 0.0).quantile(0.95) == pytest.approx(stats.norm.ppf(0.975), rel=1e-6)
    assert Spread(1.0, 0.0, 3.0).quantile(0.95) == pytest.approx(stats.t.ppf(0.975, 3))
    assert Spread(1.0, 0.0, 0.01).quantile(0.95) == pytest.approx(stats.t.ppf(0.975, 1))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("percentile", "neither that of n records"),
        ("bootstrap-t", "hides the standard errors of single subsets"),
        ("BCa", "influence of every single record"),
        ("wald", "interval must be"),
    ],
)
def test_other_kinds_are_refused_with_the_reason(kind: str, reason: str) -> None:
    with pytest.raises(InvalidParameter, match=reason):
        check_kind(kind)
    check_kind("normal")


def test_the_m_out_of_n_scaling() -> None:
    """Replicates of 50 of 1000 vary 20 times as much as the estimate from all 1000 does."""
    design, rng = Design(md.wr(1000, 50), 4000), np.random.default_rng(5)
    query = Mean(squares=False).query(SubsetSchema([-10.0], [10.0], 50))
    released = 1.0 + rng.normal(0, 1 / math.sqrt(50), (4000, 1))
    found = infer(design, query, released, np.zeros(1)).estimates[0]
    assert found.standard_error == pytest.approx(math.sqrt(1 / 1000 + 1 / 50 / 4000), rel=0.05)
    assert found.standard_error < 0.5 * float(released.std())


def test_repeated_records_bias_variances_and_are_corrected() -> None:
    """MUSTow with b = 10: sample variances are 10 % too small, as the paper's Table 3 shows."""
    design = Design(md.must_ow(1000, 10, 30), 3000)
    query = Variance(form="pairs").query(SubsetSchema([-4.0], [4.0], 30))
    data = np.random.default_rng(6).normal(size=(1000, 1))
    released = np.array(
        [query.evaluate(data[b.indices], b.counts) for _, b in design.draws(1, 0, 3000)]
    )
    truth, error = data.var(ddof=1), 0.01
    plain = infer(design, query, released, np.zeros(1), correct=False)
    corrected = infer(design, query, released, np.zeros(1))
    assert plain.estimates[0].value == pytest.approx(0.9 * truth, abs=2.5 * error)
    assert corrected.estimates[0].value == pytest.approx(truth, abs=2.5 * error)
    assert plain.notes == ()
    assert "corrected" in corrected.notes[0]
    assert "0.1," in corrected.notes[0]


def test_a_variance_of_one_record_is_refused() -> None:
    design = Design(md.must_ow(100, 1, 10), 5)
    query = Variance(form="pairs").query(SubsetSchema([-4.0], [4.0], 10))
    with pytest.raises(InvalidParameter, match="more than one distinct record"):
        infer(design, query, np.zeros((5, 1)), np.ones(1))
