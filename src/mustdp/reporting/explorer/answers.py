"""The state of the explorer's page, and the answers that the page shows for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np

from mustdp.accounting.account import Account, account
from mustdp.accounting.plan import steps_of
from mustdp.calibration.compare import epochs_of, schemes_of
from mustdp.calibration.noise import calibrate
from mustdp.errors import InvalidParameter, MustdpError
from mustdp.limits import LARGEST_EPSILON, LARGEST_NOISE, MOST_STEPS, SMALLEST_DELTA, SMALLEST_NOISE
from mustdp.mechanisms.mechanism import gaussian
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.formatting import (
    chance_drawn,
    csv_table,
    latex_comment,
    latex_text,
    noise_needed,
    percent,
    readable,
)
from mustdp.reporting.plots.drawing import Theme, figure_of, new_axes
from mustdp.reporting.plots.privacy import contours, epsilon_against_steps, profile_bands
from mustdp.sampling.catalogue import CATALOGUE, EPOCHS
from mustdp.sampling.epochs import Epoch, Sampling
from mustdp.sampling.schemes import must_ow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The state of a page: read from its address, checked, and written back as command and Python.
#
# The same fields describe a state in the address, on the command line and in Python, so that what
# is shared, copied or computed cannot differ.


#: The state of a page that was opened without one.
DEFAULTS = {
    "n": "10000", "b": "500", "m": "200", "steps": "1000", "delta": "1e-5", "epsilon": "2",
    "noise": "", "relation": "replace-one", "group": "1", "with-epochs": "no",
}  # fmt: skip
_LARGEST = 10**9
_LONGEST = 40


@dataclass(frozen=True)
class PageState:
    """Sizes, steps, relation and group, and either a target epsilon or a noise multiplier."""

    n: int
    b: int
    m: int
    steps: int
    delta: float
    epsilon: float | None
    noise: float | None
    relation: Relation
    #: How many records of one person the guarantee covers.
    group: int
    #: Whether random allocation and shuffling, which share out whole epochs, are shown too.
    with_epochs: bool

    @classmethod
    def read(cls, given: Mapping[str, str]) -> PageState:
        """The state in an address; fields that are missing have their defaults.

        A refusal names the field.
        """
        for name, text in given.items():
            if name not in DEFAULTS:
                raise InvalidParameter.refusing("address", "must have known fields only", name[:20])
            if len(text) > _LONGEST:
                raise InvalidParameter.refusing(
                    name, f"must have at most {_LONGEST} characters", "more"
                )
        fields = {**DEFAULTS, **given}
        if given.get("noise", "").strip():
            fields["epsilon"] = given.get("epsilon", "")
        n = _whole("n", fields["n"], _LARGEST)
        target, noise = fields["epsilon"].strip(), fields["noise"].strip()
        if bool(target) == bool(noise):
            raise InvalidParameter.refusing(
                "epsilon", "must be given, or a noise multiplier instead", "both or neither"
            )
        return cls(
            n,
            _whole("b", fields["b"], n),
            _whole("m", fields["m"], _LARGEST),
            _whole("steps", fields["steps"], MOST_STEPS),
            _number("delta", fields["delta"], at_least=SMALLEST_DELTA, below=1.0),
            _number("epsilon", target, above=0.0, at_most=LARGEST_EPSILON) if target else None,
            _number("noise", noise, at_least=SMALLEST_NOISE, at_most=LARGEST_NOISE)
            if noise
            else None,
            Relation.read(fields["relation"].replace("-", "_")),
            _whole("group", fields["group"], n),
            checks.choice("with-epochs", fields["with-epochs"], ("yes", "no")) == "yes",
        )

    @property
    def schemes(self) -> list[Sampling]:
        """The schemes that exist for these sizes, those of whole epochs last."""
        passes = epochs_of(self.n, self.m) if self.with_epochs else []
        return [*schemes_of(self.n, self.b, self.m), *passes]

    def _fields(self) -> dict[str, str]:
        chosen = {"epsilon": self.epsilon} if self.noise is None else {"noise": self.noise}
        return {
            "n": str(self.n),
            "b": str(self.b),
            "m": str(self.m),
            "steps": str(self.steps),
            "delta": repr(self.delta),
            **{name: repr(value) for name, value in chosen.items()},
            "relation": self.relation.option,
            "group": str(self.group),
            "with-epochs": "yes" if self.with_epochs else "no",
        }

    @property
    def address(self) -> str:
        """The state as it stands in an address."""
        return urlencode(self._fields())

    @property
    def command(self) -> str:
        """The command that prints the same table."""
        target = (
            f"--noise-multiplier {self.noise!r}"
            if self.noise is not None
            else f"--epsilon {self.epsilon!r}"
        )
        return (
            f"mustdp compare -n {self.n} -b {self.b} -m {self.m} --steps {self.steps} "
            f"--delta {self.delta!r} {target} --relation {self.relation.option}"
            f"{f' --group {self.group}' if self.group > 1 else ''}"
            f"{' --with-epochs' if self.with_epochs else ''}"
        )

    @property
    def python(self) -> str:
        """Python that gives the same numbers."""
        target = (
            f"noise_multiplier={self.noise!r}"
            if self.noise is not None
            else f"epsilon={self.epsilon!r}"
        )
        if self.group > 1:
            target += f", group={self.group}"
        if self.with_epochs:
            target += ", epochs=True"
        return (
            "import mustdp as md\n\n"
            f"found = md.compare(n={self.n}, b={self.b}, m={self.m}, steps={self.steps}, "
            f'delta={self.delta!r}, {target}, relation="{self.relation.value}")\n'
            "print(found)\n"
        )


def _whole(name: str, text: str, most: int) -> int:
    try:
        value: object = int(text)
    except ValueError:
        value = text
    return checks.integer(name, value, 1, most)


def _number(name: str, text: str, **limits: float) -> float:
    try:
        value: object = float(text)
    except ValueError:
        value = text
    return checks.real(name, value, **limits)


# What is computed for a state, in parts small enough to be shown one after the other.
#
# A part is one scheme's row, band, cost by steps or risk, or one line of the (b, m) contour. Each
# is a function of hashable arguments, so that a part that was computed once is never computed
# again. The numbers are those of ``mustdp compare`` and ``mustdp risk``: the same calls with the
# same arguments.


#: Schemes whose law is that of another one; they have a row and no picture of their own.
SAME_LAW = {"must-wo": "wr", "must-oo": "wor"}
#: Kinds of parts by scheme, in the order in which they are computed.
KINDS = ("row", "risk", "profile", "steps")
_SHARES = (0.03, 0.12, 0.3, 0.6, 1.0, 1.5)
_FACTORS = tuple(4.0 ** (step / 2.0) for step in range(-2, 3))
_POINTS = 40


@dataclass(frozen=True)
class Part:
    """One thing to compute: its kind, the state, and the scheme's name or a batch size."""

    kind: str
    state: PageState
    which: str

    @property
    def words(self) -> str:
        """What is being done, for the progress sign."""
        return {
            "row": f"bounds of {self.which}",
            "risk": f"risk under {self.which}",
            "profile": f"delta against epsilon of {self.which}",
            "steps": f"epsilon against steps of {self.which}",
            "contour": f"must-ow with m = {self.which}",
        }[self.kind]


