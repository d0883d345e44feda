"""``mustdp account``: what many applications of a scheme cost together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mustdp.cli import words
from mustdp.cli.accounting_options import (
    SAME,
    CompositionOption,
    DeltaOption,
    DimensionOption,
    EpsilonOption,
    MethodOption,
    ReuseOption,
)
from mustdp.cli.bundles import with_bundles
from mustdp.cli.epochs import (
    BinsOption,
    EpochsOption,
    batches,
    counted,
    not_poisson,
    not_poisson_in_words,
    sampling,
)
from mustdp.cli.options import JsonOption, NoiseOptions, SchemeOptions
from mustdp.cli.output import Answer
from mustdp.cli.progress import progress
from mustdp.cli.targets import (
    GroupOption,
    RunOptions,
)
from mustdp.cli.typed import exactly_one
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.decimals import readable

if TYPE_CHECKING:
    from mustdp.accounting.bounds import Bounds
    from mustdp.accounting.paper import Attained
    from mustdp.accounting.plan import Plan
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.sampling.epochs import Sampling


@dataclass(frozen=True)
class _Asked:
    """A plan and the question about it, read from the options."""

    scheme: Sampling
    mechanism: Mechanism
    steps: int
    reuse: int | None
    method: str
    composition: str
    dimension: int | None
    relation: Relation | None
    group: int
    #: "delta" or "epsilon", and the value of the other one.
    question: str
    at: float

    @property
    def given(self) -> str:
        return "epsilon" if self.question == "delta" else "delta"

    def plan(self) -> Plan:
        """The release as an expression; a reused subset is written as it happens."""
        import mustdp
        from mustdp.accounting.plan import steps_of

        scheme = self.scheme
        if self.reuse is None:
            return steps_of(scheme, self.steps, self.mechanism)
        if not isinstance(scheme, mustdp.Multistage) or len(scheme.stages) < 2:
            raise InvalidParameter(
                f"--reuse {self.reuse} does not fit {scheme.name}: it repeats the last of at least "
                "two stages (must-ow, must-ww, must-wo, must-oo or --stages)"
            )
        *before, last = scheme.stages
        inner = mustdp.subsample(mustdp.Multistage(before[-1].size, (last,)), self.mechanism)
        outer = mustdp.Multistage(scheme.n, tuple(before))
        return mustdp.repeat(self.steps, mustdp.subsample(outer, mustdp.repeat(self.reuse, inner)))

    def data(self, relation: Relation, shift: float | None) -> dict[str, Any]:
        """What every answer begins with."""
        return {
            **words.described(self.scheme),
            **self.mechanism.describe(),
            "relation": relation.option,
            **words.grouped(self.group),
            "shift": shift,
            "steps": self.steps,
            **counted(self.scheme, self.steps),
            **({} if self.reuse is None else {"reuse": self.reuse}),
            **({} if self.dimension is None else {"dimension": self.dimension}),
            "method": self.method,
        }

    def heading(self) -> str:
        reused = "" if self.reuse is None else f", the last stage {self.reuse} times in each"
        return f"{words.describe(self.scheme)}; steps: {self.steps}{reused}"


@with_bundles
def account(
    scheme: SchemeOptions,
    noise: NoiseOptions,
    run: RunOptions,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = None,
    method: MethodOption = "certified",
    composition: CompositionOption = "auto",
    dimension: DimensionOption = None,
    reuse: ReuseOption = None,
    group: GroupOption = 1,
    bins: BinsOption = None,
    epochs: EpochsOption = None,
    json: JsonOption = False,
) -> Answer:
    """Account for many applications of a mechanism to random subsamples.

    Give --epsilon to learn delta, or --delta to learn epsilon. The upper bound is certified for
    every pair of neighbouring data sets; the lower bound is attained by a concrete pair.

    Example: mustdp account --scheme must-ow -n 10000 -b 118 -m 200 --noise-multiplier 4
    --steps 1000 --epsilon 1
    """
    exactly_one({"--epsilon": epsilon, "--delta": delta})
    drawn = sampling(scheme, bins)
    asked = _Asked(
        scheme=drawn,
        mechanism=noise.build(),
        steps=batches(drawn, run, epochs),
        reuse=reuse,
        method=method,
        composition=composition,
        dimension=dimension,
        relation=run.relation,
        group=group,
        question="epsilon" if epsilon is None else "delta",
        at=next(value for value in (epsilon, delta) if value is not None),
    )
    plan = asked.plan()
    if method == "paper" and group != 1:
        raise InvalidParameter(f"--group {group} does not fit --method paper")
    if method == "paper" and composition == "family":
        raise InvalidParameter("--composition family does not fit --method paper")
    if reuse is not None and method != "certified":
        raise InvalidParameter(f"--reuse {reuse} is not covered by --method {method}")
    try:
        with progress("accounting"):
            return _paper(asked, plan, json) if method == "paper" else _bounds(asked, plan, json)
    except NotCovered as problem:
        if problem.argument is not None:
            raise
        raise NotCovered(f"--method {method}: {problem}") from None


def _bounds(asked: _Asked, plan: Plan, as_json: bool) -> Answer:
    import mustdp

    result: Any = mustdp.account(
        plan,
        relation=asked.relation,
        method=SAME.get(asked.method, asked.method),
        composition=asked.composition,
        group=asked.group,
        dimension=asked.dimension,
    )
    found: Bounds = getattr(result, asked.question)(asked.at)
    relation = result.relation
    data = {
        **asked.data(relation, result.shift),
        **({"theorem": words.THEOREM} if result.method == "one-slope" else {}),
        asked.given: asked.at,
        asked.question: words.two_sided(found, f"at --delta {asked.at:g}"),
        **words.origin(found),
        "composition": result.composition,
    }
    data |= not_poisson(asked.scheme, asked.mechanism, asked.steps, asked.question, asked.at, found)
    if as_json:
        return Answer(data, as_json=True)
    if result.method == "one-slope":
        upper = (
            f"upper: {words.THEOREM}, composed; it holds for every pair of neighbouring data sets "
            f"({relation.differing(asked.group)}) and is looser than what --method certified finds."
        )
    else:
        upper = words.upper_in_words(asked.question, relation, found.direction, asked.group)
    notes = [
        upper,
        words.lower_in_words(found, relation, asked.scheme, asked.group, asked.question),
        *words.coarse_in_words(found),
        words.noise_in_words(asked.mechanism, result.shift, relation),
        not_poisson_in_words(data, asked.question),
    ]
    return Answer(
        data,
        as_json=False,
        heading=asked.heading(),
        columns=(asked.given, f"{asked.question}, lower", f"{asked.question}, upper"),
        rows=((f"{asked.at:g}", readable(found.lower, "down"), readable(found.upper, "up")),),
        note="\n".join(filter(None, notes)),
    )


def _paper(asked: _Asked, plan: Plan, as_json: bool) -> Answer:
    """What the paper's pair of data sets attains, which other pairs may exceed."""
    import mustdp

    result = mustdp.account(plan, relation=asked.relation, method="paper")
    relation = result.relation
    found: Attained = getattr(result, asked.question)(asked.at)
    lower, upper = found.attained_lower, found.attained_upper
    words.check_finite(lower, upper, f"at --delta {asked.at:g}")
    pair = "aligned" if relation == Relation.ADD_REMOVE else "symmetric"
    data = {
        **asked.data(relation, result.shift),
        asked.given: asked.at,
        asked.question: {"attained_lower": lower, "attained_upper": upper},
        "attained_by": pair,
        "meaning": "attained by this pair of data sets; other pairs may lose more",
    }
    return Answer(
        data,
        as_json=as_json,
        heading=asked.heading(),
        columns=(asked.given, f"attained {asked.question}, from", "to"),
        rows=((f"{asked.at:g}", readable(lower, "down"), readable(upper, "up")),),
        note=f"What {words.pair_in_words(pair, relation, asked.scheme)} attains lies between the "
        "two, by the composition of arXiv 2312.13389.\n"
        "Other neighbouring data sets may lose more: only --method certified says how much.\n"
        + words.noise_in_words(asked.mechanism, result.shift, relation),
    )
