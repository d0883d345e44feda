"""Logistic regression on Adult: Tables 5 and 7, Figure S5 and the overall delta_c of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from mustdp.accounting.account import account
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import repeat, subsample
from mustdp.calibration.budget import Budget
from mustdp.errors import NumericalFailure
from mustdp.mechanisms.mechanism import gaussian
from mustdp.numerics import checks
from mustdp.numerics.arrays import FloatArray
from mustdp.numerics.formatting import readable
from mustdp.progress import Progress
from mustdp.reproduction.budgets import RELATION, Setting
from mustdp.reproduction.cells import (
    NAMES,
    NON_PRIVATE,
    Item,
    ItemOutcome,
    PaperCell,
    PaperTable,
    Picture,
    Settings,
    curve_panel,
    judge,
    new,
    published,
    scheme_called,
)
from mustdp.reproduction.composition import fourier_delta
from mustdp.reproduction.guarantees import DELTA, CalibratedRun, compare, names_at
from mustdp.reproduction.runner import run_jobs
from mustdp.reproduction.simulation import (
    ACCURACY,
    PRIVATE,
    Found,
    Key,
    RunMeasure,
    Runs,
    SimulationJob,
    accuracy_cell,
    mean_of,
    run_chains,
    simulate,
    time_table,
)
from mustdp.sampling.schemes import Scheme
from mustdp.training.data import DataSet, load_data
from mustdp.training.linear.descent import LogisticLoss, sigmoid

# Logistic regression on Adult as the authors' program runs it, in numpy.
#
# It differs from what the paper describes in where noise is added: to the clipped gradient of
# every distinct record of the batch, before they are averaged. The mean then carries noise of
# deviation sigma sqrt(sum of squared counts)/m, which is about sigma/sqrt(m): ten times less than
# stated for m = 100. The run without privacy neither clips nor adds noise. Nothing here is
# private. (The program is "logistic regression experiment.R" of
# github.com/zhao-xingyuan/Hsubsampling, commit 4cffd27.)


ADULT = Setting(
    "adult", "Adult", sizes=(30_969, 200, 100), steps=15, clip=1.5, rate=0.4, start=1.0,
    primes=(5e-5,), formula="analytic",
)  # fmt: skip
#: Where sigma goes: on the mean, on the gradient of every record, or nowhere.
NOISES = MEAN, RECORD, NONE = "mean", "record", "none"


def with_intercept(rows: FloatArray) -> FloatArray:
    """Rows with a column of ones in front."""
    return np.column_stack([np.ones(len(rows)), rows])


def train(
    data: DataSet, scheme: Scheme, sigma: float, noise: str, steps: int, seed: int
) -> tuple[float, tuple[float, ...]]:
    """Test accuracy of a run and the mean training loss after every step.

    ``noise`` says where sigma goes.
    """
    checks.choice("noise", noise, NOISES)
    rng = np.random.default_rng((seed, 3))
    X, y = with_intercept(data.X_train), data.y_train.astype(np.float64)
    weights = np.full(X.shape[1], ADULT.start)
    losses = []
    for _ in range(steps):
        batch = scheme.draw(rng)
        rows = X[batch.indices]
        gradients = (sigmoid(rows @ weights) - y[batch.indices])[:, None] * rows
        if noise != NONE:
            norms = np.linalg.norm(gradients, axis=1, keepdims=True)
            gradients *= np.minimum(1.0, ADULT.clip / np.maximum(norms, 1e-300))
        if noise == RECORD:
            gradients += sigma * rng.standard_normal(gradients.shape)
        mean = batch.counts @ gradients / max(1, batch.size)
        if noise == MEAN:
            mean += sigma * rng.standard_normal(mean.shape)
        weights -= ADULT.rate * mean
        losses.append(float(LogisticLoss().evaluate((X @ weights)[None], y)[1].mean()))
    right = (with_intercept(data.X_test) @ weights > 0) == (data.y_test == 1)
    return float(right.mean()), tuple(losses)


# Experiment 3a of the paper, simulated: logistic regression on Adult with calibrated noise.
#
# [Z] = Zhao, Zhou & Liu, arXiv 2312.13389: 30,969 training records with 13 features and an
# intercept, m = 100, b = 200, C = 1.5, learning rate 0.4, T = 15 steps, all weights start at 1,
# epsilon' = 5e-5 of one step, delta = 1/n, exact Gaussian calibration with sensitivity C/n.


#: Runs whose time is measured together.
_BLOCK = 20


@lru_cache(maxsize=1)
def adult(folder: Path | None) -> DataSet:
    """The data set, read once by every process."""
    return load_data("adult", folder)


def run_job(job: SimulationJob) -> Runs:
    """Test accuracies in percent; by the authors' program if ``way`` says where its noise is."""
    return _private(job) if job.way == PRIVATE else _program(job)