def parts_of(state: PageState) -> list[Part]:
    """All parts of a state, the most wanted first."""
    names = [scheme.name for scheme in state.schemes]
    drawn = [name for name in names if SAME_LAW.get(name) not in names]
    parts = [Part("row", state, name) for name in names]
    parts += [Part(kind, state, name) for kind in KINDS[1:] for name in drawn]
    _, batches = grid(state)
    return parts + [Part("contour", state, str(size)) for size in batches]


def grid(state: PageState) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First stages and batches around (b, m); empty where one of them cannot be varied."""
    first = tuple(sorted({min(state.n, max(1, round(state.b * f))) for f in _FACTORS}))
    batch = tuple(sorted({max(1, round(state.m * f)) for f in _FACTORS}))
    return (first, batch) if len(first) > 1 and len(batch) > 1 else ((), ())


def compute(part: Part, noise: float | None) -> dict[str, Any]:
    """The numbers of a part; ``noise`` is the scheme's own, once its row is known.

    What cannot be certified is an answer too: its ``error`` says why.
    """
    try:
        return _COMPUTED[part.kind](part, noise)
    except MustdpError as problem:
        return {"error": str(problem)}


def _scheme(part: Part) -> Sampling:
    return next(scheme for scheme in part.state.schemes if scheme.name == part.which)


@lru_cache(maxsize=32)
def _account(state: PageState, scheme: Sampling, noise: float | None, steps: int = 0) -> Account:
    """An account, kept: what is worked out for a scheme's row serves its risk and its band."""
    plan = steps_of(scheme, steps or state.steps, gaussian(noise_multiplier=noise))
    return account(plan, relation=state.relation, group=state.group)


