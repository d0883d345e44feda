"""Epochs on the command line: ``--bins``, ``--times``, ``--epochs``; what shuffling is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli.numbers import read_integer
from mustdp.cli.options import SchemeOptions
from mustdp.cli.targets import ACCOUNTING, RunOptions, read_repeats
from mustdp.cli.typed import Panel
from mustdp.errors import InvalidParameter
from mustdp.numerics.decimals import readable
from mustdp.sampling.catalogue import EPOCH_NAMES

if TYPE_CHECKING:
    from mustdp.accounting.bounds import Bounds
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.sampling.epochs import Sampling

_scheme = Panel(
    "Scheme",
    """
    --bins INT  Batches of an epoch of --scheme allocation; -m instead gives n / m, rounded up.
    --times T  Distinct batches of an epoch that every record is in (--scheme allocation); 1 unless
        given. With -m there are T times as many batches.
    """,
)
_accounting = Panel(
    ACCOUNTING,
    """
    --epochs K  Number of epochs (--scheme allocation and shuffle), instead of --steps.
    """,
)
BinsOption = Annotated[int | None, _scheme("--bins", read_integer)]
TimesOption = Annotated[int | None, _scheme("--times", read_repeats)]


def sampling(scheme: SchemeOptions, bins: int | None, times: int | None) -> Sampling:
    """The scheme or the epoch that the options describe."""
    if scheme.scheme in EPOCH_NAMES:
        return scheme.epoch(bins, times)
    for name, value in {"--bins": bins, "--times": times}.items():
        if value is not None:
            raise InvalidParameter(f"{name} {value} fits --scheme allocation alone")
    return scheme.build()


@dataclass(frozen=True)
class EpochOptions:
    """``--bins``, ``--times`` and ``--epochs``."""

    bins: BinsOption = None
    times: TimesOption = None
    epochs: Annotated[int | None, _accounting("--epochs", read_repeats)] = None

    def drawn(self, scheme: SchemeOptions) -> Sampling:
        """The scheme or the epoch that the options describe."""
        return sampling(scheme, self.bins, self.times)

    def refuse(self, why: str) -> None:
        """Refuse all of them, where only batches that are drawn one by one will do."""
        given = {"--bins": self.bins, "--times": self.times, "--epochs": self.epochs}
        for name, value in given.items():
            if value is not None:
                raise InvalidParameter(f"{name} {value} {why}")

    def batches(self, drawn: Sampling, run: RunOptions) -> int:
        """The number of batches: of so many epochs, or so many steps."""
        from mustdp.limits import MOST_STEPS
        from mustdp.sampling.epochs import Epoch

        epochs = self.epochs
        if not isinstance(drawn, Epoch):
            if epochs is not None:
                raise InvalidParameter(
                    f"--epochs {epochs} fits --scheme allocation and shuffle alone; give --steps"
                )
            return run.count()
        if epochs is None:
            if run.steps is None:
                raise InvalidParameter("--epochs is missing: give the number of epochs, 1 or more")
            return run.steps
        if run.steps is not None:
            raise InvalidParameter(f"--steps {run.steps} does not fit --epochs {epochs}: give one")
        if epochs * drawn.bins > MOST_STEPS:
            most = MOST_STEPS // drawn.bins
            raise InvalidParameter(f"--epochs must be at most {most} here, got {epochs}")
        return epochs * drawn.bins


def counted(drawn: Sampling, steps: int) -> dict[str, Any]:
    """The number of epochs, where there are any, beside that of the steps."""
    from mustdp.sampling.epochs import Epoch

    return {"epochs": steps / drawn.bins} if isinstance(drawn, Epoch) else {}


def not_poisson(
    drawn: Sampling, mechanism: Mechanism, steps: int, question: str, at: float, found: Bounds
) -> dict[str, Any]:
    """For shuffling: what Poisson sampling would promise, and how many times that is attained."""
    import mustdp

    if not isinstance(drawn, mustdp.Shuffle):
        return {}
    scheme = mustdp.poisson(drawn.n, drawn.m / drawn.n)
    plan = mustdp.repeat(steps, mustdp.subsample(scheme, mechanism))
    promised: Bounds = getattr(mustdp.account(plan, relation=found.relation), question)(at)
    factor = found.lower / promised.upper if promised.upper > 0 else None
    return {"poisson": {f"{question}_promised": promised.upper, "factor_attained": factor}}


def not_poisson_in_words(known: dict[str, Any], question: str) -> str:
    """The same as a sentence; nothing for other schemes."""
    if "poisson" not in known:
        return ""
    promised, factor = known["poisson"][f"{question}_promised"], known["poisson"]["factor_attained"]
    times = "" if factor is None else f", {readable(factor, 'down')} times as much,"
    return (
        f"shuffling is not Poisson sampling, which would promise {question} = "
        f"{readable(promised, 'up')} here; the lower bound{times} is attained by shuffled batches. "
        "--scheme allocation costs the same work and is charged exactly."
    )
