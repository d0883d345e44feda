"""``mustdp train``: a private classifier on a data set, its accuracy and what it cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.accounting.explanations import explain_bounds, explain_shuffling, poisson_promise
from mustdp.cli import output
from mustdp.cli.options import (
    BudgetOptions,
    EpochOptions,
    RunOptions,
    SchemeOptions,
    counted,
)
from mustdp.cli.output import Answer, progress
from mustdp.cli.parameters import Panel, parser, read_natural, read_scale, with_bundles, word_from
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.formatting import as_stated
from mustdp.sampling.catalogue import EPOCH_NAMES

if TYPE_CHECKING:
    from mustdp.calibration.budget import Budget
    from mustdp.ledger.file import LedgerFile
    from mustdp.sampling.epochs import Sampling
    from mustdp.training.classify import ClassifierTrial
    from mustdp.training.data import DataSet

# Files and device of a run: ledger, checkpoint, saved model.


_run = Panel(
    "Run",
    """
    --ledger FILE      Charge the run to this ledger (mustdp ledger create) before its first step;
                       one that would exceed the limit is refused, and with -n before the data are
                       read.
    --checkpoint FILE  Save the run after every step (mlp), so that it can be resumed. The file is
                       as secret as the data.
    --resume           With --checkpoint: go on from its file; nothing is charged again.
    --save FILE        Write the trained model: arrays of numpy (linear), a state_dict of torch
                       (mlp). With --seed the file is marked as an experiment (seeded).
    --device NAME      Where to train the mlp: cpu, cuda, cuda:1.
    """,
)


@dataclass(frozen=True)
class RunFiles:
    """``--ledger``, ``--checkpoint``, ``--resume``, ``--save`` and ``--device``."""

    ledger: Annotated[str | None, _run("--ledger")] = None
    checkpoint: Annotated[str | None, _run("--checkpoint")] = None
    resume: Annotated[bool, _run("--resume")] = False
    save: Annotated[str | None, _run("--save")] = None
    device: Annotated[str | None, _run("--device")] = None

    def read(self) -> dict[str, Any]:
        """All but the ledger, as the package takes them."""
        given = dataclasses.asdict(self)
        del given["ledger"]
        return given

    def check(self, model: str) -> None:
        """Refuse what cannot be gone on from or written, before any work."""
        from mustdp.training.classify import check_files

        check_files(model, **self.read())

    def opened(self) -> AbstractContextManager[LedgerFile | None]:
        """The ledger, closed at the end."""
        from mustdp.ledger.release import open_existing

        return nullcontext() if self.ledger is None else open_existing(self.ledger)

    def check_charge(self, ledger: LedgerFile, budget: Budget, seed: int | None) -> None:
        """Refuse a new run that cannot be charged or would exceed the limit."""
        from mustdp.ledger.release import check_release

        if not self.resume:
            privacy = dataclasses.replace(budget.spent(), seeded=seed is not None)
            check_release(ledger, budget.scheme, privacy)


# The command.


DatasetArgument = Annotated[
    str,
    typer.Argument(
        parser=parser("DATASET", word_from("mustdp.training.data", "NAMES")),
        metavar="DATASET",
        help="digits (8 x 8, embedded in scikit-learn), mnist or adult (with the coding of the "
        "MUST paper).",
        show_default=False,
    ),
]
_training = Panel(
    "Training",
    """
    --data DIR            Folder with the files of mnist or adult, or with subfolders mnist and
                          adult. Without it they are downloaded from OpenML once and kept.
    --model NAME          linear (logistic regression) or mlp (128 hidden units; needs torch).
    --clip C              Bound on the norm of one record's gradient.
    --learning-rate RATE  Learning rate of the first step.
    --schedule NAME       How the learning rate changes: constant, linear, cosine, inverse-sqrt.
    --seed INT            Train reproducibly, for experiments only: anyone who knows the seed can
                          subtract the noise. Without it, the operating system's entropy is used.
    """,
)


@dataclass(frozen=True)
class TrainingOptions:
    """What :func:`train_classifier` takes under the same names."""

    model: Annotated[str, _training("--model", word_from("mustdp.training.classify", "MODELS"))] = (
        "linear"
    )
    max_grad_norm: Annotated[float, _training("--clip", read_scale)] = 1.0
    learning_rate: Annotated[float, _training("--learning-rate", read_scale)] = 1.0
    schedule: Annotated[
        str, _training("--schedule", word_from("mustdp.training.linear.descent", "SCHEDULES"))
    ] = "constant"
    seed: Annotated[int | None, _training("--seed", read_natural)] = None


@with_bundles
def train(
    dataset: DatasetArgument,
    *,
    scheme: SchemeOptions,
    run: RunOptions,
    budget: BudgetOptions,
    files: RunFiles,
    epochs: EpochOptions,
    data: Annotated[str | None, _training("--data")] = None,
    options: TrainingOptions,
) -> Answer:
    """Train a private classifier on digits, mnist or adult, and certify what it costs.

    -n may be left out: it is the number of training records. Everything is checked, calibrated and
    certified before the first step. The accuracy is that on test records, which are not part of the
    guarantee; the majority baseline is that of always answering the most frequent class.

    Example: mustdp train digits --scheme must-ow -b 300 -m 200 --steps 300 --epsilon 4 --delta 1e-4
    """
    _check_length(scheme, run, epochs)
    settings = asdict(options)
    noise = budget.read(scheme.n)

    from mustdp.calibration.budget import calibrated_budget
    from mustdp.training.classify import Interrupted, check_model, train_classifier
    from mustdp.training.data import load_data

    def certified(plan: Sampling) -> Budget:
        with progress("certifying"):
            steps = epochs.batches(plan, run)
            found = calibrated_budget(plan, steps=steps, relation=run.relation, **noise)
            output.two_sided(found.spent().epsilon, "here")
        return found

    files.check(options.model)
    with files.opened() as ledger:
        if ledger is not None and scheme.n is not None:
            files.check_charge(ledger, certified(epochs.drawn(scheme)), options.seed)
        with progress(f"reading {dataset}"):
            records = load_data(dataset, data)
        built = _scheme(scheme, epochs, records, run.relation)
        check_model(options.model)
        settled = certified(built)
        try:
            with _counting(settled.steps) as on_step:
                trial = train_classifier(
                    records, settled, on_step=on_step, ledger=ledger, **files.read(), **settings
                )
        except Interrupted as stopped:
            raise typer.Abort(
                f"interrupted: {files.checkpoint} holds {stopped.steps} of {stopped.planned} "
                "steps; the same command with --resume goes on from there"
            ) from None
    return _answer(records, settled, trial, settings)


def _check_length(scheme: SchemeOptions, run: RunOptions, epochs: EpochOptions) -> None:
    """Refuse options that do not fit together, whatever the number of records."""
    if scheme.scheme not in EPOCH_NAMES:
        scheme.check(later=("n",))
        epochs.refuse("only fits --scheme allocation and shuffle")
        run.count()
        return
    known = replace(scheme, n=scheme.n or scheme.m or 1)
    epochs.batches(epochs.drawn(known), run)


def _scheme(
    options: SchemeOptions, epochs: EpochOptions, records: DataSet, relation: Relation | None
) -> Sampling:
    """The scheme on the training records, whose number -n may repeat unless it is private."""
    n = len(records.X_train)
    if options.size_is_private(relation):
        n = options.n or n
    elif options.n not in (None, n):
        allowed = f"must be {n}, the number of training records of {records.name}, or be left out"
        raise InvalidParameter.refusing("-n", allowed, options.n)
    built = epochs.drawn(replace(options, n=n))
    options.check_trains(built)
    return built


@contextmanager
def _counting(steps: int) -> Iterator[Callable[[int], None]]:
    """A bar that is moved a hundred times at most, whatever the number of steps."""
    every = max(1, steps // 100)
    with progress("training") as move:

        def on_step(step: int) -> None:
            if step % every == 0 or step == steps:
                move("steps", step, steps)

        yield on_step


def _answer(
    records: DataSet, budget: Budget, trial: ClassifierTrial, settings: dict[str, Any]
) -> Answer:
    import mustdp

    spent, scheme = trial.privacy, budget.scheme
    relation, seed = spent.relation, settings["seed"]
    noise = mustdp.gaussian(noise_multiplier=spent.noise_multiplier)
    promised = poisson_promise(scheme, noise, spent.steps, "epsilon", spent.delta, spent.epsilon)
    data = {
        "dataset": records.name,
        "model": settings["model"],
        "clip": settings["max_grad_norm"],
        "learning_rate": settings["learning_rate"],
        "schedule": settings["schedule"],
        **output.scheme_as_data(scheme),
        "noise_multiplier": spent.noise_multiplier,
        "noise": spent.source,
        "relation": relation.option,
        "steps": spent.steps,
        **counted(scheme, spent.steps),
        **output.cost(spent),
        **promised,
        "delta": spent.delta,
        **output.origin_as_data(spent.epsilon),
        "test_records": len(records.X_test),
        "test_accuracy": trial.test_accuracy,
        "majority_baseline": records.majority_baseline,
    }
    return Answer(
        data,
        heading=output.heading_with_seed(
            spent,
            f"{records.name}, {settings['model']} model: {output.describe(scheme)}; "
            f"steps: {spent.steps}",
        ),
        columns=(
            "test accuracy", "majority baseline", "delta", "epsilon, lower", "epsilon, upper",
        ),
        rows=(
            (
                f"{trial.test_accuracy:.4f}",
                f"{records.majority_baseline:.4f}",
                as_stated(spent.delta),
                *output.ends(spent.epsilon, 4),
            ),
        ),
        note="\n".join(
            (
                explain_bounds(spent.epsilon, "epsilon", relation, scheme),
                output.run_noise_in_words(spent.noise_multiplier, spent.source, relation),
                *filter(None, [explain_shuffling(promised, "epsilon")]),
            )
        ),
        remark=output.seed_in_words(seed),
    )  # fmt: skip
