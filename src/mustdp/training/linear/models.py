"""DPLinearRegression and DPLogisticRegression: private counterparts of scikit-learn's models.

Noise, clipping and accounting are in ``descent.py``, ``clipping.py`` and ``budget.py``; here are
the targets, the predictions and the documentation people read.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.errors import InvalidParameter
from mustdp.numerics.arrays import FloatArray
from mustdp.training.documented import documented
from mustdp.training.linear.estimator import PrivateLinearModel
from mustdp.training.linear.losses import (
    LogisticLoss,
    Loss,
    MultinomialLoss,
    SquaredError,
    sigmoid,
    softmax,
)
from mustdp.training.linear.parameters import CLASSES, shared
from mustdp.training.linear.rates import LearningRate
from mustdp.training.linear.scikit import (
    ClassifierMixin,
    RegressorMixin,
    check_classification_targets,
)
from mustdp.training.linear.unquoted import checked


class TakenAsPublic(UserWarning):
    """Something that the data decided is used and shown without noise.

    Examples
    --------
    >>> import mustdp as md
    >>> issubclass(md.TakenAsPublic, Warning)
    True
    """


@documented(shared())
class DPLinearRegression(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear regression with certified differential privacy.

    Minimises the mean of (x'w + c - y)^2 by noisy gradient descent; the gradient of a record is
    2 (x'w + c - y) (x, 1), clipped.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    >>> model = md.DPLinearRegression(m=20, steps=5, noise_multiplier=2.0, delta=1e-5)
    >>> model.fit(X, X[:, 0]).coef_.shape
    (1,)
    >>> model.privacy_.certified
    True
    """

    def predict(self, X: Any) -> FloatArray:
        """Predicted values, one per row of X.

        Parameters
        ----------
        X : array_like
            Rows ``(records, features)``.

        Returns
        -------
        ndarray
            ``(records,)``.
        """
        return self._scores(X)[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination of the predictions, which no guarantee covers.

        Parameters
        ----------
        X : array_like
            Rows ``(records, features)``.
        y : array_like
            One target per row.
        sample_weight : array_like, default=None
            One weight per row.

        Returns
        -------
        float
            At most 1.
        """
        return float(checked(super().score, X, y, sample_weight))

    def _checks_of_y(self) -> dict[str, Any]:
        return {"y_numeric": True}

    def _read_targets(self, y: NDArray[Any]) -> tuple[Loss, NDArray[Any], dict[str, Any]]:
        return SquaredError(), y.astype(np.float64, copy=False), {}

    def _keep_weights(self, coefficients: FloatArray, intercepts: FloatArray) -> None:
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])

    def __sklearn_tags__(self) -> Any:
        """The noise may well drown a small data set."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@documented(shared(CLASSES))
@dataclass(kw_only=True, eq=False, repr=False)
class DPLogisticRegression(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Logistic regression, binary or multinomial, with certified differential privacy.

    Two classes share one score and the gradient (p - y) (x, 1); K > 2 classes have K scores.
    ``classes_`` holds the classes, sorted.

    Examples
    --------
    >>> import mustdp as md
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    >>> model = md.DPLogisticRegression(
    ...     classes=[0, 1], m=20, steps=5, noise_multiplier=2.0, delta=1e-5
    ... )
    >>> model.fit(X, X[:, 0] > 0).predict(X[:3]).shape
    (3,)
    """

    classes: Any = None
    learning_rate: LearningRate = 1.0
    classes_: NDArray[Any] = field(init=False)

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of the rows of X: one each for two classes, else one per class.

        Parameters
        ----------
        X : array_like
            Rows ``(records, features)``.

        Returns
        -------
        ndarray
            ``(records,)`` for two classes, else ``(records, classes)``.
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> FloatArray:
        """Chance of each class, one row per row of X, in the order of ``classes_``.

        Parameters
        ----------
        X : array_like
            Rows ``(records, features)``.

        Returns
        -------
        ndarray
            ``(records, classes)``.
        """
        scores = self._scores(X)
        if len(self.classes_) > 2:
            return softmax(scores)
        second = sigmoid(scores)
        return np.hstack([1.0 - second, second])

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row of X.

        Parameters
        ----------
        X : array_like
            Rows ``(records, features)``.

        Returns
        -------
        ndarray
            ``(records,)``, of the labels in ``classes_``.
        """
        scores = self._scores(X)
        best = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(int)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose class is predicted, which no guarantee covers.

        Parameters
        ----------
        X : array_like
            Rows ``(records, features)``.
        y : array_like
            One label per row.
        sample_weight : array_like, default=None
            One weight per row.

        Returns
        -------
        float
            Between 0 and 1.
        """
        return float(checked(super().score, X, y, sample_weight))

    def _read_targets(self, y: NDArray[Any]) -> tuple[Loss, NDArray[Any], dict[str, Any]]:
        check_classification_targets(y)
        classes, numbers = read_classes(y, self.classes)
        learned = {"classes_": classes}
        if len(classes) == 2:
            return LogisticLoss(), numbers.astype(np.float64), learned
        return MultinomialLoss(len(classes)), numbers, learned

    def _keep_weights(self, coefficients: FloatArray, intercepts: FloatArray) -> None:
        self.coef_, self.intercept_ = coefficients, intercepts

    def __sklearn_tags__(self) -> Any:
        """The noise may well drown a small data set."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


def read_classes(y: NDArray[Any], given: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The sorted classes, and the number of each label among them."""
    if given is None:
        classes, numbers = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InvalidParameter("y must hold at least two classes, got one class only")
        warnings.warn(
            "classes was not given: which labels occur in y is taken as public, and no guarantee "
            "covers it; classes=[...] states them beforehand",
            TakenAsPublic,
            stacklevel=5,
        )
        return classes, numbers.reshape(-1).astype(np.int64)
    classes = np.unique(np.asarray(given))
    if classes.ndim != 1 or len(classes) < 2 or len(classes) != np.size(given):
        raise InvalidParameter(f"classes must be a list of two or more labels, got {given!r}")
    known = np.isin(y, classes)
    if not known.all():
        raise InvalidParameter(
            f"y must hold labels of classes = {classes.tolist()!r} only, got others"
        )
    return classes, np.searchsorted(classes, y).astype(np.int64)
