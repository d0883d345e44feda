"""``mustdp account``, ``risk`` and ``amplify``: what a plan costs, in three ways."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.accounting.explanations import (
    THEOREM,
    explain_coarse,
    explain_lower,
    explain_pair,
    explain_shuffling,
    explain_upper,
    poisson_promise,
)
from mustdp.cli import output
from mustdp.cli.options import (
    ACCOUNTING,
    NoiseOptions,
    PlanOptions,
    SchemeOptions,
    counted,
    read_delta,
    read_epsilon,
    read_noise,
    read_repeats,
)
from mustdp.cli.output import RISK_COLUMNS, Answer, progress, risk_rows
from mustdp.cli.parameters import (
    Panel,
    as_typed,
    clipped,
    exactly_one,
    one_of,
    read_number,
    read_rate,
    read_within,
    with_bundles,
    word_from,
)
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.mechanisms.relation import Relation
from mustdp.numerics.formatting import as_stated, chance_drawn, readable

if TYPE_CHECKING:
    from mustdp.accounting.account import Account
    from mustdp.accounting.bounds import Bounds
    from mustdp.accounting.plan import Plan
    from mustdp.accounting.views import Renyi, Summary
    from mustdp.mechanisms.mechanism import Mechanism
    from mustdp.reproduction.paper_account import Attained
    from mustdp.sampling.epochs import Sampling


# What is computed: delta or epsilon, by which method, composed how.


#: An older word for a method, still understood.
SAME = {"section4": "one-slope"}


def _read_method(name: str, text: str) -> str:
    """A method as it was typed."""
    from mustdp.accounting import FURTHER_METHODS
    from mustdp.accounting.account import METHODS

    return one_of(name, text, (*METHODS, *FURTHER_METHODS, *SAME))


def _read_delta(name: str, text: str) -> float:
    """A delta, or 0 for the largest loss there is."""
    try:
        return read_delta(name, text)
    except InvalidParameter as problem:
        if problem.got not in ("0.0", "-0.0"):
            raise
        return 0.0


def _read_runs(name: str, text: str) -> float:
    """A mean number of runs; which of them a law can have the law itself says."""
    return read_within(name, text, limits={"at_least": 0.001, "at_most": 1e6})


_accounting = Panel(
    ACCOUNTING,
    """
    --epsilon E         Find delta at this epsilon, at least 0. Give this or --delta.
    --delta D           Instead of --epsilon: find epsilon at this delta, well below 1/n; 0 finds
                        the largest loss, which Laplace noise bounds.
    --method NAME       certified; one-slope (or section4): the upper bound from the theorem of the
                        MUST paper, composed; paper: the paper's own composition, which follows one
                        pair of data sets only.
    --composition NAME  How closely steps are bounded, from fast to precise: pair, quick, auto or
                        family; docs/cli.md explains them.
    --dimension INT     Number of coordinates of every release. With 1, a single number, the
                        bounds of wor are closer.
    --event FILE        Instead of scheme, noise and steps: an event of dp_accounting, its
                        to_named_tuple() as JSON.
    --reuse R           In each of the K steps, draw the stages before the last once, and the last
                        one R times from them.
    --bands INT         Noise correlated by a strategy matrix with this many bands: the scheme
                        draws from as many groups in turn, from each in K / bands of the K steps,
                        rounded up.
    --column-norm NORM  The largest column norm of that matrix, 1 by default.
    --select-best MEAN  Repeat all of this a random number of times, MEAN on average, and release
                        only the best run: the cost of a search over settings.
    --select-law NAME   The distribution of that number: logarithmic, geometric or poisson.
    """,
)


@dataclass(frozen=True)
class QuestionOptions:
    """``--epsilon`` or ``--delta``, and how the answer is found."""

    epsilon: Annotated[float | None, _accounting("--epsilon", read_epsilon)] = None
    delta: Annotated[float | None, _accounting("--delta", _read_delta)] = None
    method: Annotated[str, _accounting("--method", _read_method)] = "certified"
    composition: Annotated[
        str,
        _accounting(
            "--composition", word_from("mustdp.accounting.families.composition", "COMPOSITIONS")
        ),
    ] = "auto"
    dimension: Annotated[int | None, _accounting("--dimension", read_repeats)] = None
    event: Annotated[str | None, _accounting("--event")] = None
    reuse: Annotated[int | None, _accounting("--reuse", read_repeats)] = None
    bands: Annotated[int | None, _accounting("--bands", read_repeats)] = None
    column_norm: Annotated[float | None, _accounting("--column-norm", read_noise)] = None
    select_best: Annotated[float | None, _accounting("--select-best", _read_runs)] = None
    select_law: Annotated[
        str | None, _accounting("--select-law", word_from("mustdp.sampling.repetitions", "LAWS"))
    ] = None

    @property
    def unknown(self) -> str:
        """The one of the two that is computed."""
        return "epsilon" if self.epsilon is None else "delta"

    @property
    def given(self) -> str:
        """The one of the two that is given."""
        return "delta" if self.epsilon is None else "epsilon"

    def at(self) -> float:
        """Its value."""
        exactly_one({"--epsilon": self.epsilon, "--delta": self.delta})
        return next(value for value in (self.epsilon, self.delta) if value is not None)

    def check_method(self, group: int) -> None:
        """Refuse a method that does not cover the other options."""
        if self.method == "paper" and group != 1:
            raise InvalidParameter(f"--group {group} does not fit --method paper")
        if self.method == "paper" and self.composition == "family":
            raise InvalidParameter("--composition family does not fit --method paper")
        if self.reuse is not None and self.method != "certified":
            raise InvalidParameter(f"--reuse {self.reuse} is not covered by --method {self.method}")
        if self.column_norm is not None and self.bands is None:
            raise InvalidParameter("--bands is missing: --column-norm is about its matrix")
        if self.bands is not None:
            others = {"--reuse": self.reuse, "--method paper": self.method == "paper" or None}
            for name, value in others.items():
                if value is not None:
                    raise InvalidParameter(f"--bands {self.bands} does not fit {name}")
        if self.select_law is not None and self.select_best is None:
            raise InvalidParameter("--select-best is missing: --select-law is about its runs")
        if self.select_best is not None and self.method == "paper":
            given = as_typed(self.select_best)
            raise InvalidParameter(f"--select-best {given} does not fit --method paper")

    def selected(self, plan: Plan) -> Plan:
        """The plan itself, or the best of several runs of it."""
        if self.select_best is None:
            return plan
        from mustdp.accounting.plan import select_best

        try:
            return select_best(plan, self.select_best, law=self.select_law or "logarithmic")
        except InvalidParameter as problem:
            raise InvalidParameter(problem.called({"repetitions": "--select-best"})) from None


# The command and its two kinds of answers: certified bounds, and what the paper's pair attains.


@dataclass(frozen=True)
class _Request:
    """A plan and the question about it, read from the options."""

    scheme: Sampling
    mechanism: Mechanism
    steps: int
    relation: Relation | None
    group: int
    options: QuestionOptions
    at: float

    def plan(self) -> Plan:
        """The release as an expression, and the best of several if that was asked for."""
        return self.options.selected(self._run())

    def _run(self) -> Plan:
        """One run; a reused subset is written as it happens."""
        import mustdp
        from mustdp.accounting.plan import Banded, steps_of

        scheme, reuse, bands = self.scheme, self.options.reuse, self.options.bands
        if bands is not None:
            rounds = steps_of(scheme, -(-self.steps // bands), self.mechanism)
            return Banded(rounds, bands, self.options.column_norm or 1.0)
        if reuse is None:
            return steps_of(scheme, self.steps, self.mechanism)
        if not isinstance(scheme, mustdp.types.Multistage) or len(scheme.stages) < 2:
            raise InvalidParameter(
                f"--reuse {reuse} does not fit {scheme.name}: it repeats the last of at least "
                "two stages (must-ow, must-ww, must-wo, must-oo or --stages)"
            )
        *before, last = scheme.stages
        inner = mustdp.subsample(mustdp.types.Multistage(before[-1].size, (last,)), self.mechanism)
        outer = mustdp.types.Multistage(scheme.n, tuple(before))
        return mustdp.repeat(self.steps, mustdp.subsample(outer, mustdp.repeat(reuse, inner)))

    def data(self, relation: Relation, shift: float | None) -> dict[str, Any]:
        """What every answer begins with."""
        options = self.options
        optional: dict[str, Any] = {"reuse": options.reuse, "dimension": options.dimension}
        if options.bands is not None:
            optional |= {"bands": options.bands, "column_norm": options.column_norm or 1.0}
        if options.select_best is not None:
            law = options.select_law or "logarithmic"
            optional["select_best"] = {"mean": options.select_best, "law": law}
        return {
            **output.plan_as_data(self.scheme, self.mechanism, relation, shift, self.group),
            "steps": self.steps,
            **counted(self.scheme, self.steps),
            **{name: value for name, value in optional.items() if value is not None},
            "method": self.options.method,
        }

    def heading(self) -> str:
        reuse = self.options.reuse
        reused = "" if reuse is None else f", the last stage {reuse} times in each"
        line = f"{output.describe(self.scheme)}; steps: {self.steps}{reused}"
        if self.options.bands is not None:
            line += f"; banded noise, {self.options.bands} groups in turn"
        if self.options.select_best is None:
            return line
        law = self.options.select_law or "logarithmic"
        return f"{line}; the best of {as_typed(self.options.select_best)} such runs ({law})"


@with_bundles
def account(
    plan: PlanOptions,
    options: QuestionOptions,
) -> Answer:
    """Account for many applications of a mechanism to random subsamples.

    Give --epsilon to learn delta, or --delta to learn epsilon. The upper bound is certified for
    every pair of neighbouring data sets; the lower bound is attained by a concrete pair.

    Example: mustdp account --scheme must-ow -n 10000 -b 118 -m 200 --noise-multiplier 4
    --steps 1000 --epsilon 1
    """
    if options.event is not None:
        check_event_alone(plan, options)
        with progress("accounting"):
            return of_event(options.event, plan, options)
    at, (drawn, mechanism, steps) = options.at(), plan.build()
    if options.given == "delta":
        from mustdp.numerics.checks import warn_of_large_delta

        warn_of_large_delta(at, drawn.n)
    request = _Request(drawn, mechanism, steps, plan.run.relation, plan.group, options, at)
    options.check_method(plan.group)
    released = request.plan()
    answered = _paper if options.method == "paper" else _bounds
    try:
        with progress("accounting"):
            return answered(request, released)
    except NotCovered as problem:
        if problem.argument is not None:
            raise
        raise NotCovered(f"--method {options.method}: {problem}") from None


def check_event_alone(plan: PlanOptions, options: QuestionOptions) -> None:
    """Refuse what an event says itself."""
    named = {"scheme": plan.scheme, "noise": plan.noise, "epochs": plan.epochs}
    for name, group in named.items():
        if group != type(group)():
            raise InvalidParameter(f"--event excludes options for {name}, which the event states")
    for option, value in (
        ("--steps", plan.run.steps),
        ("--reuse", options.reuse),
        ("--bands", options.bands),
        ("--select-best", options.select_best),
    ):
        if value is not None:
            raise InvalidParameter(f"--event goes without {option}: the event says it")
    if options.method != "certified":
        raise InvalidParameter(f"--event is not covered by --method {options.method}")


def of_event(path: str, asked: PlanOptions, options: QuestionOptions) -> Answer:
    """What an event of dp_accounting costs."""
    import mustdp
    from mustdp.files.reading import read_file
    from mustdp.interop.events import LARGEST_FILE, event_from_json

    at, question, relation = options.at(), options.unknown, asked.run.relation
    try:
        content = read_file(path, LARGEST_FILE)
    except OSError as problem:
        raise InvalidParameter(
            f"--event must be a file that can be read, got {clipped(path)} ({problem.strerror})"
        ) from None
    event = event_from_json(content, relation)
    result = mustdp.account(
        event.some_plan(),
        relation=relation,
        composition=options.composition,
        group=asked.group,
        dimension=options.dimension,
    )
    used = result.relation
    event.check(used)
    found: Bounds = getattr(result, question)(at)
    data = {
        "relation": used.option,
        "shift": result.shift,
        **output.group_as_data(asked.group),
        "steps": result.steps,
        options.given: at,
        question: output.two_sided(found, f"at --delta {as_stated(at)}"),
        **output.origin_as_data(found),
        "composition": result.composition,
    }
    return Answer(
        data,
        heading=f"{path}; steps: {result.steps}",
        columns=(options.given, f"{question}, lower", f"{question}, upper"),
        rows=((as_stated(at), *output.ends(found)),),
        note="\n".join(
            (
                explain_upper(question, used, found.direction, asked.group),
                *explain_coarse(found),
                f"relation {used.option}; a noise multiplier is relative to the bound on one "
                "record's contribution.",
            )
        ),
    )


def _bounds(request: _Request, plan: Plan) -> Answer:
    import mustdp

    options, question = request.options, request.options.unknown
    result: Any = mustdp.account(
        plan,
        relation=request.relation,
        method=SAME.get(options.method, options.method),
        composition=options.composition,
        group=request.group,
        dimension=options.dimension,
    )
    found: Bounds = getattr(result, question)(request.at)
    relation = result.relation
    data = {
        **request.data(relation, result.shift),
        **({"theorem": THEOREM} if result.method == "one-slope" else {}),
        options.given: request.at,
        question: output.two_sided(found, f"at --delta {as_stated(request.at)}"),
        **output.origin_as_data(found),
        "composition": result.composition,
    }
    if options.select_best is None and options.bands is None:
        data |= poisson_promise(
            request.scheme, request.mechanism, request.steps, question, request.at, found
        )
    if result.method == "one-slope":
        upper = (
            f"upper: {THEOREM}, composed; it holds for every pair of neighbouring data sets "
            f"({relation.differing(request.group)}) and is looser than what --method certified "
            "finds."
        )
    else:
        upper = explain_upper(question, relation, found.direction, request.group)
    notes = [
        upper,
        explain_lower(found, relation, request.scheme, request.group, question),
        *explain_coarse(found),
        output.noise_in_words(request.mechanism, result.shift, relation),
        explain_shuffling(data, question),
    ]
    return Answer(
        data,
        heading=request.heading(),
        columns=(options.given, f"{question}, lower", f"{question}, upper"),
        rows=((as_stated(request.at), *output.ends(found)),),
        note="\n".join(filter(None, notes)),
    )


def _paper(request: _Request, plan: Plan) -> Answer:
    """What the paper's pair of data sets attains, which other pairs may exceed."""
    import mustdp

    question = request.options.unknown
    result = mustdp.account(plan, relation=request.relation, method="paper")
    relation = result.relation
    found: Attained = getattr(result, question)(request.at)
    lower, upper = found.attained_lower, found.attained_upper
    output.check_finite(lower, upper, f"at --delta {as_stated(request.at)}")
    pair = "aligned" if relation == Relation.ADD_REMOVE else "symmetric"
    data = {
        **request.data(relation, result.shift),
        request.options.given: request.at,
        question: {"attained_lower": lower, "attained_upper": upper},
        "attained_by": pair,
        "meaning": "attained by this pair of data sets; other pairs may lose more",
    }
    return Answer(
        data,
        heading=request.heading(),
        columns=(request.options.given, f"attained {question}, from", "to"),
        rows=((as_stated(request.at), readable(lower, "down"), readable(upper, "up")),),
        note=f"What {explain_pair(pair, relation, request.scheme)} attains lies between "
        "the two, by the composition of arXiv 2312.13389.\n"
        "Other neighbouring data sets may lose more: only --method certified says how much.\n"
        + output.noise_in_words(request.mechanism, result.shift, relation),
    )


