"""Train a classifier on a named data set and say how it does: what ``mustdp train`` runs.

Two models: the logistic model (multinomial from three classes on), for which numpy is enough, and a
network with one hidden layer, which needs torch. Test accuracy is computed on held-out records;
they are no part of the guarantee, which speaks of the training records alone.
"""

from __future__ import annotations

import io
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustdp.calibration.budget import Budget, PrivacySpent
from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.files.replacing import refuse_other_than_files, replace_file
from mustdp.ledger.ledger import Ledger
from mustdp.ledger.release import charge_release, check_release
from mustdp.numerics import checks
from mustdp.randomness.keys import NoiseSource, SeededRelease, batch_key
from mustdp.training.data import DataSet
from mustdp.training.linear.descent import (
    LinearRecords,
    LogisticLoss,
    Loss,
    MultinomialLoss,
    OnStep,
    Recipe,
    check_max_grad_norm,
    descend,
    exact_noise,
    learning_rates,
)

MODELS = ("linear", "mlp")
#: Units of the hidden layer of the model called mlp.
HIDDEN = 128


@dataclass(frozen=True)
class ClassifierTrial:
    """How a private model does on the test records, and what the training records paid."""

    test_accuracy: float
    privacy: PrivacySpent


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a run whose checkpoint holds ``steps`` of the ``planned`` steps."""

    def __init__(self, steps: int, planned: int) -> None:
        super().__init__()
        self.steps, self.planned = steps, planned


@dataclass(frozen=True)
class TrainingRequest:
    """How to train.

    ``ledger`` is charged before the first step. ``save`` names a file for the trained model. A
    network can be interrupted and go on (``checkpoint``, ``resume``), on any ``device``.
    """

    budget: Budget
    max_grad_norm: float = 1.0
    learning_rate: float = 1.0
    schedule: str = "constant"
    seed: int | None = None
    on_step: OnStep | None = None
    ledger: Ledger | None = None
    checkpoint: str | None = None
    resume: bool = False
    save: str | None = None
    device: str | None = None


def train_classifier(
    data: DataSet, budget: Budget, *, model: str = "linear", **how: Any
) -> ClassifierTrial:
    """Train ``model`` within ``budget`` on the training records of ``data``, and test it.

    ``how`` are the other fields of :class:`TrainingRequest`.
    """
    request = TrainingRequest(budget, **how)
    check_model(model)
    check_files(model, request.checkpoint, request.resume, request.save, request.device)
    request = replace(request, max_grad_norm=check_max_grad_norm(request.max_grad_norm))
    learning_rates(request.learning_rate, request.schedule, budget.steps)  # refused before any work
    privacy = replace(budget.spent(), seeded=request.seed is not None)
    predicted = (_linear if model == "linear" else _network)(data, request)
    return ClassifierTrial(float(np.mean(predicted == data.y_test)), privacy)


def check_model(model: str) -> None:
    """Refuse a model that is not known or that cannot be trained here."""
    checks.choice("model", model, MODELS)
    if model == "mlp":
        required("torch", "the model 'mlp'")


def check_files(
    model: str, checkpoint: str | None, resume: bool, save: str | None, device: str | None
) -> None:
    """Refuse, before any work, what cannot be gone on from or written at the end."""
    if model == "linear":
        for name, given in (("checkpoint", checkpoint), ("device", device)):
            if given is not None:
                allowed = "must be left out for the model 'linear', which is trained in one go"
                raise InvalidParameter.refusing(name, allowed, repr(given))
    if resume and (checkpoint is None or not os.path.lexists(checkpoint)):
        allowed = "must come with a {checkpoint} that is there: without one it would start anew"
        got = "none" if checkpoint is None else repr(checkpoint)
        raise InvalidParameter.refusing("resume", allowed, got, mentions=("checkpoint",))
    if checkpoint is not None and not resume and os.path.lexists(checkpoint):
        allowed = "must not be there yet; {resume} goes on from it"
        raise InvalidParameter.refusing(
            "checkpoint", allowed, repr(checkpoint), mentions=("resume",)
        )
    if save is not None:
        if not Path(save).parent.is_dir():
            raise InvalidParameter.refusing("save", "must be in a folder that exists", repr(save))
        refuse_other_than_files(Path(save))


def _linear(data: DataSet, request: TrainingRequest) -> NDArray[Any]:
    classes = len(data.classes)
    loss: Loss = LogisticLoss() if classes == 2 else MultinomialLoss(classes)
    targets = data.y_train if classes > 2 else data.y_train.astype(np.float64)
    rates = learning_rates(request.learning_rate, request.schedule, request.budget.steps)
    records = LinearRecords(data.X_train, targets, loss, fit_intercept=True)
    recipe = Recipe(request.budget, request.max_grad_norm, rates, start=0.0)
    key = batch_key(request.seed)
    privacy = replace(request.budget.spent(), seeded=key.seeded)
    if request.ledger is not None:
        check_release(request.ledger, request.budget.scheme, privacy)
    noise = exact_noise(records, recipe, NoiseSource(key.seed))
    label = f"training: linear model on {data.name}"
    if request.ledger is not None:
        charge_release(request.ledger, request.budget.scheme, privacy, label)
    weights = descend(records, recipe, key, request.on_step, noise).weights
    if request.save is not None:
        content = io.BytesIO()
        mark: dict[str, Any] = {"seeded": True} if key.seeded else {}
        np.savez(content, coef=weights[:, :-1], intercept=weights[:, -1], **mark)
        replace_file(request.save, content.getvalue())
    scores = data.X_test @ weights[:, :-1].T + weights[:, -1]
    return np.asarray(scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0)


def _network(data: DataSet, request: TrainingRequest) -> NDArray[Any]:
    import torch
    from torch import nn

    from mustdp.training.networks.settings import Compute
    from mustdp.training.networks.trainer import PrivateTrainer

    def released(event: Any) -> None:
        if request.on_step is not None:
            request.on_step(event.steps)

    budget, seed = request.budget, request.seed
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed if seed is not None else torch.seed())
        network = nn.Sequential(
            nn.Linear(len(data.features), HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, len(data.classes)),
        )
    optimizer = torch.optim.SGD(network.parameters(), lr=request.learning_rate)
    factors = learning_rates(1.0, request.schedule, budget.steps)
    with warnings.catch_warnings():
        # The command line says by itself, once, that a seed was given.
        warnings.simplefilter("ignore", SeededRelease)
        trainer = PrivateTrainer(
            network,
            nn.CrossEntropyLoss(reduction="none"),
            (
                torch.tensor(data.X_train, dtype=torch.float32),
                torch.tensor(data.y_train, dtype=torch.int64),
            ),
            budget,
            optimizer=optimizer,
            max_grad_norm=request.max_grad_norm,
            scheduler=torch.optim.lr_scheduler.LambdaLR(
                optimizer, lambda step: float(factors[min(step, budget.steps - 1)])
            ),
            seed=seed,
            compute=Compute(device=request.device),
            ledger=request.ledger,
            checkpoint=request.checkpoint,
            callbacks=(released,),
            progress=False,
        )
    try:
        trainer.train(trainer.remaining)  # none, where a run that was finished is resumed
    except KeyboardInterrupt:
        if request.checkpoint is None:
            raise
        raise Interrupted(trainer.steps, budget.steps) from None
    network.eval().cpu()
    if request.save is not None:
        content = io.BytesIO()
        state: Any = network.state_dict()
        if seed is not None:  # beside the versions that torch notes of its layers
            state._metadata["mustdp"] = {"seeded": True}
        torch.save(state, content)
        replace_file(request.save, content.getvalue())
    with torch.no_grad():
        scores = network(torch.tensor(data.X_test, dtype=torch.float32))
    return np.asarray(scores.argmax(dim=1).numpy())
