"""The user's own training loop around ``trainer.compute_gradients()``, in three ways.

    python examples/own_loops.py plain|lightning|transformers

compute_gradients() draws a batch, clips, adds noise, charges the step and writes ``.grad``, in the
place of ``loss.backward()``. What optimizers do with it is the user's and costs nothing more.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn

import mustdp as md

N, STEPS = 400, 30


def data() -> tuple[Tensor, Tensor]:
    """Records of three classes."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(3, (N,), generator=generator)
    return torch.randn(N, 6, generator=generator) + 2.0 * nn.functional.one_hot(labels, 6), labels


def network() -> nn.Sequential:
    """A perceptron."""
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def private(model: nn.Module, loss: Any = None, records: Any = None) -> md.PrivateTrainer:
    """What draws, clips, adds noise and is charged; it has no optimizer of its own."""
    budget = md.calibrated_budget(md.poisson(N, 0.25), steps=STEPS, epsilon=4.0, delta=1e-4)
    records = data() if records is None else records
    return md.PrivateTrainer(model, loss, records, budget, max_grad_norm=1.0, progress=False)


def plain() -> tuple[nn.Module, md.PrivateTrainer]:
    """Two optimizers, one for each layer, with gradients of both clipped as one."""
    model = network()
    trainer = private(model, nn.CrossEntropyLoss(reduction="none"))
    body = torch.optim.Adam(model[0].parameters(), lr=0.05)
    head = torch.optim.SGD(model[2].parameters(), lr=0.5)
    while trainer.remaining:
        trainer.compute_gradients()
        body.step()
        head.step()
    return model, trainer


def lightning() -> tuple[nn.Module, md.PrivateTrainer]:
    """A LightningModule that optimizes by hand; its loader only counts the steps."""
    from lightning.pytorch import LightningModule, Trainer
    from torch.utils.data import DataLoader, TensorDataset

    class Private(LightningModule):  # type: ignore[misc, unused-ignore]
        """Makes one private step for every batch that Lightning counts."""

        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.network = network()
            self.private = private(self.network, nn.CrossEntropyLoss(reduction="none"))

        def training_step(self, batch: Tensor, index: int) -> None:
            """Take nothing of the batch: the trainer draws its own."""
            optimizer: Any = self.optimizers()
            self.private.compute_gradients()
            optimizer.step()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            """Any optimizer of torch."""
            return torch.optim.Adam(self.network.parameters(), lr=0.05)

    module = Private()
    runner = Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    runner.fit(module, DataLoader(TensorDataset(torch.zeros(STEPS, 1)), batch_size=1))
    return module.network, module.private


def transformers() -> tuple[nn.Module, md.PrivateTrainer]:
    """The Trainer of transformers with another training step; its arguments and callbacks stay."""
    from transformers import Trainer, TrainingArguments
    from transformers.modeling_outputs import SequenceClassifierOutput

    class Classifier(nn.Module):
        """Anything that takes dictionaries and returns an object with a loss."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def forward(self, features: Tensor, labels: Tensor) -> Any:
            """Logits, and the loss of a record."""
            logits = self.network(features)
            loss = nn.functional.cross_entropy(logits, labels)
            return SequenceClassifierOutput(loss=loss, logits=logits)

    class PrivateSteps(Trainer):  # type: ignore[misc, unused-ignore]
        """Gradients come from the private trainer; everything else is the library's."""

        def __init__(self, private: md.PrivateTrainer, **named: Any) -> None:
            super().__init__(**named)
            self.private = private

        def training_step(self, model: nn.Module, *_: Any, **__: Any) -> Tensor:
            """Take nothing of the batch: the trainer draws its own."""
            self.private.compute_gradients()
            return torch.zeros(())

    model, (features, labels) = Classifier(), data()
    trainer = private(model, None, {"features": features, "labels": labels})
    arguments = TrainingArguments(
        output_dir="unused", max_steps=STEPS, learning_rate=0.05, max_grad_norm=0.0, use_cpu=True,
        save_strategy="no", report_to=[], disable_tqdm=True, logging_strategy="no",
        lr_scheduler_type="constant",
    )  # fmt: skip
    steps = [{"features": torch.zeros(6), "labels": 0}] * STEPS
    PrivateSteps(trainer, model=model, args=arguments, train_dataset=steps).train()
    return model.network, trainer


LOOPS = {"plain": plain, "lightning": lightning, "transformers": transformers}


def main(name: str) -> None:
    """Train and say how it went."""
    model, trainer = LOOPS[name]()
    inputs, labels = data()
    with torch.no_grad():
        right = (model(inputs).argmax(1) == labels).float().mean().item()
    print(f"{name}: {right:.2f} right, {trainer.privacy}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "plain")
