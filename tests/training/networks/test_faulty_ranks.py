"""Two processes of which one is set up otherwise, fails or is killed: both stop, in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from tests.training.networks import faulty_ranks, runs

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo here", allow_module_level=True)

#: Children that have torch already; they begin in a fraction of the time.
START = "fork"
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
#: Far below the 60 seconds that the processes would wait for each other.
SECONDS = 45


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("faulty")
    for name in ("office", "second"):  # room for one run each
        md.Ledger.open(folder / f"{name}.ledger", epsilon=20, delta=1e-3).close()
    torch.multiprocessing.start_processes(
        faulty_ranks.together, args=(2, str(folder)), nprocs=2, start_method=START
    )
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]


DIFFERENT = {
    "max_grad_norm": "the same max_grad_norm.*rank 0 has 1.0, rank 1 100.0",
    "noise": "the same plan",
    "scheme": "the same plan",
    "steps": "the same plan",
    "delta": "the same delta.*rank 0 has 0.001, rank 1 0.01",
    "records": "the same records.*release together: rank 1 has others$",
    "order of the records": "the same records.*release together: rank 1 has others$",
    "seed": "the same seed",
    "losses": "the same losses",
    "max_rows": "the same max_rows",
    "checkpoint": "the same checkpoint",
    "ledger": "the same ledger",
    "ledger on the second only": "the same ledger",
    "train": "the same number of steps",
}


@pytest.mark.parametrize("name", list(DIFFERENT))
def test_a_difference_is_refused_by_both(found: list[dict[str, Any]], name: str) -> None:
    for rank, seen in enumerate(found):
        kind, message = seen[f"differing {name}"]["raised"]
        assert kind == "InvalidParameter", message
        wanted = DIFFERENT[name]
        if rank == 0:
            with pytest.raises(md.InvalidParameter, match=wanted):
                raise md.InvalidParameter(message)
        assert message.startswith(f"all processes must have {wanted.split('.*')[0]}")
        assert seen[f"differing {name}"]["seconds"] < SECONDS


@pytest.mark.parametrize(
    ("name", "failing", "kind", "steps"),
    [("data", 1, "ValueError", None), ("update", 0, "RuntimeError", 0),
     ("callback", 1, "RuntimeError", 3)],
)  # fmt: skip
def test_one_that_fails_takes_the_other_with_it(
    found: list[dict[str, Any]], name: str, failing: int, kind: str, steps: int | None
) -> None:
    mine, other = (found[rank][f"failing {name}"] for rank in (failing, 1 - failing))
    assert mine["raised"][0] == kind
    assert other["raised"][0] == "MustdpError"
    assert f"rank {failing} failed with a {kind}" in other["raised"][1]
    assert "secret" not in other["raised"][1]
    for seen in (mine, other):
        assert seen["seconds"] < SECONDS
        assert seen["steps"] == seen["on disk"] == (seen["steps"] if steps is None else steps)
        assert torch.equal(seen["weights"], seen["of disk"])  # rewound
        assert seen["shown"] == list(range(1, seen["steps"] + 1))


@pytest.mark.parametrize("name", ["update", "callback"])
def test_they_go_on_together_afterwards(found: list[dict[str, Any]], name: str) -> None:
    one, other = (seen[f"failing {name}"] for seen in found)
    assert torch.equal(one["end"], other["end"])
    assert one["all shown"] == other["all shown"] == ([6] if name == "update" else [*range(1, 7)])


def test_nothing_is_shown_by_anybody_before_it_is_charged(found: list[dict[str, Any]]) -> None:
    for seen in found:
        broken, whole = seen["charging not noted"], seen["charging gone on"]
        assert broken["shown"] == [(1, 1, 1), (2, 1, 2)]
        assert broken["steps"] == 2
        assert whole["raised"] == ["nothing", ""]
        assert whole["shown"] == [(k, 1, k) for k in range(1, 7)]
        kind, message = seen["charging full"]["raised"]
        assert kind == "BudgetExceeded"
        assert "would be exceeded" in message
    assert found[0]["charging not noted"]["raised"][0] == "OSError"
    assert "rank 0 failed" in found[1]["charging not noted"]["raised"][1]
    assert torch.equal(*(seen["charging gone on"]["weights"] for seen in found))


@pytest.mark.parametrize("how", ["killed", "interrupted", "astray", "hanging"])
def test_one_that_is_cut_off(tmp_path: Path, how: str) -> None:
    """The other one notices, whether that one lives or not, and is put back to what was shown."""
    context = torch.multiprocessing.get_context(START)
    both = [
        context.Process(target=faulty_ranks.cut_off, args=(rank, 2, str(tmp_path), how))
        for rank in range(2)
    ]
    for one in both:
        one.start()
    both[0].join(100)
    assert both[0].exitcode == 0
    both[1].kill()
    both[1].join()
    seen = torch.load(tmp_path / "rank0.pt", weights_only=True)
    lost = how in ("killed", "hanging")
    assert seen["raised"][0] == ("ClusterLost" if lost else "MustdpError")
    words = "did not answer for 10 seconds (timeout)" if lost else "failed with a KeyboardInterrupt"
    assert words in seen["raised"][1]
    assert how != "hanging" or seen["again"][0] == "ClusterLost"  # not as if it had been alone
    assert seen["seconds"] < SECONDS
    assert seen["steps"] == 2
    assert runs.trainer(checkpoint=tmp_path / "run.pt").train().steps == 6
