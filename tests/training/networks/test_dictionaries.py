"""Records that are dictionaries, models that return objects, and losses of models themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.seams import training_records

torch = pytest.importorskip("torch")

from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import mustdp as md
from mustdp.errors import InvalidParameter
from tests.training.networks import runs


@dataclass
class Found:
    """What the models here return."""

    logits: Tensor
    loss: Tensor | None = None


class ByName(nn.Module):  # type: ignore[misc, unused-ignore]
    """Takes some entries by name, and has a loss of its own where there are labels."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.inner = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Found:
        logits = self.inner(x)
        return Found(logits, None if labels is None else functional.cross_entropy(logits, labels))


class ByPlace(ByName):
    """The same with a tensor for its result."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        found: Tensor = self.inner(x)
        return found


def tensors() -> dict[str, Tensor]:
    inputs, labels = runs.data()
    return {"labels": labels, "x": inputs, "row": torch.arange(len(labels))}


class Items(Dataset[Any]):  # type: ignore[misc, unused-ignore]
    """The same records, one dictionary each."""

    def __len__(self) -> int:
        return runs.N

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {name: values[number] for name, values in tensors().items()}


def stated(outputs: Found, batch: dict[str, Tensor]) -> Tensor:
    assert set(batch) == {"x", "labels", "row"}
    return functional.cross_entropy(outputs.logits, batch["labels"], reduction="none")


def weights(model: nn.Module, **options: Any) -> Tensor:
    made = runs.trainer(model, seed=4, **options)
    made.train()
    return runs.weights(model)


def test_all_ways_give_the_same_model() -> None:
    expected = weights(ByPlace(), data=runs.data())
    alone = weights(ByPlace(), data=runs.data(), loss=lambda o, t: runs.LOSS(o, t))
    torch.testing.assert_close(alone, expected)
    data: dict[str, Any] = {"tensors": tensors(), "items": Items()}
    data["loader"] = DataLoader(Items(), batch_size=4, shuffle=True)
    for given in data.values():
        for loss in (runs.LOSS, stated, None):
            found = weights(ByName(), data=given, loss=loss)
            torch.testing.assert_close(found, expected)


def test_an_object_with_logits_serves_a_loss_of_torch() -> None:
    found = weights(ByName(), data=runs.data())
    torch.testing.assert_close(found, weights(ByPlace(), data=runs.data()))


def test_layers_are_followed() -> None:
    for loss in (runs.LOSS, stated, None):
        assert runs.trainer(ByName(), data=tensors(), loss=loss).method == "book-keeping"


def test_a_collate_function_that_makes_dictionaries() -> None:
    def collate(records: list[dict[str, Any]]) -> dict[str, Tensor]:
        return {name: torch.stack([r[name] for r in records]) for name in ("x", "labels")}

    loader = DataLoader(Items(), batch_size=4, shuffle=True, collate_fn=collate)
    records = training_records(loader)
    assert records.names == ("x", "labels")
    rows = records.take(torch.tensor([3, 1]).numpy())
    assert torch.equal(rows.target, tensors()["labels"][[3, 1]])


class Mixing(ByName):
    """Subtracts the mean of the batch."""

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Found:
        return super().forward(x - x.mean(0), labels)


def test_records_in_dictionaries_must_not_mix_either() -> None:
    with pytest.raises(md.NotCovered, match="depends on other records"):
        runs.trainer(Mixing(), data=tensors(), loss=stated)
    # With the loss of the model every record is alone from the start: its own mean is all there is.
    model = Mixing()
    runs.trainer(model, data=tensors(), loss=None).train(1)


@pytest.mark.parametrize(
    ("data", "loss", "named"),
    [
        ({"x": runs.data()[0]}, stated, "at least two tensors"),
        ({"x": runs.data()[0], "y": runs.data()[1]}, runs.LOSS, "function of .outputs, batch."),
        ({"x": runs.data()[0], "y": runs.data()[1]}, None, "return an object with a loss"),
        (runs.data(), None, "return an object with a loss"),
        ({"x": runs.data()[0], "labels": runs.data()[1][:-1]}, stated, "the same length"),
        ([{"x": [1.0, 2.0], "labels": 1}] * 60, stated, r"list under 'x': .*with_format"),
        ([{"x": "words", "labels": 1}] * 60, stated, r"str under 'x': tokenise"),
    ],
)
def test_what_is_refused(data: Any, loss: Any, named: str) -> None:
    with pytest.raises(InvalidParameter, match=named):
        runs.trainer(ByName(), data=data, loss=loss)
