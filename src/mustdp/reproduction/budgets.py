"""The noise of an experiment: as the paper states it, calibrated, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mustdp.accounting.bounds import Bounds
from mustdp.accounting.subsampling.one_slope import amplified_delta, base_epsilon
from mustdp.calibration.budget import Budget, calibrate, required_delta
from mustdp.mechanisms.mechanism import analytic_sigma, classical_sigma, gaussian
from mustdp.mechanisms.relation import Relation, resolve_relation
from mustdp.numerics import checks
from mustdp.reproduction.cells import scheme_called
from mustdp.sampling.schemes import Scheme

# Settings of experiments and their noise: as the paper states it, calibrated, or none.
#
# [Z] = Zhao, Zhou & Liu, arXiv 2312.13389, experiments 2 and 3. The relation is the same for all
# schemes, as guarantees under different relations do not compare.


RELATION = Relation.REPLACE_ONE
#: Which Gaussian calibration the paper's epsilon' goes through.
PaperNoise = Literal["classical", "analytic"]
#: Largest epsilon' of one step that is turned into noise.
LARGEST_EPSILON_PRIME = 100.0
_PAPER = "per-step epsilon' of the MUST paper with sensitivity C/n: not a guarantee"


@dataclass(frozen=True)
class PaperStatement:
    """The paper's own statement of the noise: epsilon' of one application.

    Epsilon comes from epsilon' by inverting Theorem 4, and sigma from (epsilon, delta) by a
    Gaussian formula with a ``sensitivity`` in units of what one record contributes. ``scale``
    turns that sigma into a noise multiplier. It is not a guarantee.
    """

    epsilon_prime: float
    sensitivity: float
    scale: float
    noise: PaperNoise = "classical"

    def multiplier(self, scheme: Scheme, delta: float) -> float:
        """The noise multiplier behind the paper's sigma."""
        prime = checks.real(
            "epsilon_prime", self.epsilon_prime, above=0, at_most=LARGEST_EPSILON_PRIME
        )
        checks.choice("noise", self.noise, ("classical", "analytic"))
        base = float(base_epsilon(prime, scheme.eta)[0])
        if self.noise == "classical":
            sigma = classical_sigma(base, delta, self.sensitivity, beyond_proof=True)
        else:
            sigma = analytic_sigma(base, delta, self.sensitivity)
        return self.scale * sigma


def paper_budget(
    scheme: Scheme,
    *,
    steps: int,
    epsilon_prime: float,
    delta: float,
    noise: PaperNoise = "analytic",
    relation: str | None = None,
) -> Budget:
    """A run with the noise of experiments 2 and 3, for the epsilon' of one step.

    Sensitivity C/n, for noise on the *mean* of a batch of m: in units of the sum's noise that is
    z = m sigma / C. It is not a guarantee; what it really guarantees is what ``spent`` says.

    Parameters
    ----------
    scheme : Scheme
        How batches are drawn.
    steps : int
        Number of steps, each on a draw of its own.
    epsilon_prime : float
        The epsilon' of one step, above 0 and at most 100.
    delta : float
        The delta of the formula and of what is stated; the paper takes 1/n.
    noise : {"analytic", "classical"}, default="analytic"
        Which Gaussian formula turns epsilon into sigma.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means add_remove for Poisson sampling.

    Returns
    -------
    Budget
        Of a run with the paper's noise.

    Examples
    --------
    >>> import mustdp as md
    >>> budget = md.reproduction.paper_budget(
    ...     md.wor(1000, 100), steps=200, epsilon_prime=0.01, delta=1e-3, noise="classical"
    ... )
    >>> round(3 * budget.noise_multiplier / 100, 3)  # the sigma of Table 4
    0.118
    """
    delta = required_delta(delta, scheme.n)
    stated = PaperStatement(epsilon_prime, 1.0 / scheme.n, scheme.expected_size, noise)
    z = stated.multiplier(scheme, delta)
    return Budget(scheme, z, steps, delta, resolve_relation(scheme, relation), _PAPER)


@dataclass(frozen=True)
class Setting:
    """An experiment of the paper: sizes (n, b, m), steps, gradient descent, and its noise.

    ``item`` is its name on the command line, ``title`` what it is called in tables. ``primes`` are
    the epsilon' of one step that it is run for; ``formula`` turns them into noise, with delta = 1/n
    and sensitivity C/n.
    """

    item: str
    title: str
    sizes: tuple[int, int, int]
    steps: int
    clip: float
    rate: float
    primes: tuple[float, ...]
    formula: PaperNoise
    #: Where all weights start; a network has a random start of its own.
    start: float = 0.0

    @property
    def n(self) -> int:
        """Number of records."""
        return self.sizes[0]

    def row(self, name: str, epsilon_prime: float) -> str:
        """The title of a row; epsilon' is told where there is more than one."""
        return name if len(self.primes) == 1 else f"{name}, epsilon' {epsilon_prime:g}"

    def scheme(self, name: str) -> Scheme:
        """A scheme of the paper at these sizes."""
        return scheme_called(name, *self.sizes)

    def paper_budget(self, name: str, epsilon_prime: float) -> Budget:
        """The noise of the paper for ``epsilon_prime`` of one step."""
        return paper_budget(
            self.scheme(name), steps=self.steps, epsilon_prime=epsilon_prime, delta=1 / self.n,
            noise=self.formula, relation=RELATION,
        )  # fmt: skip

    def paper_sigma(self, budget: Budget) -> float:
        """The deviation of the noise on the *mean* of the clipped gradients, as it is printed."""
        return budget.noise_multiplier * self.clip / self.sizes[2]


def calibrated(scheme: Scheme, epsilon: float, delta: float, steps: int) -> tuple[Budget, Bounds]:
    """The noise that is certified for a whole run, and the bounds of what the run costs."""
    found = calibrate(scheme, epsilon=epsilon, delta=delta, steps=steps, relation=RELATION)
    budget = Budget(
        scheme, found.noise_multiplier, steps, delta, found.relation,
        "calibrated for a certified epsilon",
    )  # fmt: skip
    return budget, found.epsilon


def noiseless(scheme: Scheme, noise_multiplier: float, steps: int, delta: float) -> Budget:
    """So little noise that there is no privacy."""
    return Budget(scheme, noise_multiplier, steps, delta, RELATION, "no privacy")


# The paper's delta' of one release: Theorem 4 at the noise of the classical formula.
#
# [Z] = Zhao, Zhou & Liu, arXiv 2312.13389, Tables 2 and 4. No guarantee: the noise is computed for
# a statistic of all n records and added to one of m.


def theorem_delta(
    scheme: Scheme, epsilon_prime: float, delta: float, *, noise_for: float, sensitivity: float
) -> float:
    """Delta' at the noise for ``epsilon_prime`` and the base ``delta``.

    The noise is computed for one sensitivity, and the profiles are of another or of the same.
    """
    base = base_epsilon(epsilon_prime, scheme.eta)
    shift = sensitivity / classical_sigma(float(base[0]), delta, noise_for, beyond_proof=True)
    profiles = gaussian(shift=shift).profiles(shift)
    return float(amplified_delta(scheme.law(), profiles, base)[0])