def _row(part: Part, _: float | None) -> dict[str, Any]:
    state, scheme = part.state, _scheme(part)
    if state.epsilon is not None:
        found = calibrate(
            scheme, epsilon=state.epsilon, delta=state.delta, steps=state.steps,
            relation=state.relation, group=state.group,
        )  # fmt: skip
        noise, bounds = found.noise_multiplier, found.epsilon
    else:
        noise = float(state.noise or math.nan)
        bounds = _account(state, scheme, noise).epsilon(state.delta)
    return {
        "scheme": scheme.name,
        "eta": scheme.eta,
        "distinct": scheme.expected_distinct,
        "noise": noise,
        "lower": bounds.lower,
        "upper": bounds.upper,
    }


def _risk(part: Part, noise: float | None) -> dict[str, Any]:
    found = _account(part.state, _scheme(part), noise).risk()
    return {
        "advantage": (found.advantage.lower, found.advantage.upper),
        "tpr": [(rate, one.lower, one.upper) for rate, one in _pairs(found.fpr, found.tpr)],
        "becomes": [found.becomes(prior)[1].upper for prior in (0.5, 0.01)],
        "words": list(found.sentences()),
    }


def _pairs(rates: tuple[float, ...], found: tuple[Any, ...]) -> list[tuple[float, Any]]:
    return list(zip(rates, found, strict=True))


def _profile(part: Part, noise: float | None) -> dict[str, Any]:
    state = part.state
    own = _account(state, _scheme(part), noise)
    end = min(500.0, max(1e-3, 2.0 * (state.epsilon or own.certified_epsilon(state.delta, 0.02))))
    curve = own.curve(np.linspace(0.01, 1.0, _POINTS) * end)
    return {"curve": curve}


def _steps(part: Part, noise: float | None) -> dict[str, Any]:
    state, scheme = part.state, _scheme(part)
    # Whole epochs where there are any: what is left of one is an account of its own.
    unit = scheme.bins if isinstance(scheme, Epoch) and scheme.bins <= state.steps else 1
    counts = sorted(
        {min(MOST_STEPS, max(1, round(share * state.steps / unit)) * unit) for share in _SHARES}
    )
    found = {count: _account(state, scheme, noise, count).epsilon(state.delta) for count in counts}
    return {"bounds": {count: one for count, one in found.items() if math.isfinite(one.upper)}}


def _contour(part: Part, noise: float | None) -> dict[str, Any]:
    state, size = part.state, int(part.which)
    values = []
    for other in grid(state)[0]:
        try:
            own = _account(state, must_ow(state.n, other, size), noise)
            values.append(own.certified_epsilon(state.delta, 0.02))
        except MustdpError:
            values.append(math.nan)
    return {"epsilon": [value if math.isfinite(value) else math.nan for value in values]}


_COMPUTED = {
    "row": _row, "risk": _risk, "profile": _profile, "steps": _steps, "contour": _contour,
}  # fmt: skip

# Answers as the page shows them: rows of text, CSV, LaTeX and pictures.


Answers = Mapping[Part, dict[str, Any]]
COLUMNS = (
    "scheme", "eta", "distinct records", "noise multiplier", "epsilon, at least",
    "epsilon, at most", "advantage, at most", "found at 1 % false, at most",
    "50 % becomes, at most", "1 % becomes, at most",
)  # fmt: skip
PICTURES = ("profile", "steps", "contour")
_WIDTH, _HEIGHT = 4.8, 3.7
_LABELS = {one.name: one.label for one in (*CATALOGUE, *EPOCHS.values())}


def rows_of(state: PageState, answers: Answers) -> list[list[str]]:
    """A row for every scheme; what is not known yet is empty."""
    names = [scheme.name for scheme in state.schemes]
    rows = []
    for name in names:
        row = answers.get(Part("row", state, name))
        # Schemes with the law of another one have its risk.
        twin = SAME_LAW.get(name, name)
        risk = answers.get(Part("risk", state, twin if twin in names else name))
        rows.append([_LABELS[name], *_bounds(row), *_risk_cells(risk)])
    return rows