def _program(job: SimulationJob) -> Runs:
    data, budget = adult(job.folder), job.budget
    sigma = ADULT.paper_sigma(budget)
    done = [
        train(data, budget.fresh_draws, sigma, job.way, budget.steps, seed) for seed in job.seeds
    ]
    accuracy = np.array([[100 * accuracy] for accuracy, _ in done])
    return Runs(accuracy, np.zeros(0), done[0][1])


def _private(job: SimulationJob) -> Runs:
    data = adult(job.folder)
    records = (data.X_train, data.y_train.astype(np.float64))
    accuracy, times = [], []
    for k in range(0, len(job.seeds), _BLOCK):
        weights, _, seconds = run_chains(
            records, LogisticLoss(), ADULT, job.budget, job.seeds[k : k + _BLOCK]
        )
        times.append(seconds)
        scores = weights[:, :-1] @ data.X_test.T + weights[:, -1:]
        accuracy.append(100 * np.mean((scores > 0) == (data.y_test == 1), axis=1))
    return Runs(np.concatenate(accuracy)[:, None], np.array(times))


# The paper's overall delta_c of the Adult experiment at epsilon_c = 2 after 1000 iterations.
#
# [Z] prints upper bounds of delta_c for experiment 3a, with L = 6 and r = 3e5 (2e5 for WR). At the
# noise of that experiment (b = 200, m = 100, C = 1.5, epsilon' = 5e-5, exact calibration) the
# authors' method gives no number: its error term overflows. The printed numbers belong to an
# earlier version of the experiment, which the authors' repository still holds: b = 500, m = 300, C
# = 3, epsilon' = 5e-4, classical formula, 1000 iterations. Its sigma of the mean times m, rounded
# to three decimals, was taken as the noise for contributions of norm one, although they have norm
# C = 3; with WOR's rate rounded to 0.01 that gives four of the five numbers. Poisson's is ten
# times smaller.
#
# The earlier version is "logistic regression experiment.R" of
# github.com/zhao-xingyuan/Hsubsampling, commit 4b51f35.


#: Of the overall delta_c of the earlier version: steps, epsilon, and the window of the Fourier
#: accountant.
OVERALL_STEPS, EPSILON, WINDOW = 1000, 2.0, 6.0
#: The experiment's earlier version; as it is printed it is ``ADULT``.
EARLIER = replace(
    ADULT,
    sizes=(ADULT.n, 500, 300),
    clip=3.0,
    primes=(5e-4,),
    formula="classical",
    steps=OVERALL_STEPS,
)


@dataclass(frozen=True)
class OverallDelta:
    """For one scheme: the authors' method at the earlier and the stated noise, and the truth."""

    name: str
    earlier_sigma: float
    earlier: float
    stated: str
    certified_stated: Bounds
    certified_earlier: Bounds


def overall(name: str) -> OverallDelta:
    """All numbers of one scheme."""
    earlier_sigma = round(noise_of(EARLIER, name) * EARLIER.clip, 3)
    return OverallDelta(
        name,
        earlier_sigma,
        _authors(_rounded_rate(name), earlier_sigma, name),
        _stated_failure(name),
        _certified(ADULT, name),
        _certified(EARLIER, name),
    )


def noise_of(version: Setting, name: str) -> float:
    """The noise multiplier of a version of the experiment."""
    (prime,) = version.primes
    return version.paper_budget(name, prime).noise_multiplier


