"""The part of their documentation that the private linear models share, written once."""

from __future__ import annotations

_PARAMETERS = """
    scheme : str or Scheme, default="wor"
        How batches are drawn: "wor", "wr", "must-ow", "must-ww", "must-wo" or "must-oo" (n comes
        from the data), or a scheme object made for exactly these n records. "poisson" needs
        relation="replace_one"; under add_remove the number of records is private, and
        ``poisson(n, rate)`` with a public estimate n is given instead. ``random_allocation(n,
        bins)`` and ``shuffle(n, m)`` go through the data epoch by epoch, a batch in every step; an
        epoch that is begun is charged.
    b : int, default=None
        Size of the first of two stages, at least 1; None means 2 m (at most n).
    m : int, default=None
        Size of a batch, copies counted (its expectation for "poisson"); None means a tenth of the
        records.
    steps : int, default=100
        Number of gradient steps; each is charged.
    clip : float, default=1.0
        Bound on the 2-norm of one record's gradient, intercept included.
    learning_rate : float or callable, default=0.1 (regression) or 1.0 (classification)
        A number, or a function of the step (from 0).
    schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, default="constant"
        What a learning rate that is a number is multiplied by over the steps.
    noise_multiplier : float, default=None
        Scale of the noise over ``clip``, the bound C on the norm of what one record contributes to
        a sum. At most one of this, ``epsilon`` and ``epsilon_prime`` is given.
    epsilon : float, default=None
        What the certified epsilon of the whole run must not exceed; the noise is calibrated for
        it. None means 1 where nothing else says what the noise is.
    epsilon_prime : float, default=None
        The MUST paper's epsilon' of one step, whose noise is reproduced as published and is *not* a
        guarantee (``privacy_`` says what it really gives).
    delta : float
        The delta at which epsilon is stated, well below 1/n; it has no default.
    paper_noise : {"analytic", "classical"}, default="analytic"
        Which Gaussian calibration ``epsilon_prime`` uses.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove where every draw is by Poisson
        sampling or random allocation, and replace_one otherwise.
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
        is refused before the data are looked at (BudgetExceeded). A path is opened by whoever
        fits, so that copies of the model and other processes charge the same file.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The fitted weights, in the shapes of scikit-learn. Private.
    privacy_ : Spent
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


def shared(*own: str) -> str:
    """The sections of a model that has parameters of its ``own`` besides."""
    heading = "    Parameters\n    ----------"
    return "\n".join((heading, *(one.strip("\n") for one in own), _PARAMETERS.strip("\n")))


#: What a model of classes has besides.
CLASSES = """
    classes : list, default=None
        The labels, which are public and settled beforehand: labels outside them are refused, and a
        class need not occur. None takes the labels that occur in y, and *which* labels occur is
        then taken as public, which no noise protects: a warning says so (TakenAsPublic).
"""
