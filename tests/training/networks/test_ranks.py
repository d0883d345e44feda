"""Two processes that make one run: what one process alone would have made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.training.networks import loader_run, runs, two_processes

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

#: Children that have torch already; they begin in a fraction of the time.
START = "fork"
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(scope="module")
def alone() -> tuple[list[Any], Any]:
    """The runs of one process: the weights by scheme, and those of the loader."""
    return two_processes.alone(), runs.weights(loader_run.trainer().train().model)


@pytest.fixture(scope="module")
def found(alone: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    # After ``alone``: what training imports on first use is there before the children are made.
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.start_processes(
        two_processes.together, args=(2, str(folder)), nprocs=2, start_method=START
    )
    return [torch.load(Path(folder) / f"rank{rank}.pt", weights_only=True) for rank in range(2)]


def test_together_as_alone(alone: Any, found: list[dict[str, Any]]) -> None:
    for number, expected in enumerate(alone[0]):
        for rank in found:
            assert torch.allclose(rank["weights"][number], expected, atol=1e-6)


def test_a_loader_together_as_alone(alone: Any, found: list[dict[str, Any]]) -> None:
    expected = alone[1]
    one, other = found
    assert torch.equal(one["loader"], other["loader"])
    assert torch.allclose(one["loader"], expected, atol=1e-6)


def test_all_processes_hold_the_same_model_with_fresh_noise(found: list[dict[str, Any]]) -> None:
    one, other = found
    assert torch.equal(one["fresh"], other["fresh"])
    start = torch.cat([p.detach().flatten() for p in two_processes.network(3).parameters()])
    assert not torch.allclose(one["fresh"], start, atol=1e-3)
    for mine, theirs in zip(one["weights"], other["weights"], strict=True):
        assert torch.equal(mine, theirs)


def test_every_process_is_shown_each_step_once(found: list[dict[str, Any]]) -> None:
    for rank in found:
        assert rank["shown"] == [1, 2, 3, 4, 5, 6] * len(two_processes.SCHEMES)
        assert rank["privacy"]["steps"] == 6