# ``mustdp risk``: what an attacker who sees everything that is released can achieve.


#: Orders of Renyi divergences unless others are given.
_ORDERS = (2.0, 4.0, 8.0, 16.0, 32.0)

_risk = Panel(
    ACCOUNTING,
    """
    --fpr FPR  False-positive rate of the attacker, 0 to 1; may be given several times. Default:
               0.001, 0.01 and 0.1.
    --order A  Order of a Renyi divergence, above 1; may be given several times. Default: 2, 4, 8,
               16 and 32.
    """,
)


@with_bundles
def risk(
    plan: PlanOptions,
    fpr: Annotated[list[float] | None, _risk("--fpr", read_rate)] = None,
    order: Annotated[
        list[float] | None, _risk("--order", partial(read_number, above=1, at_most=1e6))
    ] = None,
) -> Answer:
    """Say in words what an attacker who sees everything that is released can achieve.

    At most: certified, for every pair of neighbouring data sets and every attacker. At least:
    reached by an attacker on a concrete pair. The same account is also given as mu of Gaussian
    DP, rho of zero-concentrated DP and Renyi divergences.

    Example: mustdp risk --scheme must-ow -n 10000 -b 118 -m 200 --noise-multiplier 4 --steps 1000
    """
    built, mechanism, steps = plan.build()

    import mustdp
    from mustdp.accounting.plan import steps_of
    from mustdp.accounting.risk import USUAL_FPR

    with progress("accounting"):
        account = mustdp.account(
            steps_of(built, steps, mechanism), relation=plan.run.relation, group=plan.group
        )
        found = account.risk(fpr or USUAL_FPR)
        views = _views(account, tuple(order or _ORDERS))
    relation = account.relation
    data = {
        **output.plan_as_data(built, mechanism, relation, account.shift, plan.group),
        "steps": steps,
        **counted(built, steps),
        **found.as_dict(),
        **views,
    }
    heading = f"{output.describe(built)}; steps: {steps}"
    lower, upper = output.ends(found.advantage)
    noted = (
        *found.sentences(),
        "advantage (true less false positives, at its largest): at least "
        f"{lower}, at most {upper}.",
        f"found: share of the records that were there and are accused; {_CERTIFIED}",
        _in_words(views),
        output.noise_in_words(mechanism, account.shift, relation),
    )
    return Answer(
        data,
        heading=heading,
        columns=RISK_COLUMNS,
        rows=risk_rows(found),
        note="\n".join(noted),
    )


