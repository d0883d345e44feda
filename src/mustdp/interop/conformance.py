"""Settings with certified and attained values that any accountant can be run against.

``conformance.json`` has the settings, each with an epsilon that a pair of neighbouring data sets
attains (``lower``) and one that is certified for all (``upper``). An accountant is a module with
one function,

    def epsilon(setting: dict) -> float | None

which returns its epsilon for a setting, or None where it does not accept it. An answer below
``lower`` is refuted: it promises more than the mechanism keeps. The fields of a setting:

    sampling          "none", "poisson", "wor", "wr", "allocation" (every record in one of the
                      batches of an epoch) or "shuffle"
    n, m, rate, bins  records; batch size; chance of a record; batches of an epoch
    mechanism         "gaussian" or "laplace" (on single numbers)
    noise_multiplier  scale of the noise over C, the bound on the norm of what one record adds
    steps             batches that are released
    relation          "add_remove" or "replace_one"
    delta             of the guarantee
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any

from mustdp.accounting.account import account
from mustdp.accounting.plan import Plan, repeat, steps_of
from mustdp.errors import InvalidParameter, MissingExtra
from mustdp.extras import required
from mustdp.mechanisms.mechanism import gaussian, laplace
from mustdp.sampling.epochs import random_allocation, shuffle
from mustdp.sampling.schemes import poisson, wor, wr

#: An answer above the certified bound by more than this is called loose.
TOLERANCE = 0.02

Accountant = Callable[[dict[str, Any]], float | None]


@dataclass(frozen=True)
class Judged:
    """What an accountant answered to one setting.

    ``verdict`` is "too small" (refuted by a pair of data sets), "tight", "loose", "not accepted" or
    "failed".
    """

    setting: dict[str, Any]
    answer: float | None
    verdict: str
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        answer = self.answer if self.answer is None or math.isfinite(self.answer) else "infinite"
        return {**self.setting, "answer": answer, "verdict": self.verdict, "reason": self.reason}


def settings() -> list[dict[str, Any]]:
    """All settings with their bounds."""
    text = files("mustdp.interop").joinpath("conformance.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["settings"]
    return found


def plan_of(setting: dict[str, Any]) -> Plan:
    """The plan that a setting describes."""
    noise = {"gaussian": gaussian, "laplace": laplace}[setting["mechanism"]](
        noise_multiplier=setting["noise_multiplier"]
    )
    sampling, steps = setting["sampling"], setting["steps"]
    if sampling == "none":
        return repeat(steps, noise)
    n = setting["n"]
    scheme: Any
    if sampling == "poisson":
        scheme = poisson(n, setting["rate"])
    elif sampling == "allocation":
        scheme = random_allocation(n, setting["bins"])
    else:
        scheme = {"wor": wor, "wr": wr, "shuffle": shuffle}[sampling](n, setting["m"])
    return steps_of(scheme, steps, noise)


def certified(setting: dict[str, Any]) -> dict[str, Any]:
    """The setting with both bounds, computed by this package."""
    plan, relation = plan_of(setting), setting["relation"]
    bounds = account(plan, relation=relation).epsilon(delta=setting["delta"])
    return {**setting, "lower": bounds.lower, "upper": bounds.upper}


def judge(accountant: Accountant, asked: Iterable[dict[str, Any]] | None = None) -> list[Judged]:
    """Run an accountant on the settings.

    Parameters
    ----------
    accountant : callable
        Takes a setting, returns an epsilon or None.
    asked : iterable of dict, default=None
        Settings with ``lower`` and ``upper``; None means those of this package.

    Returns
    -------
    list of Judged
        What was answered, and what that is worth.
    """
    return [_judged(accountant, setting) for setting in (settings() if asked is None else asked)]


def _judged(accountant: Accountant, setting: dict[str, Any]) -> Judged:
    question = {key: value for key, value in setting.items() if key not in ("lower", "upper")}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what an accountant warns of is no answer
            answer = accountant(question)
    except MissingExtra:
        raise
    except Exception as problem:  # whatever a stranger's accountant raises is its answer
        return Judged(setting, None, "failed", f"{type(problem).__name__}: {problem}"[:200])
    if answer is None:
        return Judged(setting, None, "not accepted")
    answer = float(answer)
    if math.isnan(answer):
        return Judged(setting, None, "failed", "the answer is NaN")
    if answer < setting["lower"]:
        share = f"{setting['lower']:.4g} is attained"
        return Judged(setting, answer, "too small", share)
    if answer <= setting["upper"] * (1.0 + TOLERANCE):
        return Judged(setting, answer, "tight")
    if math.isinf(answer):
        return Judged(setting, answer, "loose", "infinite")
    return Judged(setting, answer, "loose", f"{answer / setting['upper']:.3g} times the certified")


def accountant_named(name: str) -> Accountant:
    """A known accountant by name, or the function ``epsilon`` of a module that can be imported."""
    if name in KNOWN:
        return KNOWN[name]
    try:
        module = import_module(name)
    except ImportError as problem:
        raise InvalidParameter(
            f"module must be one of {', '.join(KNOWN)} or a module with a function epsilon, "
            f"got {name!r}"
        ) from problem
    found = getattr(module, "epsilon", None)
    if not callable(found):
        raise InvalidParameter(f"module {name!r} must have a function epsilon(setting)")
    return found  # type: ignore[no-any-return]


# Accountants of other libraries, as their documentation reads.


def _dp_accounting(kind: str) -> Accountant:
    def epsilon(setting: dict[str, Any]) -> float | None:
        library = required("dp_accounting", "its accountants")
        if setting["sampling"] in ("allocation", "shuffle"):
            return None
        noise = {
            "gaussian": library.GaussianDpEvent,
            "laplace": library.LaplaceDpEvent,
        }[setting["mechanism"]](setting["noise_multiplier"])
        event = {
            "none": lambda: noise,
            "poisson": lambda: library.PoissonSampledDpEvent(setting["rate"], noise),
            "wor": lambda: library.SampledWithoutReplacementDpEvent(
                setting["n"], setting["m"], noise
            ),
            "wr": lambda: library.SampledWithReplacementDpEvent(setting["n"], setting["m"], noise),
        }[setting["sampling"]]()
        relation = {"add_remove": "ADD_OR_REMOVE_ONE", "replace_one": "REPLACE_ONE"}
        asked = library.NeighboringRelation[relation[setting["relation"]]]
        if kind == "pld":
            accountant = import_module("dp_accounting.pld").PLDAccountant(asked)
        else:
            accountant = import_module("dp_accounting.rdp").RdpAccountant(None, asked)
        if not accountant.supports(event):
            return None
        accountant.compose(event, setting["steps"])
        return float(accountant.get_epsilon(setting["delta"]))

    return epsilon


def _poisson_only(setting: dict[str, Any]) -> float | None:
    """The sampling rate, where a library that knows Poisson sampling accepts the setting."""
    if setting["mechanism"] != "gaussian" or setting["relation"] != "add_remove":
        return None
    return {"poisson": setting.get("rate"), "none": 1.0}.get(setting["sampling"])


def _opacus(mechanism: str) -> Accountant:
    def epsilon(setting: dict[str, Any]) -> float | None:
        rate = _poisson_only(setting)
        if rate is None:
            return None
        required("opacus", "its accountants")
        accountant = import_module("opacus.accountants").create_accountant(mechanism)
        accountant.history = [(setting["noise_multiplier"], rate, setting["steps"])]
        return float(accountant.get_epsilon(setting["delta"]))

    return epsilon


def _prv(setting: dict[str, Any]) -> float | None:
    rate = _poisson_only(setting)
    if rate is None or rate == 1.0:
        return None
    required("prv_accountant", "its accountant")
    library = import_module("prv_accountant")
    variable = library.PoissonSubsampledGaussianMechanism(
        noise_multiplier=setting["noise_multiplier"], sampling_probability=rate
    )
    found = library.PRVAccountant(
        prvs=[variable], max_self_compositions=[setting["steps"]], eps_error=0.01, delta_error=1e-10
    ).compute_epsilon(setting["delta"], [setting["steps"]])
    return float(found[2])


def _riskcal(setting: dict[str, Any]) -> float | None:
    rate = _poisson_only(setting)
    if rate is None:
        return None
    accountant = required("riskcal.accountants", "its accountant").CTDAccountant()
    accountant.history = [(setting["noise_multiplier"], rate, setting["steps"])]
    return float(accountant.get_epsilon(delta=setting["delta"]))


def _pld_accounting(setting: dict[str, Any]) -> float | None:
    """Random allocation, which is what the library is for, to an accuracy of .02."""
    if setting["sampling"] != "allocation" or setting["relation"] != "add_remove":
        return None
    if setting["mechanism"] != "gaussian":
        return None
    epochs, rest = divmod(setting["steps"], setting["bins"])
    if rest:
        return None
    library = required("PLD_accounting", "its accountant")
    upper, _ = library.gaussian_allocation_epsilon_range(
        delta=setting["delta"],
        sigma=setting["noise_multiplier"],
        num_steps=setting["bins"],
        num_epochs=epochs,
        epsilon_accuracy=0.02,
    )
    return float(upper)


def _jax_privacy(setting: dict[str, Any]) -> float | None:
    asked = {("poisson", "add_remove"): "POISSON", ("wor", "replace_one"): "FIXED_BATCH_SIZE"}
    method = asked.get((setting["sampling"], setting["relation"]))
    if method is None or setting["mechanism"] != "gaussian":
        return None
    library = required("jax_privacy.accounting", "its accountants")
    size = setting["m"] if method == "FIXED_BATCH_SIZE" else round(setting["rate"] * setting["n"])
    run = library.DpParams(
        noise_multipliers=setting["noise_multiplier"],
        num_samples=setting["n"],
        delta=setting["delta"],
        batch_size=size,
        sampling_method=library.SamplingMethod[method],
    )
    accountant = library.DpsgdTrainingAccountant(library.PldAccountantConfig())
    return float(accountant.compute_epsilon(setting["steps"], run))


def _flower(setting: dict[str, Any]) -> float | None:
    asked = {
        ("poisson", "add_remove"): "POISSON",
        ("wor", "replace_one"): "WITHOUT_REPLACEMENT",
        ("none", "add_remove"): "NO_AMPLIFICATION",
    }
    method = asked.get((setting["sampling"], setting["relation"]))
    if method is None or setting["mechanism"] != "gaussian":
        return None
    library = required("flwr.serverapp", "its accountant")
    relation = {"add_remove": "ADD_OR_REMOVE_ONE", "replace_one": "REPLACE_ONE"}
    population = setting.get("n", 1000)
    size = {"poisson": lambda: round(setting["rate"] * population), "none": lambda: population}
    drawn = size.get(setting["sampling"], lambda: setting["m"])()
    accountant = library.RdpAccountant(
        library.PrivacyConfig(
            setting["delta"],
            population,
            library.NeighboringRelation[relation[setting["relation"]]],
            library.SamplingMethod[method],
        )
    )
    event = library.GaussianPrivacyEvent(setting["noise_multiplier"], drawn, population)
    accountant.compose(event, setting["steps"])
    return float(accountant.get_epsilon(setting["delta"]))


def _ours(setting: dict[str, Any]) -> float | None:
    return float(certified(setting)["upper"])


#: Accountants that are known by name.
KNOWN: dict[str, Accountant] = {
    "mustdp": _ours,
    "dp-accounting-pld": _dp_accounting("pld"),
    "dp-accounting-rdp": _dp_accounting("rdp"),
    "opacus-prv": _opacus("prv"),
    "opacus-rdp": _opacus("rdp"),
    "opacus-gdp": _opacus("gdp"),
    "prv-accountant": _prv,
    "riskcal": _riskcal,
    "pld-accounting": _pld_accounting,
    "jax-privacy": _jax_privacy,
    "flower": _flower,
}
#: The package that each of them is a part of.
PACKAGES = {
    "mustdp": "mustdp",
    "dp-accounting-pld": "dp-accounting",
    "dp-accounting-rdp": "dp-accounting",
    "opacus-prv": "opacus",
    "opacus-rdp": "opacus",
    "opacus-gdp": "opacus",
    "prv-accountant": "prv-accountant",
    "riskcal": "riskcal",
    "pld-accounting": "PLD_accounting",
    "jax-privacy": "jax-privacy",
    "flower": "flwr",
}
