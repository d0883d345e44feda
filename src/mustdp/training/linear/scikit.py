"""What the linear models take from scikit-learn, and what to install where it is missing."""

from __future__ import annotations

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as problem:
    raise ImportError(
        "the linear models need scikit-learn 1.6 or later: pip install 'mustdp[train]'"
    ) from problem

__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "RegressorMixin",
    "check_classification_targets",
    "check_is_fitted",
    "validate_data",
]