def _rounded_rate(name: str) -> Scheme:
    """The scheme of the earlier version; WOR with its rate 0.0097 rounded to 0.01."""
    n, b, m = EARLIER.sizes
    return scheme_called(name, n, b, round(0.01 * n) if name == "WOR" else m)


def _authors(scheme: Scheme, sigma: float, name: str) -> float:
    r = 200_000 if name == "WR" else 300_000
    return fourier_delta(
        scheme, sigma=sigma, steps=OVERALL_STEPS, epsilon=EPSILON, L=WINDOW, r=r
    ).upper


def _stated_failure(name: str) -> str:
    """What the authors' method says at the stated noise."""
    z = noise_of(ADULT, name)
    try:
        upper = _authors(ADULT.scheme(name), z, name)
    except NumericalFailure:
        return f"no number at the stated noise z = {z:.3f}: its masses do not sum to one"
    return f"{upper:.3g} at the stated noise z = {z:.3f}" + (
        ", its error term having overflowed" if upper >= 1.0 else ""
    )


def _certified(version: Setting, name: str) -> Bounds:
    noise = gaussian(noise_multiplier=noise_of(version, name))
    plan = repeat(OVERALL_STEPS, subsample(version.scheme(name), noise))
    try:
        return account(plan, relation=RELATION, accuracy=0.01).delta(EPSILON)
    except NumericalFailure:
        return Bounds(0.0, 1.0)


def overall_tables(
    names: Sequence[str], workers: int, progress: Progress
) -> tuple[PaperTable, PaperTable, list[str]]:
    """The printed numbers judged, the certified ones beside them, and a word on both."""
    found = run_jobs(
        overall, names, workers=workers, progress=progress, what="overall delta", last_first=True
    )
    printed = published("adult_delta_c_upper")
    paper = [cell for each in found for cell in _cells(each, float(printed[each.name]))]
    truth: list[PaperCell] = []
    for each in found:
        for words, bounds in (
            ("as stated, m = 100", each.certified_stated),
            ("earlier version, m = 300", each.certified_earlier),
        ):
            truth += [
                new(each.name, f"delta attained, {words}", bounds.lower, bound="lower"),
                new(each.name, f"delta certified, {words}", bounds.upper, bound="upper"),
            ]
    note = (
        "The authors' method composes one pair of data sets and is no guarantee. As printed: "
        "settings of the earlier version of the experiment in the authors' repository (b = 500, "
        "m = 300, C = 3, epsilon' = 5e-4), m times sigma taken as the noise for contributions of "
        "norm one."
    )
    most = max(found, key=lambda each: each.certified_stated.lower)
    reading = [
        f"The printed overall delta_c do not belong to the experiment as described. At epsilon 2 "
        f"after 1000 steps its noise attains up to {readable(most.certified_stated.lower, 'down')} "
        f"({most.name}), where the paper prints {printed[most.name]:.3g}."
    ]
    return (
        PaperTable("adult-delta-c", "Overall delta_c at epsilon 2 after 1000 iterations",
              tuple(paper), "paper", note),
        PaperTable("adult-delta-c-guarantee", "What 1000 iterations really give at epsilon 2",
              tuple(truth), "guarantee", "Relation replace_one; noise multiplier z = m sigma / C."),
        reading,
    )  # fmt: skip


def _cells(each: OverallDelta, printed: float) -> list[PaperCell]:
    half = 0.005 * 10.0 ** math.floor(math.log10(printed))
    column = "delta_c, earlier version"
    if each.name == "Poisson":
        # Not explained, so it stays open; what was tried is said all the same.
        earlier = replace(
            judge(each.name, column, printed, each.earlier, half_unit=half),
            reason="about a tenth of what is printed, as if its exponent were wrong by one, but "
            f"then still {each.earlier / (printed / 10) - 1:+.0%}; other r, sigma and rates do not "
            "fit either",
        )
    else:
        earlier = judge(
            each.name, column, printed, each.earlier, half_unit=half,
            reason=f"within {abs(printed / each.earlier - 1):.1%} if the rate is rounded to 0.01 "
            "and sigma to three decimals",
        )  # fmt: skip
    stated = (
        f"the authors' method gives {each.stated}; the printed number belongs to an earlier "
        f"version of the experiment (m = 300, m sigma = {each.earlier_sigma:g})"
    )
    return [
        earlier,
        judge(
            each.name, "delta_c attained as stated", printed, each.certified_stated.lower,
            half_unit=half, reason=stated, bound="lower",
        ),
    ]  # fmt: skip


