"""Noise for what an attacker may achieve: options of ``mustdp calibrate``, and its answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli import words
from mustdp.cli.numbers import read_inner_rate, read_rate
from mustdp.cli.options import NoiseOptions
from mustdp.cli.output import Answer
from mustdp.cli.progress import progress
from mustdp.cli.risk import COLUMNS, as_data, in_rows
from mustdp.cli.targets import ACCOUNTING
from mustdp.cli.typed import Panel, as_typed, exactly_one
from mustdp.errors import InvalidParameter
from mustdp.numerics.decimals import noise_needed

if TYPE_CHECKING:
    from mustdp.mechanisms.relation import Relation
    from mustdp.sampling.epochs import Sampling

_accounting = Panel(
    ACCOUNTING,
    """
    --tpr T        Instead of --epsilon and --delta: the largest true-positive rate of an attacker
                   at the false-positive rate --fpr.
    --fpr F        With --tpr: the attacker's false-positive rate, below T.
    --advantage A  Instead of --epsilon and --delta: the largest difference between an attacker's
                   true-positive and false-positive rates.
    """,
)


@dataclass(frozen=True)
class RiskOptions:
    """``--tpr`` with ``--fpr``, or ``--advantage``."""

    tpr: Annotated[float | None, _accounting("--tpr", read_inner_rate)] = None
    fpr: Annotated[float | None, _accounting("--fpr", read_rate)] = None
    advantage: Annotated[float | None, _accounting("--advantage", read_inner_rate)] = None

    @property
    def given(self) -> dict[str, float]:
        """Those that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def check(self, others: dict[str, float | None], solve_for: str) -> None:
        """Refuse another target beside this one, or a part of one."""
        for name, value in others.items():
            if value is not None:
                raise InvalidParameter(
                    f"{name} {as_typed(value)} does not fit --tpr and --advantage: give one target"
                )
        if solve_for != "noise":
            raise InvalidParameter(f"--solve-for {solve_for} takes --epsilon and --delta")
        exactly_one({"--tpr": self.tpr, "--advantage": self.advantage})
        if (self.tpr is None) != (self.fpr is None):
            raise InvalidParameter("--tpr and --fpr go together: one of them is missing")


def without_scale(noise: NoiseOptions) -> None:
    """Refuse a noise that is still to be found."""
    scales = {"--noise-multiplier": noise.noise_multiplier, "--shift": noise.shift}
    for name, scale in scales.items():
        if scale is not None:
            raise InvalidParameter(
                f"{name} {as_typed(scale)} does not fit --solve-for noise, which finds it; "
                "--solve-for steps, m and b take a noise"
            )


def calibrate_risk(
    target: RiskOptions,
    built: Sampling,
    noise: NoiseOptions,
    steps: int,
    relation: Relation | None,
    group: int,
    as_json: bool,
) -> Answer:
    """The noise that keeps an attacker within a target."""
    without_scale(noise)

    import mustdp
    from mustdp.mechanisms.relation import shift_of

    settings: dict[str, Any] = {**asdict(target), "group": group, "relation": relation}
    with progress("calibrating the noise"):
        found = mustdp.calibrate(built, steps=steps, mechanism=noise.mechanism, **settings)
    relation, mechanism = found.relation, found.mechanism
    shift = shift_of(mechanism, built, relation)
    data = {
        "solve_for": "noise",
        **words.begun(built, mechanism, relation, shift),
        "steps": steps,
        **{f"target_{name}": value for name, value in target.given.items()},
        **as_data(found.risk),
        **words.limited(found.limit),
    }
    multiplier = noise_needed(found.noise_multiplier, words.MULTIPLIER)
    noted = (
        *found.risk.sentences(),
        words.noise_in_words(mechanism, shift, relation, found=True),
        *words.limited(found.limit).values(),
    )
    return Answer(
        data,
        as_json=as_json,
        heading=f"{words.describe(built)}; steps: {steps}; noise multiplier {multiplier}",
        columns=COLUMNS,
        rows=in_rows(found.risk),
        note="\n".join(noted),
    )
