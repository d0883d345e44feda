"""``mustdp account``: what many applications of a scheme cost together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli import words
from mustdp.cli.bundles import with_bundles
from mustdp.cli.numbers import one_of
from mustdp.cli.options import JsonOption, NoiseOptions, SchemeOptions
from mustdp.cli.output import Answer, readable
from mustdp.cli.progress import progress
from mustdp.cli.targets import (
    RunOptions,
    exactly_one,
    read_delta,
    read_epsilon,
    read_repeats,
    target_option,
)
from mustdp.errors import InvalidParameter, NotCovered

if TYPE_CHECKING:
    from mustdp.accounting.bounds import Bounds
    from mustdp.accounting.paper import Attained
    from mustdp.accounting.plan import Plan
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.sampling.scheme import Scheme

METHODS = ("certified", "one-slope", "section4", "paper")
#: An older word for a method, still understood.
_SAME = {"section4": "one-slope"}

EpsilonOption = Annotated[
    list[str] | None,
    target_option("--epsilon", metavar="E", help="Ask for delta at this epsilon, at least 0."),
]
DeltaOption = Annotated[
    list[str] | None,
    target_option("--delta", metavar="D", help="Ask for epsilon at this delta, between 0 and 1."),
]
MethodOption = Annotated[
    str,
    target_option(
        "--method",
        metavar="NAME",
        help="certified; one-slope (or section4): the upper bound from the theorem of the MUST "
        "paper, composed; paper: the paper's own composition, which follows one pair of data sets "
        "only.",
        show_default=True,
    ),
]
ReuseOption = Annotated[
    str | None,
    target_option(
        "--reuse",
        metavar="R",
        help="Repeat the last of several stages R times on what the stages before it drew, in "
        "each of the K steps.",
    ),
]


@dataclass(frozen=True)
class _Asked:
    """A plan and the question about it, read from the options."""

    scheme: Scheme
    mechanism: Mechanism
    steps: int
    reuse: int | None
    method: str
    relation: str | None
    #: "delta" or "epsilon", and the value of the other one.
    question: str
    at: float

    @property
    def given(self) -> str:
        return "epsilon" if self.question == "delta" else "delta"

    def plan(self) -> Plan:
        """The release as an expression; a reused subset is written as it happens."""
        import mustdp

        scheme = self.scheme
        if self.reuse is None:
            return mustdp.repeat(self.steps, mustdp.subsample(scheme, self.mechanism))
        if not isinstance(scheme, mustdp.Multistage) or len(scheme.stages) < 2:
            raise InvalidParameter(
                f"--reuse {self.reuse} does not fit {scheme.name}: it repeats the last of at least "
                "two stages (must-ow, must-ww, must-wo, must-oo or --stages)"
            )
        *before, last = scheme.stages
        inner = mustdp.subsample(mustdp.Multistage(before[-1].size, (last,)), self.mechanism)
        outer = mustdp.Multistage(scheme.n, tuple(before))
        return mustdp.repeat(self.steps, mustdp.subsample(outer, mustdp.repeat(self.reuse, inner)))

    def data(self, relation: str, shift: float | None) -> dict[str, Any]:
        """What every answer begins with."""
        return {
            **self.scheme.describe(),
            "eta": self.scheme.eta,
            "expected_distinct": self.scheme.expected_distinct,
            **self.mechanism.describe(),
            "relation": relation,
            "shift": shift,
            "steps": self.steps,
            **({} if self.reuse is None else {"reuse": self.reuse}),
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
    reuse: ReuseOption = None,
    json: JsonOption = False,
) -> Answer:
    """Account for many applications of a mechanism to random subsamples.

    Give --epsilon to learn delta, or --delta to learn epsilon. The upper bound is certified for
    every pair of neighbouring data sets; the lower bound is attained by a concrete pair.

    Example: mustdp account --scheme must-ow -n 10000 -b 118 -m 200 --noise-multiplier 4
    --steps 1000 --epsilon 1
    """
    exactly_one({"--epsilon": epsilon, "--delta": delta})
    asked = _Asked(
        scheme=scheme.build(),
        mechanism=noise.build(),
        steps=run.count(),
        reuse=None if reuse is None else read_repeats("--reuse", reuse),
        method=one_of("--method", method, METHODS),
        relation=run.neighbours(),
        question="delta" if epsilon else "epsilon",
        at=read_epsilon(epsilon) if epsilon else read_delta(delta or ()),
    )
    plan = asked.plan()
    if reuse is not None and method != "certified":
        raise InvalidParameter(f"--reuse {asked.reuse} is not covered by --method {method}")
    try:
        with progress(doing="accounting"):
            return _paper(asked, plan, json) if method == "paper" else _bounds(asked, plan, json)
    except NotCovered as problem:
        options = {"--method": method, "--relation": run.relation, "--reuse": reuse}
        listed = " ".join(f"{name} {text}" for name, text in options.items() if text is not None)
        raise NotCovered(f"{listed}: {problem}") from None


def _bounds(asked: _Asked, plan: Plan, as_json: bool) -> Answer:
    import mustdp

    result = mustdp.account(
        plan, relation=asked.relation, method=_SAME.get(asked.method, asked.method)
    )
    found: Bounds = getattr(result, asked.question)(asked.at)
    relation = words.typed(result.relation)
    data = {
        **asked.data(relation, result.shift),
        **({"theorem": words.THEOREM} if result.method == "one-slope" else {}),
        asked.given: asked.at,
        asked.question: words.two_sided(found, f"at --delta {asked.at:g}"),
        **words.origin(found),
    }
    if as_json:
        return Answer(data, as_json=True)
    if result.method == "one-slope":
        upper = (
            f"upper: {words.THEOREM}, composed; it holds for every pair of neighbouring data sets "
            f"({words.NEIGHBOURS[relation]}) and is looser than what --method certified finds."
        )
    else:
        upper = words.upper_in_words(found, asked.question, relation)
    notes = [
        upper,
        words.lower_in_words(found, relation, asked.scheme),
        words.noise_in_words(asked.mechanism, result.shift, relation),
    ]
    return Answer(
        data,
        as_json=False,
        heading=asked.heading(),
        columns=(asked.given, f"{asked.question}, lower", f"{asked.question}, upper"),
        rows=((f"{asked.at:g}", readable(found.lower, "down"), readable(found.upper, "up")),),
        note="\n".join(notes),
    )


def _paper(asked: _Asked, plan: Plan, as_json: bool) -> Answer:
    """What the paper's pair of data sets attains, which other pairs may exceed."""
    from mustdp.accounting.paper import PaperAccount

    result = PaperAccount(plan)
    if asked.relation not in (None, result.relation):
        raise NotCovered(f"the paper's composition of {asked.scheme.name} is for {result.relation}")
    found: Attained = getattr(result, asked.question)(asked.at)
    relation = words.typed(result.relation)
    ends = words.attained(found, f"at --delta {asked.at:g}")
    pair = "aligned" if relation == "add-remove" else "symmetric"
    data = {
        **asked.data(relation, result.shift),
        asked.given: asked.at,
        asked.question: ends,
        "attained_by": pair,
        "meaning": "attained by this pair of data sets; other pairs may lose more",
    }
    return Answer(
        data,
        as_json=as_json,
        heading=asked.heading(),
        columns=(asked.given, f"attained {asked.question}, from", "to"),
        rows=(
            (
                f"{asked.at:g}",
                readable(found.attained_lower, "down"),
                readable(found.attained_upper, "up"),
            ),
        ),
        note=f"What {words.pair_in_words(pair, relation, asked.scheme)} attains lies between the "
        "two, by the composition of arXiv 2312.13389.\n"
        "Other neighbouring data sets may lose more: only --method certified says how much.\n"
        + words.noise_in_words(asked.mechanism, result.shift, relation),
    )
