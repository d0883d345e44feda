"""What the private linear models share: parameters, fitting, and the word on what is private.

Annotations are no strings here: subclasses in other modules have the fields in their signatures.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.calibration.settle import PaperNoise, Spent
from mustdp.errors import InvalidParameter
from mustdp.ledger.ledger import Ledger
from mustdp.ledger.release import LedgerOrPath, charge_release, check_release
from mustdp.numerics.arrays import FloatArray
from mustdp.randomness.keys import release_key
from mustdp.randomness.noise_bits import NoiseSource
from mustdp.sampling.epochs import Sampling
from mustdp.training.linear.clipping import Records
from mustdp.training.linear.descent import OnStep, descend, exact_noise
from mustdp.training.linear.losses import Loss
from mustdp.training.linear.rates import LearningRate
from mustdp.training.linear.scikit import (
    BaseEstimator,
    _num_samples,
    check_is_fitted,
    validate_data,
)
from mustdp.training.linear.settings import settle_recipe
from mustdp.training.linear.unquoted import checked

RandomState = int | np.random.Generator | np.random.RandomState | None


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """A linear model fitted by noisy gradient descent on the batches of a scheme.

    Subclasses say which loss is used and what targets look like. The fields are the parameters
    that scikit-learn knows a model by.
    """

    scheme: str | Sampling = "wor"
    b: int | None = None
    m: int | None = None
    steps: int = 100
    clip: float = 1.0
    learning_rate: LearningRate = 0.1
    schedule: str = "constant"
    noise_multiplier: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    epsilon_prime: float | None = None
    paper_noise: PaperNoise = "analytic"
    relation: str | None = None
    fit_intercept: bool = True
    start: float = 0.0
    random_state: RandomState = None
    on_step: OnStep | None = None
    keep_losses: bool = False
    ledger: LedgerOrPath = None

    def fit(self, X: Any, y: Any) -> Any:
        """Train the model; everything is checked and certified before step one.

        Parameters
        ----------
        X : array_like
            Rows ``(records, features)`` of finite numbers.
        y : array_like
            One target per row.

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
            budget = settle_recipe(self, checked(_num_samples, X)).budget
            check_release(self.ledger, budget.scheme, replace(budget.spent(), seeded=key.seeded))
        X, y = checked(
            validate_data,
            *(self, X, y),
            dtype=[np.float64, np.float32],
            order="C",
            **self._checks_of_y(),
        )
        loss, targets, learned = checked(self._read_targets, y)
        recipe = settle_recipe(self, len(X))
        privacy = replace(recipe.budget.spent(), seeded=key.seeded)
        records = Records(X, targets, loss, bool(self.fit_intercept))
        noise = exact_noise(records, recipe, NoiseSource(key.seed))
        charge_release(self.ledger, privacy.plan, f"training: {type(self).__name__}")
        done = descend(records, recipe, key, self.on_step, noise)
        # Nothing of an earlier fit is touched until this one has succeeded.
        for name, value in learned.items():
            setattr(self, name, value)
        self.privacy_: Spent = privacy
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
        X = checked(validate_data, self, X, reset=False, dtype=[np.float64, np.float32])
        return np.asarray(X @ np.atleast_2d(self.coef_).T + np.atleast_1d(self.intercept_))

    def __getstate__(self) -> dict[str, Any]:
        """State to be saved: all but ``loss_curve_``, which is not private."""
        if isinstance(self.ledger, Ledger):
            raise InvalidParameter(
                "ledger must be the path of a file where a model is saved, copied or sent to other "
                "processes, which would charge a copy; set_params(ledger=None) saves it without"
            )
        state = dict(super().__getstate__())
        state.pop("loss_curve_", None)
        return state


def split_weights(weights: FloatArray, fit_intercept: bool) -> tuple[FloatArray, FloatArray]:
    """Coefficients and intercepts (zero where none was fitted) of weights (..., K, width)."""
    if fit_intercept:
        return weights[..., :-1].copy(), weights[..., -1].copy()
    return weights.copy(), np.zeros(weights.shape[:-1])