# Tables 5 and 7 (Adult columns), Figure S5 and the overall delta_c of the paper.
#
# In 15 steps from a start at 1 the weights barely get away from it, and the noise of the paper is
# too small to matter: every scheme, private or not, ends about one point above the majority
# baseline.


(PRIME,) = ADULT.primes
STEPS = ADULT.steps
#: Steps of the second comparison at equal guarantee, enough for the model to be trained.
MANY_STEPS = 1000
#: Runs that are averaged over: usually, with --quick, and with many steps.
_RUNS, _QUICK_RUNS, _MANY_STEPS_RUNS = 200, 40, 100
#: Of the authors' program, whose runs are made one by one, and of its long run without noise.
_PROGRAM_RUNS, _LONG_RUNS = 100, 20
#: Keys of runs without noise; those of other runs are a scheme and a way or a target.
_SHORT, _LONG = (NON_PRIVATE, NONE), (NON_PRIVATE, NONE, MANY_STEPS)


def run(settings: Settings, progress: Progress) -> ItemOutcome:
    """Everything of the experiment."""
    runs = _QUICK_RUNS if settings.quick else _RUNS
    steps = [STEPS] if settings.quick else [STEPS, MANY_STEPS]
    compared = compare(ADULT, settings, progress, delta=DELTA, steps=steps)
    names = names_at(settings.quick)
    delta_c, delta_truth, delta_words = overall_tables(names, settings.workers, progress)
    found = simulate(run_job, _jobs(settings, compared.settled, runs), settings, progress)
    measured = {each.key: _measures(found[each.key]) for each in compared.settled}
    baseline = 100 * adult(settings.data).majority_baseline
    references = [
        ("majority class", [RunMeasure(ACCURACY, baseline)]),
        (NON_PRIVATE, _measures(found[_SHORT])),
    ]
    if _LONG in found:
        references.append((f"{NON_PRIVATE}, {MANY_STEPS} steps", _measures(found[_LONG])))
    return ItemOutcome(
        (
            table_5(found, baseline),
            time_table(
                "adult-table-7",
                "Table 7, Adult: time of a run over that of Poisson",
                published("7")["seconds"]["adult_x1e-2"],
                {name: found[name, PRIVATE].seconds for name in NAMES},
                "the paper times a single run of about 0.05 s in R, with the loss over all 30,969 "
                "records; here only steps are timed, many runs at once",
            ),
            delta_c,
            compared.guarantee("Relation replace_one for all schemes."),
            delta_truth,
            compared.equal(
                measured,
                references,
                f"{runs} runs of {STEPS} steps"
                + ("; one epsilon, without MUSTww." if settings.quick else
                   f", {_MANY_STEPS_RUNS} of {MANY_STEPS}.")
                + " Delta 1e-5, relation replace_one. Test records are no part of the guarantee.",
            ),
        ),
        (_figure_s5(found),),
        (
            *_paper_reading(found, baseline),
            *compared.claims(),
            *delta_words,
            *compared.reading(measured, ACCURACY, larger_is_better=True, shown=".2f"),
            *_training_reading(found),
        ),
    )  # fmt: skip


