"""scikit-learn's own checks of an estimator, on the models as people make them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from mustdp.training.linear.models import DPLinearRegression, DPLogisticRegression


# The checks set random_state, which warns here, and skip with a warning what does not apply.
@pytest.mark.filterwarnings("ignore::mustdp.randomness.keys.SeededRelease")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::mustdp.training.linear.models.TakenAsPublic")
@parametrize_with_checks([DPLinearRegression(delta=1e-5), DPLogisticRegression(delta=1e-5)])  # type: ignore[misc,untyped-decorator,unused-ignore]
def test_scikit_learn_accepts_it(estimator: Any, check: Any) -> None:
    check(estimator)