def _bounds(row: dict[str, Any] | None) -> list[str]:
    if row is None:
        return [""] * 5
    if "error" in row:
        return ["", "", "", "", "none can be certified"]
    return [
        chance_drawn(row["eta"]),
        readable(row["distinct"], "nearest"),
        noise_needed(row["noise"], 4),
        readable(row["lower"], "down"),
        readable(row["upper"], "up") if math.isfinite(row["upper"]) else "no finite bound",
    ]


def _risk_cells(risk: dict[str, Any] | None) -> list[str]:
    if risk is None or "error" in risk:
        return [""] * 4
    return [
        readable(risk["advantage"][1], "up"),
        percent(risk["tpr"][1][2], "up"),
        *(percent(one, "up") for one in risk["becomes"]),
    ]


def sentences(state: PageState, answers: Answers) -> list[str]:
    """Two sentences to quote about MUSTow, once they are known."""
    risk = answers.get(Part("risk", state, "must-ow"), {})
    return list(risk.get("words", ()))


def as_csv(state: PageState, answers: Answers) -> str:
    """The table for spreadsheets, at full precision."""
    rows: list[tuple[Any, ...]] = [
        ("scheme", "eta", "expected_distinct", "noise_multiplier", "epsilon_lower",
         "epsilon_upper", "advantage_upper", "tpr_upper_at_fpr_0.01"),
    ]  # fmt: skip
    for scheme in state.schemes:
        row = answers.get(Part("row", state, scheme.name), {})
        risk = answers.get(Part("risk", state, SAME_LAW.get(scheme.name, scheme.name)), {})
        known = [row.get(name, "") for name in ("eta", "distinct", "noise", "lower", "upper")]
        known += [risk["advantage"][1], risk["tpr"][1][2]] if "tpr" in risk else ["", ""]
        rows.append((scheme.name, *(repr(v) if isinstance(v, float) else v for v in known)))
    return csv_table(rows)


def as_latex(state: PageState, answers: Answers) -> str:
    """The table for papers; bounds rounded to their safe side."""
    head = " & ".join(map(latex_text, COLUMNS))
    body = [" & ".join(map(latex_text, row)) + r" \\" for row in rows_of(state, answers)]
    lines = (
        latex_comment(state.command),
        rf"\begin{{tabular}}{{l{'r' * (len(COLUMNS) - 1)}}}",
        r"\hline", rf"{head} \\", r"\hline", *body, r"\hline", r"\end{tabular}",
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def ready(name: str, state: PageState, answers: Answers) -> bool:
    """Whether there is something to draw, all of it."""
    wanted = _wanted(name, state)
    known = [answers.get(part) for part in wanted]
    drawn = [one for one in known if one is not None and "error" not in one]
    return bool(wanted) and all(one is not None for one in known) and bool(drawn)


def picture(name: str, state: PageState, answers: Answers, theme: Theme) -> Figure:
    """One of the pictures, drawn from the answers."""
    axes = new_axes(theme, _WIDTH, _HEIGHT)
    found = {
        part.which: answers[part]
        for part in _wanted(name, state)
        if "error" not in answers.get(part, {"error": ""})
    }
    if name == "profile":
        mark = None if state.epsilon is None else (state.epsilon, state.delta)
        curves = {which: one["curve"] for which, one in found.items()}
        return figure_of(profile_bands(curves, ax=axes, mark=mark))
    if name == "steps":
        target = None if state.epsilon is None else (float(state.steps), state.epsilon)
        bands = {which: one["bounds"] for which, one in found.items() if one["bounds"]}
        return figure_of(epsilon_against_steps(bands, ax=axes, mark=target))
    first, batches = grid(state)
    nothing = [math.nan] * len(first)
    values = [found.get(str(size), {"epsilon": nothing})["epsilon"] for size in batches]
    return figure_of(
        contours(
            first, batches, values, of="certified ε of MUSTow", mark=(state.b, state.m), ax=axes
        )
    )


def _wanted(name: str, state: PageState) -> list[Part]:
    if name == "contour":
        return [Part("contour", state, str(size)) for size in grid(state)[1]]
    names = [scheme.name for scheme in state.schemes]
    return [Part(name, state, one) for one in names if SAME_LAW.get(one) not in names]