def _jobs(settings: Settings, settled: Sequence[CalibratedRun], runs: int) -> list[SimulationJob]:
    """The longest first."""
    budgets = {name: ADULT.paper_budget(name, PRIME) for name in NAMES}

    def job(key: Key, budget: Budget, count: int, way: str = PRIVATE) -> SimulationJob:
        return SimulationJob(
            key, budget, range(settings.seed, settings.seed + count), settings.data, way
        )

    silent, few = budgets["Poisson"], min(runs, _PROGRAM_RUNS)
    jobs = []
    if not settings.quick:
        jobs.append(job(_LONG, replace(silent, steps=MANY_STEPS), _LONG_RUNS, NONE))
    jobs += [
        job(each.key, each.budget, runs if each.target.steps == STEPS else _MANY_STEPS_RUNS)
        for each in sorted(settled, key=lambda each: -each.target.steps)
    ]
    jobs += [job((name, PRIVATE), budget, runs) for name, budget in budgets.items()]
    jobs += [job((name, RECORD), budget, few, RECORD) for name, budget in budgets.items()]
    jobs.append(job(_SHORT, silent, few, NONE))
    # The stated noise again, for curves over all training records.
    jobs += [job((name, MEAN), budget, 1, MEAN) for name, budget in budgets.items()]
    return jobs


def table_5(found: Found, baseline: float) -> PaperTable:
    """Accuracies with noise as the paper states it, and as its program adds it."""
    printed = published("5")["accuracy_percent"]["adult"]
    cells: list[PaperCell] = []
    for name in NAMES:
        for words, way in (("as stated", PRIVATE), ("as in the program", RECORD)):
            column, values = f"accuracy %, noise {words}", found[name, way].first
            cells.append(accuracy_cell(name, column, printed[name], values))
    silent = "accuracy %, no noise"
    cells.append(accuracy_cell(NON_PRIVATE, silent, printed[NON_PRIVATE], found[_SHORT].first))
    cells.append(new("majority class", silent, baseline))
    for name in NAMES:
        sigma = ADULT.paper_sigma(ADULT.paper_budget(name, PRIME))
        cells.append(new(name, "sigma of the mean", sigma))
    return PaperTable(
        "adult-table-5",
        "Table 5, Adult: test accuracy",
        tuple(cells),
        "paper",
        "The paper shows one run each; its error is taken to be the standard deviation of ours. "
        "The program adds its noise to the gradient of every distinct record before averaging, "
        "which leaves about a tenth of the stated noise on the mean.",
    )


def _measures(found: Runs) -> list[RunMeasure]:
    parts = [mean_of(ACCURACY, found.first)]
    if found.seconds.size > 1:
        parts.append(mean_of("microseconds per step", 1e6 * found.seconds))
    return parts


def _figure_s5(found: Found) -> Picture:
    steps = range(1, STEPS + 1)
    panels = []
    for words, way in (("as stated", MEAN), ("as in the program", RECORD)):
        curves = {NON_PRIVATE: (steps, found[_SHORT].losses)}
        curves |= {name: (steps, found[name, way].losses) for name in NAMES}
        panels.append(curve_panel(f"noise {words}", "loss", curves))
    return Picture(
        "figure-s5",
        "Figure S5: mean training loss against iteration on Adult, one run",
        "training_curves",
        {"panels": panels},
        "Two panels of loss curves that fall together from about 4 to 0.5 in 15 iterations.",
    )


def _paper_reading(found: Found, baseline: float) -> list[str]:
    means = [float(found[name, PRIVATE].first.mean()) for name in NAMES]
    single = float(found["WOR", PRIVATE].first.std(ddof=1))
    return [
        f"Always answering the majority class is right for {baseline:.2f} % of the test records. "
        f"After {STEPS} steps private runs are right for {min(means):.2f} to {max(means):.2f} % on "
        f"average, and one run deviates by {single:.2f} points: differences between schemes in the "
        "paper are chance."
    ]


def _training_reading(found: Found) -> list[str]:
    """What many steps reach, where they were made: 15 are hardly a comparison of models."""
    if _LONG not in found:
        return []
    short, long = (float(found[key].first.mean()) for key in (_SHORT, _LONG))
    return [
        f"Without privacy {STEPS} steps reach {short:.2f} % and {MANY_STEPS} steps {long:.2f} %: "
        f"differences after {STEPS} steps are between models that have barely left their start."
    ]


ITEMS = (Item("adult", "Tables 5 and 7, Figure S5: logistic regression on Adult", run, ("adult",)),)
