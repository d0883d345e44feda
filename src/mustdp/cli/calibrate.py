"""``mustdp calibrate``: the noise that a target needs, or the steps or sizes that it allows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.accounting.explanations import explain_bounds, explain_coarse
from mustdp.cli import output
from mustdp.cli.options import (
    ACCOUNTING,
    DeltaOption,
    NoiseOptions,
    PlanOptions,
    RunOptions,
    SchemeOptions,
    TargetOption,
    counted,
    stated,
)
from mustdp.cli.output import RISK_COLUMNS, Answer, progress, risk_rows
from mustdp.cli.parameters import (
    Panel,
    as_typed,
    exactly_one,
    read_inner_rate,
    read_rate,
    with_bundles,
    word_of,
)
from mustdp.errors import InvalidParameter
from mustdp.mechanisms.registry import searched_argument
from mustdp.numerics.formatting import as_stated, noise_needed

if TYPE_CHECKING:
    from mustdp.accounting.bounds import Bounds
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.sampling.epochs import Sampling

# Targets in terms of an attacker, --tpr with --fpr or --advantage: options and answer.


_risk_target = Panel(
    ACCOUNTING,
    """
    --tpr TPR              Instead of --epsilon and --delta: the largest true-positive rate of an
                           attacker at the false-positive rate --fpr.
    --fpr FPR              With --tpr: the attacker's false-positive rate, below TPR.
    --advantage ADVANTAGE  Instead of --epsilon and --delta: the largest difference between an
                           attacker's true-positive and false-positive rates.
    """,
)


@dataclass(frozen=True)
class RiskOptions:
    """``--tpr`` with ``--fpr``, or ``--advantage``."""

    tpr: Annotated[float | None, _risk_target("--tpr", read_inner_rate)] = None
    fpr: Annotated[float | None, _risk_target("--fpr", read_rate)] = None
    advantage: Annotated[float | None, _risk_target("--advantage", read_inner_rate)] = None

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


def calibrate_risk(target: RiskOptions, built: Sampling, steps: int, plan: PlanOptions) -> Answer:
    """The noise that keeps an attacker within a target."""
    kind = plan.noise.kind()

    import mustdp
    from mustdp.mechanisms.relation import shift_of

    with progress("calibrating the noise"):
        found = mustdp.calibrate(
            built, steps=steps, mechanism=kind, group=plan.group, relation=plan.run.relation,
            **asdict(target),
        )  # fmt: skip
    relation, mechanism = found.relation, found.mechanism
    shift = shift_of(mechanism, built, relation)
    data = {
        "solve_for": "noise",
        **output.plan_as_data(built, mechanism, relation, shift),
        "steps": steps,
        **{f"target_{name}": value for name, value in target.given.items()},
        **found.risk.as_dict(),
        **output.limit_as_data(found.limit),
    }
    size = f"{found.parameter.replace('_', ' ')} {noise_needed(found.size, output.MULTIPLIER)}"
    noted = (
        *found.risk.sentences(),
        output.noise_in_words(mechanism, shift, relation, found=True),
        *output.limit_as_data(found.limit).values(),
    )
    return Answer(
        data,
        heading=f"{output.describe(built)}; steps: {steps}; {size}",
        columns=RISK_COLUMNS,
        rows=risk_rows(found.risk),
        note="\n".join(noted),
    )


# The command: noise for a target of epsilon and delta, or the steps or sizes that it allows.


UNKNOWNS = ("noise", "steps", "m", "b")
#: Schemes whose batch, and whose first stage, can be solved for.
_SIZED = {"m": ("poisson", "wor", "wr", "must-ow", "must-ww"), "b": ("must-ow", "must-ww")}

_solving = Panel(
    ACCOUNTING,
    """
    --solve-for NAME  noise: the smallest; steps: the most; m: the largest batch; b: the smallest
                      first stage. Leave out the option that is solved for. All but noise need a
                      noise option.
    """,
)


@with_bundles
def calibrate(
    *,
    plan: PlanOptions,
    epsilon: TargetOption = None,
    delta: DeltaOption = None,
    solve_for: Annotated[str, _solving("--solve-for", word_of(UNKNOWNS))] = "noise",
    risk: RiskOptions,
) -> Answer:
    """Find the smallest noise that keeps many applications within (epsilon, delta).

    With --solve-for, find instead the most steps, the largest batch or the smallest first stage
    for a given noise. The answer is accounted for again: its certified epsilon, the upper bound,
    is at most the target. With --tpr and --fpr, or --advantage, the noise keeps an attacker
    within these rates instead.

    Example: mustdp calibrate --scheme must-ow -n 10000 -b 500 -m 200 --steps 1000 --epsilon 2
    --delta 1e-5
    """
    if risk.given:
        drawn, steps = plan.sampling()
        risk.check({"--epsilon": epsilon, "--delta": delta}, solve_for)
        return calibrate_risk(risk, drawn, steps, plan)
    if epsilon is None:
        raise InvalidParameter(
            "--epsilon is missing: give the largest epsilon allowed, above 0; or --tpr and --fpr, "
            "or --advantage"
        )
    target: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": stated(delta, plan.scheme.n),
        "relation": plan.run.relation,
        "group": plan.group,
    }
    if solve_for == "noise":
        found = _noise(*plan.sampling(), plan.noise, target)
    else:
        plan.epochs.refuse(f"does not fit --solve-for {solve_for}")
        find = {"steps": _steps, "m": _size, "b": _size}[solve_for]
        found = find(plan.scheme, plan.noise, plan.run, target, solve_for)
    return _answer(solve_for, target, *found)


_Found = tuple["Sampling", "Mechanism", int, "Bounds", "str | None"]


def _noise(drawn: Sampling, steps: int, noise: NoiseOptions, target: dict[str, Any]) -> _Found:
    import mustdp

    kind = noise.kind()
    with progress("calibrating the noise"):
        found = mustdp.calibrate(drawn, steps=steps, mechanism=kind, **target)
    return drawn, found.mechanism, steps, found.epsilon, found.limit


def _steps(
    scheme: SchemeOptions, noise: NoiseOptions, run: RunOptions, target: dict[str, Any], _: str
) -> _Found:
    import mustdp

    if run.steps is not None:
        raise InvalidParameter(
            f"--steps {run.steps} does not fit --solve-for steps, which finds it"
        )
    built, mechanism = scheme.build(), noise.build()
    with progress("looking for the most steps"):
        found = mustdp.calibration.most_steps(built, mechanism=mechanism, **target)
    return built, mechanism, found.value, found.epsilon, found.limit


def _size(
    scheme: SchemeOptions, noise: NoiseOptions, run: RunOptions, target: dict[str, Any], size: str
) -> _Found:
    """The largest m or the smallest b."""
    import mustdp
    from mustdp.sampling.schemes import scheme_by_name

    name, sizes = scheme.named(size, _SIZED[size])
    mechanism, steps = noise.build(), run.count()
    search: Any = (
        mustdp.calibration.largest_batch if size == "m" else mustdp.calibration.smallest_first_stage
    )
    with progress(f"looking for -{size}"):
        found = search(name, mechanism=mechanism, **sizes, steps=steps, **target)
    built = scheme_by_name(name, **{**sizes, size: found.value})
    return built, mechanism, steps, found.epsilon, found.limit


def _answer(
    unknown: str,
    target: dict[str, Any],
    scheme: Sampling,
    mechanism: Mechanism,
    steps: int,
    found: Bounds,
    limit: str | None,
) -> Answer:
    from mustdp.mechanisms.relation import resolve_relation, shift_of
    from mustdp.sampling.schemes import Multistage

    relation = resolve_relation(scheme, target["relation"])
    shift = shift_of(mechanism, scheme, relation)
    # The size of a Poisson batch is its expectation.
    size = {"m": round(scheme.expected_size)} if unknown == "m" else {}
    data = {
        "solve_for": unknown,
        **output.plan_as_data(scheme, mechanism, relation, shift, target["group"]),
        **size,
        "steps": steps,
        **counted(scheme, steps),
        "target_epsilon": target["epsilon"],
        "epsilon": output.two_sided(found),
        "delta": target["delta"],
        **output.origin_as_data(found),
        **output.limit_as_data(limit),
    }
    first = scheme.stages[0].size if isinstance(scheme, Multistage) else None
    searched = searched_argument(mechanism)
    needed = float(mechanism.describe().get(str(searched), 0.0))
    solved = {
        "noise": (str(searched).replace("_", " "), noise_needed(needed, output.MULTIPLIER)),
        "steps": ("steps", str(steps)),
        "m": ("m", str(size.get("m"))),
        "b": ("b", str(first)),
    }[unknown]
    return Answer(
        data,
        heading=f"{output.describe(scheme)}; steps: {steps}",
        columns=(solved[0], "delta", "epsilon, lower", "epsilon, upper"),
        rows=((solved[1], as_stated(target["delta"]), *output.ends(found, 4)),),
        note="\n".join(
            (
                explain_bounds(found, "epsilon", relation, scheme, target["group"]),
                *explain_coarse(found),
                output.noise_in_words(mechanism, shift, relation, found=unknown == "noise"),
                *output.limit_as_data(limit).values(),
            )
        ),
    )
