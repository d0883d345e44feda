"""Plans as plain values, for JSON, and back."""

from __future__ import annotations

from typing import Any

from mustdp.accounting.plan import InEpoch, Plan, Repeat, Sequence, Subsample, subsample
from mustdp.errors import InvalidParameter, NotCovered
from mustdp.mechanisms.mechanism import Gaussian, Laplace
from mustdp.numerics import checks
from mustdp.sampling.epochs import epoch_from_description
from mustdp.sampling.scheme import scheme_from_description


def describe(plan: Plan) -> dict[str, Any]:
    """Plain description of a plan, for JSON; :func:`plan_from_description` reads it back."""
    if isinstance(plan, Subsample):
        return {"subsample": plan.scheme.describe(), "inner": describe(plan.inner)}
    if isinstance(plan, InEpoch):
        return {"epoch": plan.epoch.describe(), "inner": describe(plan.inner)}
    if isinstance(plan, Repeat):
        return {"repeat": plan.count, "inner": describe(plan.inner)}
    if isinstance(plan, Sequence):
        return {"sequence": [describe(part) for part in plan.parts]}
    if not isinstance(plan, Gaussian | Laplace):
        raise NotCovered(f"a mechanism of type {type(plan).__name__} cannot be written as JSON")
    return plan.describe()


def plan_from_description(description: object) -> Plan:
    """Rebuild a plan from what :func:`describe` gave; everything is checked again."""
    if not isinstance(description, dict):
        raise InvalidParameter(f"a plan's description must be an object, got {description!r}")
    if "subsample" in description:
        _only(description, "subsample", "inner")
        scheme = scheme_from_description(description["subsample"])
        return Subsample(scheme, plan_from_description(description["inner"]))
    if "epoch" in description:
        _only(description, "epoch", "inner")
        epoch = epoch_from_description(description["epoch"])
        return subsample(epoch, plan_from_description(description["inner"]))
    if "repeat" in description:
        _only(description, "repeat", "inner")
        return Repeat(description["repeat"], plan_from_description(description["inner"]))
    if "sequence" in description:
        _only(description, "sequence")
        if not isinstance(description["sequence"], list):
            raise InvalidParameter("a sequence's description must hold a list of plans")
        return Sequence(tuple(plan_from_description(part) for part in description["sequence"]))
    kinds = {"gaussian": Gaussian, "laplace": Laplace}
    name = checks.choice("mechanism", description.get("mechanism"), tuple(kinds))
    given = {k: v for k, v in description.items() if k != "mechanism"}
    if not given.keys() <= {"noise_multiplier", "shift"}:
        raise InvalidParameter(f"unknown entries in a mechanism's description: {description!r}")
    return kinds[str(name)](**given)


def _only(description: dict[str, Any], *keys: str) -> None:
    if set(description) != set(keys):
        raise InvalidParameter(
            f"a plan's description must have the entries {', '.join(keys)}, "
            f"got {', '.join(map(str, description))}"
        )
