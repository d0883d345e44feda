"""The options of every command that runs a job: how private it is to be, in one of three ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from mustdp.cli.numbers import number
from mustdp.cli.targets import exactly_one, read_delta, read_epsilon, target_option


@dataclass(frozen=True)
class BudgetOptions:
    """``--epsilon``, ``--noise-multiplier`` or ``--epsilon-prime``, and ``--delta``, as typed."""

    epsilon: Annotated[
        list[str] | None,
        target_option(
            "--epsilon", metavar="E", help="Calibrate the noise so that the run costs at most this."
        ),
    ] = None
    delta: Annotated[
        list[str] | None,
        target_option(
            "--delta",
            metavar="D",
            help="The delta at which epsilon is stated. Default: n^-1.1 (1/n with "
            "--epsilon-prime).",
        ),
    ] = None
    noise_multiplier: Annotated[
        str | None,
        target_option(
            "--noise-multiplier",
            metavar="Z",
            help="Instead of --epsilon: noise scale divided by the bound on what one record "
            "contributes (--clip in training, half a statistic's sensitivity in resampling).",
        ),
    ] = None
    epsilon_prime: Annotated[
        str | None,
        target_option(
            "--epsilon-prime",
            metavar="E",
            help="Instead of --epsilon: the noise of the MUST paper for this epsilon' of one step. "
            "Not a guarantee; the certified epsilon is printed beside it.",
        ),
    ] = None

    def read(self) -> dict[str, Any]:
        """The one way that was chosen, and delta, as the package takes them."""
        exactly_one(
            {
                "--epsilon": self.epsilon,
                "--noise-multiplier": self.noise_multiplier,
                "--epsilon-prime": self.epsilon_prime,
            }
        )
        given: dict[str, Any] = {"delta": read_delta(self.delta) if self.delta else None}
        if self.noise_multiplier:
            given["noise_multiplier"] = number(
                "--noise-multiplier", self.noise_multiplier, above=0, at_most=1e9
            )
        elif self.epsilon_prime:
            given["epsilon_prime"] = number(
                "--epsilon-prime", self.epsilon_prime, above=0, at_most=100
            )
        else:
            given["epsilon"] = read_epsilon(self.epsilon or (), target=True)
        return given
