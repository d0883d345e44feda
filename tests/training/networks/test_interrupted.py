"""Ctrl-C at any line of a step leaves the model as people gave it: no hook stays behind."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from mustdp import training
from tests.training.networks import runs

BOOK_KEEPING = Path(str(training.__file__)).parent / "networks" / "bookkeeping.py"
assert BOOK_KEEPING.is_file()
#: Whose lines are interrupted: where hooks are registered, used and removed.
FUNCTIONS = {"_forward", "_remove", "register_forward_hook", "__init__", "take", "_note_taker"}
FILES = (str(BOOK_KEEPING), nn.modules.module.__file__, torch.utils.hooks.__file__)


class Presses:
    """Counts the lines of the functions above, and raises KeyboardInterrupt at one of them."""

    def __init__(self, at: int | None) -> None:
        self.at, self.lines = at, 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if event == "call":
            watched = code.co_filename in FILES and code.co_name in FUNCTIONS
            return self if watched else None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                raise KeyboardInterrupt
        return self


def hooks(model: nn.Module) -> list[tuple[int, int, bool]]:
    """What is hooked to every module, and whether its forward pass was replaced."""
    return [
        (len(m._forward_hooks), len(m._forward_hooks_with_kwargs), "forward" in vars(m))
        for m in model.modules()
    ]


class Recurrent(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.out = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.cells(x.reshape(-1, 3, 2))[0][:, -1])


def pressed(run: Any, at: int | None) -> int:
    """One step with Ctrl-C at that line; the number of lines it has otherwise."""
    before, presses = sys.gettrace(), Presses(at)
    sys.settrace(presses)
    try:
        run._step(True)
    finally:
        sys.settrace(before)
    return presses.lines


def test_no_hook_stays_behind_wherever_ctrl_c_comes() -> None:
    own = []
    model = runs.model()
    model[0].register_forward_hook(lambda *_: own.append(1))
    run: Any = runs.trainer(model, budget=runs.budget(500))
    before, lines = hooks(model), pressed(run, None)
    assert lines > 50
    for at in range(1, lines + 1, 4):
        with pytest.raises(KeyboardInterrupt):
            pressed(run, at)
        assert hooks(model) == before, f"line {at} of {lines}"
    assert model(torch.zeros(3, 6)).shape == (3, 3)
    assert len(own) > 0
    assert run.train(1).steps == run.steps


def test_recurrent_layers_keep_their_forward_pass_wherever_ctrl_c_comes() -> None:
    model = Recurrent()
    run: Any = runs.trainer(model, budget=runs.budget(500))
    before, lines = hooks(model), pressed(run, None)
    assert not any(replaced for *_, replaced in before)
    for at in range(1, lines + 1, 13):
        with pytest.raises(KeyboardInterrupt):
            pressed(run, at)
        assert hooks(model) == before, f"line {at} of {lines}"
