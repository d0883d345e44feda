"""scikit-learn's own checks of an estimator, on the models as people make them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from mustdp import DPLinearRegression, DPLogisticRegression


def _expected(_: Any) -> dict[str, str]:
    why = "gradients are clipped, so that a weight of two is not two records"
    zero = "that all weights are zero is not told"
    return {
        "check_sample_weight_equivalence_on_dense_data": why,
        "check_sample_weight_equivalence_on_sparse_data": why,
        "check_all_zero_sample_weights_error": zero,
    }


# The checks set random_state, which warns here, and skip with a warning what does not apply.
@pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::mustdp.training.linear.descent.TakenAsPublic")
@parametrize_with_checks(
    [DPLinearRegression(delta=1e-5), DPLogisticRegression(delta=1e-5)],
    expected_failed_checks=_expected,
)  # type: ignore[misc,untyped-decorator,unused-ignore]
def test_scikit_learn_accepts_it(estimator: Any, check: Any) -> None:
    check(estimator)
