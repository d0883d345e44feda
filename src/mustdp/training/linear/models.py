"""DPLinearRegression and DPLogisticRegression: private counterparts of scikit-learn's models."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mustdp.calibration.budget import PrivacySpent
from mustdp.errors import InvalidParameter, MustdpError
from mustdp.extras import required
from mustdp.ledger.ledger import BaseLedger
from mustdp.ledger.release import LedgerOrPath, charge_release, check_release
from mustdp.numerics.arrays import FloatArray
from mustdp.randomness.keys import NoiseSource, release_key
from mustdp.sampling.epochs import Sampling
from mustdp.training.linear.descent import (
    LearningRate,
    LinearRecords,
    LogisticLoss,
    Loss,
    MultinomialLoss,
    OnStep,
    SquaredError,
    TakenAsPublic,
    descend,
    exact_noise,
    read_recipe,
    sigmoid,
    softmax,
)

required("sklearn", "a linear model")

# ruff: noqa: E402
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

# Errors about X and y that quote none of their values.
#
# scikit-learn and numpy print arrays, or the entry that they stumbled on, into their messages, and
# a message travels farther than the data: into logs, notebooks and reports. An error that is
# raised while another is handled keeps it as its context, even with ``from None``. So what they
# raise is caught, its sentence is written anew from a list of those that are known to quote sizes
# only, and it is raised after the handler has ended.


_Found = TypeVar("_Found")


class WrongKind(InvalidParameter, TypeError):
    """An argument is of a kind that holds no numbers at all."""


_OTHERS = "X and y must be arrays of numbers, got others"
_RESHAPE = (
    "Reshape your data with X.reshape(-1, 1) if it has a single feature, or X.reshape(1, -1) if it "
    "is a single record"
)
_FINITE = r"dtype\('float(?:32|64)'\)"
#: How a message begins, with groups for sizes and fixed words alone, and what is said instead.
_KNOWN: tuple[tuple[str, str], ...] = (
    (
        r"Expected 2D array, got (1D|scalar) array",
        rf"X must be a 2D array, got a \1 one. {_RESHAPE}",
    ),
    (
        r"Expected 2D input|Expected a 2-dimensional",
        rf"X must be a 2D array, got another. {_RESHAPE}",
    ),
    (r"Complex data not supported", r"X and y must be real: Complex data not supported"),
    (r"Input (X |y )?contains NaN", r"Input \1contains NaN."),
    (
        rf"Input (X |y )?contains infinity or a value too large for ({_FINITE})",
        r"Input \1contains infinity or a value too large for \2.",
    ),
    (
        r"(Found array with \d+ (?:sample|feature)\(s\) \(shape=\([\d, ]*\)\) while a minimum of "
        r"\d+ is required)",
        r"\1.",
    ),
    (r"(Found array with dim \d+)", r"X must be a 2D array: \1"),
    (r"(Found input variables with inconsistent numbers of samples: \[[\d, ]*\])", r"\1"),
    (r"(X has \d+ features, but \w+ is expecting \d+ features as input)", r"\1"),
    (
        r"(?:Sparse data|A sparse matrix) was passed",
        "X and y must be dense arrays: Sparse data was passed, '.toarray()' makes it dense",
    ),
    (
        r"(?:This )?(\w+) (?:estimator )?requires y to be passed",
        r"\1 requires y to be passed, but the target y is None",
    ),
    (r"(y should be a 1d array, got an array of shape \([\d, ]*\) instead)", r"\1"),
    (
        r"(Unknown label type: (?:continuous|binary|multiclass|multilabel|unknown)[a-z-]*)\. Maybe",
        r"y must hold labels of classes: \1",
    ),
    (
        r"The feature names should match",
        "The feature names should match those that were passed during fit, in the same order; got "
        "others",
    ),
    (
        r"Classification metrics can't handle a mix",
        "y must hold labels like those of fit, got others",
    ),
)
_NO_NUMBER = r"(?:\w+\(\) )?argument must be a .*string.* number"
_NO_ARRAY = (
    r"Expected sequence or array-like|Singleton array|Input should have at least 1 dimension"
)


def without_values(problem: Exception) -> InvalidParameter:
    """What is said in the place of an error about X or y."""
    message = str(problem)
    for known, instead in _KNOWN:
        found = re.match(known, message)
        if found is not None:
            return InvalidParameter(found.expand(instead))
    if re.match(_NO_NUMBER, message):
        return WrongKind(f"{_OTHERS}: each argument must be a string or a number")
    if re.match(_NO_ARRAY, message):
        return WrongKind("X and y must be arrays or lists of rows, got something else")
    return InvalidParameter(_OTHERS)


def checked(call: Callable[..., _Found], *given: Any, **named: Any) -> _Found:
    """What ``call`` returns; errors that might quote its arguments are replaced."""
    try:
        return call(*given, **named)
    except (MustdpError, NotFittedError, MemoryError):
        raise
    except Exception as problem:
        refusal = without_values(problem)
    # Outside the handler, so that the error has no context.
    raise refusal


# What the private linear models share: parameters, fitting, and what is left out when saved.


RandomState = int | np.random.Generator | np.random.RandomState | None


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """A linear model fitted by noisy gradient descent on the batches of a scheme.

    :class:`DPLinearRegression` and :class:`DPLogisticRegression` say which loss is used and what
    targets look like. The fields are the parameters that scikit-learn knows a model by.

    Parameters
    ----------
    scheme : str or Scheme, default="wor"
        How batches are drawn: "wor", "wr", "must-ow", "must-ww", "must-wo" or "must-oo" (n comes
        from the data), or a scheme object made for exactly these n records. "poisson" takes the
        number of records as public and says so (TakenAsPublic); ``poisson(n, rate)`` with a public
        estimate n keeps it private under add_remove. ``random_allocation(n,
        bins)`` and ``shuffle(n, m)`` go through the data epoch by epoch, a batch in every step; an
        epoch that is begun is charged.
    b : int, default=None
        Size of the first of two stages, at least 1; None means 2 m (at most n).
    m : int, default=None
        Size of a batch, copies counted (its expectation for "poisson"); None means a tenth of the
        records.
    steps : int, default=None
        Number of gradient steps; each is charged. None means 100, unless ``epochs`` is given.
    epochs : int, default=None
        Number of passes over the data in place of ``steps``: n over the size of a batch steps each.
    max_grad_norm : float, default=1.0
        Bound on the 2-norm of one record's gradient, intercept included.
    learning_rate : float or callable
        A number, or a function of the step (from 0); 0.1 for linear regression, 4.0 for logistic.
    schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, default="constant"
        What a learning rate that is a number is multiplied by over the steps.
    noise_multiplier : float, default=None
        Scale of the noise over ``max_grad_norm``, the bound C on the norm of what one record
        contributes to a sum. At most one of this and ``epsilon`` is given.
    epsilon : float, default=None
        What the certified epsilon of the whole run must not exceed; the noise is calibrated for
        it. None means 1 where nothing else says what the noise is.
    delta : float
        The delta at which epsilon is stated, well below 1/n; it has no default.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
    l2 : float, default=0.0
        Weight of the penalty l2/2 times the squared norm of the coefficients; it costs no privacy.
    fit_intercept : bool, default=True
        Whether to fit an intercept; it is part of the clipped gradient.
    start : float, default=0.0
        Value at which every weight starts.
    random_state : int, Generator, RandomState or None, default=None
        None takes fresh entropy from the operating system. Anything else makes the noise
        repeatable, which is for experiments only and warns (SeededRelease).
    on_step : callable, default=None
        Called with the number of each finished step, for progress bars.
    keep_losses : bool, default=False
        Whether to keep ``loss_curve_``, which is not private.
    ledger : Ledger, str or path, default=None
        Every ``fit`` is charged to it, once, before noise is drawn; one that would pass its limit
        is refused before the data are read (BudgetExceeded). Each ``fit`` opens a path itself, so
        that copies of the model and other processes charge the same file.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The fitted weights, in the shapes of scikit-learn. Private.
    privacy_ : PrivacySpent
        Certified bounds of epsilon at delta, relation, scheme, noise and steps.
    loss_curve_ : ndarray of shape (steps,)
        Only with ``keep_losses``: mean loss of every batch (NaN for an empty one). **NOT
        PRIVATE**: computed from the records without noise and covered by no guarantee. Look at it,
        never release it. It is left out when the model is pickled or copied.
    n_iter_, n_features_in_ : int
        Steps that were made; number of features.

    Notes
    -----
    Taken as public: the number of records n (but for Poisson sampling and random allocation
    under add_remove), the number of features, and whatever was done to the data before ``fit``
    (scaling by the maximum of a column, for instance, looks at the records).
    """

    scheme: str | Sampling = "wor"
    b: int | None = None
    m: int | None = None
    steps: int | None = None
    epochs: int | None = None
    max_grad_norm: float = 1.0
    learning_rate: LearningRate = 0.1
    schedule: str = "constant"
    noise_multiplier: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    relation: str | None = None
    l2: float = 0.0
    fit_intercept: bool = True
    start: float = 0.0
    random_state: RandomState = None
    on_step: OnStep | None = None
    keep_losses: bool = False
    ledger: LedgerOrPath | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train the model; everything is checked and certified before step one.

        Parameters
        ----------
        X : array_like or sparse matrix
            Rows ``(records, features)`` of finite numbers.
        y : array_like
            One target per row.
        sample_weight : array_like, default=None
            One number per row, at least 0, that multiplies its gradient before it is clipped: it
            belongs to the record and is protected with it.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        InvalidParameter
            An argument is outside what is allowed.
        BudgetExceeded
            The charge does not fit the limit of the ledger; nothing was written.
        """
        key = release_key(self.random_state)
        if self.ledger is not None:  # before anything but the number of records is looked at
            budget = read_recipe(self, checked(_num_samples, X)).budget
            check_release(self.ledger, budget.scheme, replace(budget.spent(), seeded=key.seeded))
        X, y = checked(
            validate_data,
            *(self, X, y),
            dtype=[np.float64, np.float32],
            order="C",
            accept_sparse="csr",
            **self._checks_of_y(),
        )
        loss, targets, learned = checked(self._read_targets, y)
        recipe = read_recipe(self, X.shape[0])
        importance = None
        if sample_weight is not None:
            importance = _read_weights(sample_weight, X.shape[0])
        privacy = replace(recipe.budget.spent(), seeded=key.seeded)
        records = LinearRecords(X, targets, loss, bool(self.fit_intercept), importance)
        noise = exact_noise(records, recipe, NoiseSource(key.seed))
        label = f"training: {type(self).__name__}"
        if self.ledger is not None:
            charge_release(self.ledger, recipe.budget.scheme, privacy, label)
        done = descend(records, recipe, key, self.on_step, noise)
        # Nothing of an earlier fit is touched until this one has succeeded.
        for name, value in learned.items():
            setattr(self, name, value)
        self.privacy_: PrivacySpent = privacy
        if self.keep_losses:
            self.loss_curve_: FloatArray = done.losses
        elif hasattr(self, "loss_curve_"):
            del self.loss_curve_
        self.n_iter_ = recipe.budget.steps
        self._keep_weights(*split_weights(done.weights, records.fit_intercept))
        return self

    def _checks_of_y(self) -> dict[str, Any]:
        """How scikit-learn should check y."""
        return {}

    def _read_targets(self, y: NDArray[Any]) -> tuple[Loss, NDArray[Any], dict[str, Any]]:
        """Loss, targets in its terms, and the attributes that y decides."""
        raise NotImplementedError

    def _keep_weights(self, coefficients: FloatArray, intercepts: FloatArray) -> None:
        """Store the fitted (K, d) and (K,) in the shapes of this kind of model."""
        raise NotImplementedError

    def _scores(self, X: Any) -> FloatArray:
        """Linear predictors (records, K) of checked rows."""
        check_is_fitted(self)
        X = checked(
            validate_data, self, X, reset=False, dtype=[np.float64, np.float32], accept_sparse="csr"
        )
        return np.asarray(X @ np.atleast_2d(self.coef_).T + np.atleast_1d(self.intercept_))

    def __getstate__(self) -> dict[str, Any]:
        """State to be saved: all but ``loss_curve_``, which is not private."""
        if isinstance(self.ledger, BaseLedger):
            raise InvalidParameter(
                "ledger must be the path of a file where a model is saved, copied or sent to other "
                "processes, which would charge a copy; set_params(ledger=None) saves it without"
            )
        state = dict(super().__getstate__())
        state.pop("loss_curve_", None)
        return state


