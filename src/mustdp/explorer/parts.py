"""What is computed for a state, in parts small enough to be shown one after the other.

A part is one scheme's row, band, cost by steps or risk, or one line of the (b, m) contour. Each is
a function of hashable arguments, so that a part that was computed once is never computed again. The
numbers are those of ``mustdp compare`` and ``mustdp risk``: the same calls with the same arguments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mustdp.accounting.account import account
from mustdp.accounting.answers import Account
from mustdp.accounting.plan import steps_of
from mustdp.calibration.noise import calibrate
from mustdp.errors import MustdpError
from mustdp.explorer.asked import Asked
from mustdp.limits import MOST_STEPS
from mustdp.mechanisms.mechanism import gaussian
from mustdp.sampling.epochs import Epoch, Sampling
from mustdp.sampling.scheme import must_ow

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
    asked: Asked
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


def parts_of(asked: Asked) -> list[Part]:
    """All parts of a state, the most wanted first."""
    names = [scheme.name for scheme in asked.schemes]
    drawn = [name for name in names if SAME_LAW.get(name) not in names]
    parts = [Part("row", asked, name) for name in names]
    parts += [Part(kind, asked, name) for kind in KINDS[1:] for name in drawn]
    _, batches = grid(asked)
    return parts + [Part("contour", asked, str(size)) for size in batches]


def grid(asked: Asked) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First stages and batches around (b, m); empty where one of them cannot be varied."""
    first = tuple(sorted({min(asked.n, max(1, round(asked.b * f))) for f in _FACTORS}))
    batch = tuple(sorted({max(1, round(asked.m * f)) for f in _FACTORS}))
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
    return next(scheme for scheme in part.asked.schemes if scheme.name == part.which)


@lru_cache(maxsize=32)
def _account(asked: Asked, scheme: Sampling, noise: float | None, steps: int = 0) -> Account:
    """An account, kept: what is worked out for a scheme's row serves its risk and its band."""
    plan = steps_of(scheme, steps or asked.steps, gaussian(noise_multiplier=noise))
    return account(plan, relation=asked.relation, group=asked.group)


def _row(part: Part, _: float | None) -> dict[str, Any]:
    asked, scheme = part.asked, _scheme(part)
    if asked.epsilon is not None:
        found = calibrate(
            scheme, epsilon=asked.epsilon, delta=asked.delta, steps=asked.steps,
            relation=asked.relation, group=asked.group,
        )  # fmt: skip
        noise, bounds = found.noise_multiplier, found.epsilon
    else:
        noise = float(asked.noise or math.nan)
        bounds = _account(asked, scheme, noise).epsilon(asked.delta)
    return {
        "scheme": scheme.name,
        "eta": scheme.eta,
        "distinct": scheme.expected_distinct,
        "noise": noise,
        "lower": bounds.lower,
        "upper": bounds.upper,
    }


def _risk(part: Part, noise: float | None) -> dict[str, Any]:
    found = _account(part.asked, _scheme(part), noise).risk()
    return {
        "advantage": (found.advantage.lower, found.advantage.upper),
        "tpr": [(rate, one.lower, one.upper) for rate, one in _pairs(found.fpr, found.tpr)],
        "becomes": [found.becomes(prior)[1].upper for prior in (0.5, 0.01)],
        "words": list(found.sentences()),
    }


def _pairs(rates: tuple[float, ...], found: tuple[Any, ...]) -> list[tuple[float, Any]]:
    return list(zip(rates, found, strict=True))


def _profile(part: Part, noise: float | None) -> dict[str, Any]:
    asked = part.asked
    own = _account(asked, _scheme(part), noise)
    end = min(500.0, max(1e-3, 2.0 * (asked.epsilon or own.certified_epsilon(asked.delta, 0.02))))
    curve = own.curve(np.linspace(0.01, 1.0, _POINTS) * end)
    return {"curve": curve}


def _steps(part: Part, noise: float | None) -> dict[str, Any]:
    asked, scheme = part.asked, _scheme(part)
    # Whole epochs where there are any: what is left of one is an account of its own.
    unit = scheme.bins if isinstance(scheme, Epoch) and scheme.bins <= asked.steps else 1
    counts = sorted(
        {min(MOST_STEPS, max(1, round(share * asked.steps / unit)) * unit) for share in _SHARES}
    )
    found = {count: _account(asked, scheme, noise, count).epsilon(asked.delta) for count in counts}
    return {"bounds": {count: one for count, one in found.items() if math.isfinite(one.upper)}}


def _contour(part: Part, noise: float | None) -> dict[str, Any]:
    asked, size = part.asked, int(part.which)
    values = []
    for other in grid(asked)[0]:
        try:
            own = _account(asked, must_ow(asked.n, other, size), noise)
            values.append(own.certified_epsilon(asked.delta, 0.02))
        except MustdpError:
            values.append(math.nan)
    return {"epsilon": [value if math.isfinite(value) else math.nan for value in values]}


_COMPUTED = {
    "row": _row, "risk": _risk, "profile": _profile, "steps": _steps, "contour": _contour,
}  # fmt: skip
