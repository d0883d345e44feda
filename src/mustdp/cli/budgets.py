"""The options of every command that runs a job: how private it is to be, in one of three ways."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli.numbers import read_number
from mustdp.cli.options import read_noise
from mustdp.cli.targets import ACCOUNTING, DeltaOption, TargetOption, stated
from mustdp.cli.typed import Panel, exactly_one
from mustdp.errors import InvalidParameter
from mustdp.limits import LARGEST_EPSILON_PRIME

if TYPE_CHECKING:
    from mustdp.ledger.budget_file import LedgerFile

_read_epsilon_prime = partial(read_number, above=0, at_most=LARGEST_EPSILON_PRIME)
_budget = Panel(
    ACCOUNTING,
    """
    --noise-multiplier Z  Instead of --epsilon: noise scale divided by the bound on what one record
                          contributes (--clip in training, half a statistic's sensitivity in
                          resampling).
    --epsilon-prime E     Instead of --epsilon: the noise of the MUST paper for this epsilon' of one
                          step. Not a guarantee; the certified epsilon is printed beside it.
    """,
)


@dataclass(frozen=True)
class BudgetOptions:
    """``--epsilon``, ``--noise-multiplier`` or ``--epsilon-prime``, and ``--delta``."""

    epsilon: TargetOption = None
    delta: DeltaOption = None
    noise_multiplier: Annotated[float | None, _budget("--noise-multiplier", read_noise)] = None
    epsilon_prime: Annotated[float | None, _budget("--epsilon-prime", _read_epsilon_prime)] = None

    def read(self, n: int | None) -> dict[str, Any]:
        """The one way that was chosen, and delta, as the package takes them.

        ``n``, the number of records where it is known already, only serves to recommend a delta.
        """
        ways = {
            "--epsilon": self.epsilon,
            "--noise-multiplier": self.noise_multiplier,
            "--epsilon-prime": self.epsilon_prime,
        }
        exactly_one(ways)
        return {**asdict(self), "delta": stated(self.delta, n)}


def declared_release(ledger: LedgerFile) -> dict[str, Any]:
    """Noise, delta and relation of the release that comes next in the plan a ledger declares."""
    from mustdp.mechanisms.mechanism import Gaussian

    step = ledger.next_step
    if step is None:
        raise InvalidParameter(
            "--epsilon or --noise-multiplier is missing: give exactly one, since no releases were "
            "declared for this --ledger (mustdp ledger declare)"
        )
    if not isinstance(step, Gaussian) or step.noise_multiplier is None:
        raise InvalidParameter(
            "--ledger must declare releases on all records (mustdp ledger declare), got one whose "
            "declared plan has other steps next"
        )
    header = ledger.header
    noise = {"epsilon": None, "noise_multiplier": step.noise_multiplier}
    return {**noise, "delta": header.delta, "relation": header.relation}
