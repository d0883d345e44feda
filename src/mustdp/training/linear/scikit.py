"""What the linear models take from scikit-learn, and what to install where it is missing."""

from __future__ import annotations

from mustdp.extras import required

required("sklearn", "a linear model")

# ruff: noqa: E402
from sklearn.base import BaseEstimator as BaseEstimator
from sklearn.base import ClassifierMixin as ClassifierMixin
from sklearn.base import RegressorMixin as RegressorMixin
from sklearn.exceptions import NotFittedError as NotFittedError
from sklearn.utils.multiclass import check_classification_targets as check_classification_targets
from sklearn.utils.validation import _num_samples as _num_samples
from sklearn.utils.validation import check_is_fitted as check_is_fitted
from sklearn.utils.validation import validate_data as validate_data