_CERTIFIED = (
    "at most: certified for every attacker and pair of neighbouring data sets; at least: reached."
)


def _views(account: Account, orders: tuple[float, ...]) -> dict[str, Any]:
    mu, rho, renyi = account.gaussian_dp(), account.zero_concentrated(), account.renyi(orders)
    outside = (
        "Renyi divergences by order, outside an event of probability "
        f"{readable(renyi.outside, 'up')}; upper is certified, lower reached by a named pair"
    )
    return {
        "mu": _one(mu),
        "rho": _one(rho),
        "renyi": _divergences(renyi),
        "meaning": {"mu": mu.meaning, "rho": rho.meaning, "renyi": outside},
    }


def _one(summary: Summary) -> float | str:
    """The number, or a word that no tool takes for a small one: text sorts above all numbers."""
    return summary.value if math.isfinite(summary.value) else "infinite"


def _divergences(renyi: Renyi) -> list[dict[str, Any]]:
    rows = zip(renyi.orders.tolist(), renyi.lower.tolist(), renyi.upper.tolist(), strict=True)
    return [
        {"order": order, "lower": low, "upper": high if math.isfinite(high) else "infinite"}
        for order, low, high in rows
    ]


def _in_words(views: dict[str, Any]) -> str:
    """The other views in a line each."""
    divergences = ", ".join(
        f"{row['upper'] if isinstance(row['upper'], str) else readable(row['upper'], 'up')} "
        f"(order {as_stated(row['order'])})"
        for row in views["renyi"]
    )
    named = {"mu": "Gaussian DP, mu", "rho": "zero-concentrated DP, rho"}
    lines = [
        f"{name}: {views[key] if isinstance(views[key], str) else readable(views[key], 'up')} "
        f"({views['meaning'][key]})."
        for key, name in named.items()
    ]
    return "\n".join((*lines, f"Renyi divergence, at most: {divergences}."))