def _read_weights(given: Any, n: int) -> FloatArray:
    found = np.asarray(checked(np.asarray, given, dtype=np.float64))
    if found.shape != (n,) or not np.all((found >= 0) & (found < np.inf)):
        raise InvalidParameter(
            f"sample_weight must be one finite number, at least 0, for each of {n} rows, got others"
        )
    return found


def split_weights(weights: FloatArray, fit_intercept: bool) -> tuple[FloatArray, FloatArray]:
    """Coefficients and intercepts (zero where none was fitted) of weights (..., K, width)."""
    if fit_intercept:
        return weights[..., :-1].copy(), weights[..., -1].copy()
    return weights.copy(), np.zeros(weights.shape[:-1])


# The two models: their targets, their predictions and their public documentation.
#
# Noise, clipping and accounting are in ``descent.py`` and ``mustdp.calibration.budget``.


class _Scored:
    """scikit-learn's score, whose errors might quote its arguments."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """How good the predictions are, which no guarantee covers.

        Parameters
        ----------
        X : array_like
            Rows ``(records, features)``.
        y : array_like
            One target or label per row.
        sample_weight : array_like, default=None
            One weight per row.

        Returns
        -------
        float
            Regression: the coefficient of determination, at most 1. Classes: the share of rows
            whose class is predicted.
        """
        return float(checked(super().score, X, y, sample_weight))  # type: ignore[misc]


class DPLinearRegression(_Scored, RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear regression with certified differential privacy.

    Minimises the mean of (x'w + c - y)^2 by noisy gradient descent; the gradient of a record is
    2 (x'w + c - y) (x, 1), clipped.

    Parameters and attributes are those of :class:`PrivateLinearModel`. With ``keep_losses`` the
    model has a ``loss_curve_``, which is **NOT PRIVATE**.

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

    def _checks_of_y(self) -> dict[str, Any]:
        return {"y_numeric": True}

    def _read_targets(self, y: NDArray[Any]) -> tuple[Loss, NDArray[Any], dict[str, Any]]:
        return SquaredError(), y.astype(np.float64, copy=False), {}

    def _keep_weights(self, coefficients: FloatArray, intercepts: FloatArray) -> None:
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])

    def __sklearn_tags__(self) -> Any:
        """The noise may well dominate on a small data set."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.regressor_tags.poor_score = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class DPLogisticRegression(_Scored, ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Logistic regression, binary or multinomial, with certified differential privacy.

    Two classes share one score and the gradient (p - y) (x, 1); K > 2 classes have K scores.
    ``classes_`` holds the classes, sorted. Further parameters and attributes are those of
    :class:`PrivateLinearModel`; ``loss_curve_``, with ``keep_losses``, is **NOT PRIVATE**.

    Parameters
    ----------
    classes : list, default=None
        The labels, which are public and settled beforehand: labels outside them are refused, and a
        class need not occur. None takes the labels that occur in y, and *which* labels occur is
        then taken as public, which no noise protects: a warning says so (TakenAsPublic).
    learning_rate : float or callable, default=4.0
        A number, or a function of the step (from 0).

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
    learning_rate: LearningRate = 4.0
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
        """The noise may well dominate on a small data set."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
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
