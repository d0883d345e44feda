"""What the linear models take from scikit-learn, and what to install where it is missing."""

from __future__ import annotations

from mustdp.extras import required

required("sklearn", "a linear model")

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import (  # noqa: E402
    _num_samples,
    check_is_fitted,
    validate_data,
)

__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "RegressorMixin",
    "_num_samples",
    "check_classification_targets",
    "check_is_fitted",
    "validate_data",
]