# ``mustdp amplify``: what one application of a scheme does to (epsilon, delta).


_AMPLIFIED = ("epsilon", "delta", "epsilon_prime", "delta_prime", "kind", "ratio", "difference")

_amplify = Panel(
    None,
    """
    --epsilon E  Required: base epsilon, at least 0; may be given several times.
    """,
)
EpsilonOption = Annotated[
    list[float] | None, _amplify("--epsilon", partial(read_number, at_least=0))
]


@with_bundles
def amplify(
    scheme: SchemeOptions,
    noise: NoiseOptions,
    epsilon: EpsilonOption = None,
) -> Answer:
    """Amplify base points (epsilon, delta) of a mechanism by the theorem of the MUST paper.

    One application of the mechanism to a random subsample. delta is the mechanism's own at epsilon;
    epsilon' and delta' hold for the subsampled mechanism. The kind is strong (neither grows),
    weak-1 (only delta grows), weak-2 (only epsilon grows) or dilution (both grow).

    Example: mustdp amplify --scheme must-ow -n 1000 -b 500 -m 400 --mechanism laplace --shift 0.25
    --epsilon 0.05 --epsilon 0.5
    """
    plan, mechanism = scheme.build(), noise.build()
    if not epsilon:
        raise InvalidParameter("--epsilon is missing: give at least one number >= 0")

    import mustdp

    result = mustdp.amplify(plan, mechanism, epsilon)
    data = {
        **output.plan_as_data(result.scheme, result.mechanism, result.relation, result.shift),
        "theorem": THEOREM,
        "rows": [{name: row[name] for name in _AMPLIFIED} for row in result],
    }
    rows = tuple(
        (
            as_stated(row.epsilon),
            readable(row.delta, "up"),
            readable(row.epsilon_prime, "up"),
            readable(row.delta_prime, "up"),
            row.kind,
            readable(row.ratio, "up"),
            readable(row.difference, "up"),
        )
        for row in result
    )
    return Answer(
        data,
        heading=f"{output.describe(result.scheme)}: eta = {chance_drawn(result.eta)}, "
        f"expected distinct records = {readable(result.scheme.expected_distinct, 'nearest')}",
        columns=("epsilon", "delta", "epsilon'", "delta'", "kind", "ratio", "difference"),
        rows=rows,
        note=f"{result.mechanism.name} noise, "
        f"{output.shift_in_words(result.mechanism, result.shift)}"
        f"relation {result.relation.option}; by {THEOREM}.",
    )
