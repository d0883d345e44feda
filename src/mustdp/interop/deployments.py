"""Published deployments of differential privacy, and plans in the schema of their registry.

The registry (github.com/opendp/deployments-registry-data) keeps one YAML file per deployment, with
its parameters and much text. What mustdp needs to compute an epsilon again is a plan, for which the
schema has no field. It is kept where the schema has text about composition, in a block of YAML that
readers of the file see as well:

    deployment:
      accounting:
        composition: |
          What is composed, in words.

          ```yaml
          mustdp:
            - name: persons
              plan: {mechanism: zcdp, rho: 2.56}
              relation: replace_one
              delta: 1.0e-10
              published: {epsilon: 17.14}
              differs: why ours is another number
          ```

A file without such a block is read by its parameters: rho, or epsilon and delta. ``registry`` has
the deployments that are shipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from mustdp.accounting.account import account, in_words
from mustdp.accounting.bounds import Bounds
from mustdp.accounting.plan import Plan, describe, plan_from_description
from mustdp.errors import InvalidParameter
from mustdp.extras import required
from mustdp.mechanisms.relation import Relation
from mustdp.mechanisms.stated import approximate_dp, pure_dp, zcdp
from mustdp.numerics import checks

__all__ = [
    "DeployedRelease",
    "Deployment",
    "deployments",
    "read_deployment",
    "to_deployment",
]

#: A file with a deployment is at most this large, in bytes.
LARGEST_FILE = 2**20

_BLOCK = re.compile(r"^```yaml\n(mustdp:\n.*?)^```", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class DeployedRelease:
    """One guarantee of a deployment: what is released, and the figure that was published.

    Attributes
    ----------
    name : str
        What it is about.
    plan : Plan
        What is released.
    relation : Relation or None
        Which data sets are neighbours; None where the file does not say it.
    delta : float or None
        The delta of the guarantee; None where the file does not say it.
    published : float or None
        The epsilon that was published.
    differs : str
        Why ours is another number.
    """

    name: str
    plan: Plan
    relation: Relation | None = None
    delta: float | None = None
    published: float | None = None
    differs: str = ""

    def epsilon(self, delta: float | None = None) -> Bounds:
        """Bounds of epsilon, computed now.

        Parameters
        ----------
        delta : float, default=None
            The delta of the guarantee; None means that of the file.

        Returns
        -------
        Bounds
            The attained lower and the certified upper bound.

        Raises
        ------
        InvalidParameter
            Neither the caller nor the file says a delta.
        """
        at = self.delta if delta is None else delta
        if at is None:
            allowed = "must be given, as the deployment does not say one"
            raise InvalidParameter.refusing("delta", allowed, "none")
        return account(self.plan, relation=self.relation).epsilon(delta=at)


@dataclass(frozen=True)
class Deployment:
    """A deployment, read from a file in the registry's schema.

    Attributes
    ----------
    slug : str
        What the registry calls it.
    name : str
        What people call it.
    curators : tuple of str
        Who published it.
    unit : str
        What is protected.
    sources : str
        Where the parameters come from.
    releases : tuple of DeployedRelease
        Its guarantees.
    """

    slug: str
    name: str
    curators: tuple[str, ...]
    unit: str
    sources: str
    releases: tuple[DeployedRelease, ...]


def read_deployment(text: str | bytes) -> Deployment:
    """A deployment from YAML in the registry's schema.

    Parameters
    ----------
    text : str or bytes
        The content of a file.

    Returns
    -------
    Deployment
        With the plans of its block, or one from its parameters.

    Raises
    ------
    InvalidParameter
        The text is not a deployment, or says nothing that can be computed.

    Examples
    --------
    >>> from mustdp.interop.deployments import read_deployment
    >>> found = read_deployment('''
    ... url_slug: example
    ... deployment:
    ...   basic: {name: Example}
    ...   privacy_loss: {privacy_parameters: {rho: 0.1}}
    ... ''')
    >>> [release] = found.releases
    >>> release.plan
    ZCDP(rho=0.1)
    """
    document = _mapping(_loaded(text), "a deployment")
    inside = _mapping(document.get("deployment"), "deployment")
    basic = _mapping(inside.get("basic"), "deployment.basic")
    loss = _mapping(inside.get("privacy_loss") or {}, "deployment.privacy_loss")
    accounting = _mapping(inside.get("accounting") or {}, "deployment.accounting")
    sources = _mapping(inside.get("administrative") or {}, "deployment.administrative")
    block = _BLOCK.search(str(accounting.get("composition", "")))
    if block is None:
        releases: tuple[DeployedRelease, ...] = (_stated(loss),)
    else:
        listed = _mapping(_loaded(block[1]), "the block of mustdp")["mustdp"]
        if not isinstance(listed, list) or not listed:
            raise InvalidParameter("mustdp must be a list of at least one release")
        releases = tuple(_release(_mapping(one, "a release")) for one in listed)
    curators = basic.get("data_curators") or []
    if not isinstance(curators, list):
        raise InvalidParameter("data_curators must be a list of names")
    return Deployment(
        str(document.get("url_slug", "")),
        str(basic.get("name", "")).strip(),
        tuple(map(str, curators)),
        str(loss.get("privacy_unit", "")).strip(),
        str(sources.get("sources", "")).strip(),
        releases,
    )


def to_deployment(
    plan: Plan,
    *,
    name: str,
    delta: float,
    relation: str | None = None,
    unit: str = "Record-level",
    curator: str = "",
    description: str = "",
    intended_use: str = "",
    product: str = "Summary statistics",
    region: str = "",
    date: str = "1900-01-01",
) -> str:
    """A plan as YAML in the registry's schema, with its certified epsilon.

    Parameters
    ----------
    plan : Plan
        What is released.
    name : str
        The name of what is published.
    delta : float
        The delta of the guarantee.
    relation : {"replace_one", "add_remove"}, default=None
        Which data sets are neighbours; None means the plan's default.
    unit : str, default="Record-level"
        What a record of the plan is.
    curator, description, intended_use, region : str, default=""
        What the registry asks for besides.
    product : str, default="Summary statistics"
        The type of what is published, in the registry's words.
    date : str, default="1900-01-01"
        When it is published.

    Returns
    -------
    str
        What :func:`read_deployment` reads back. ``status`` is "Draft", to be completed.

    Raises
    ------
    NotCovered
        The plan has a mechanism that cannot be written down.

    Examples
    --------
    >>> import mustdp as md
    >>> from mustdp.interop.deployments import read_deployment, to_deployment
    >>> plan = md.repeat(10, md.subsample(md.wor(1000, 50), md.gaussian(noise_multiplier=2.0)))
    >>> text = to_deployment(plan, name="Ten means", delta=1e-5)
    >>> read_deployment(text).releases[0].plan == plan
    True
    """
    found = account(plan, relation=relation)
    bounds = found.epsilon(delta=delta)
    release = {
        "name": name,
        "plan": describe(plan),
        "relation": found.relation.value,
        "delta": float(delta),
        "published": {"epsilon": _printed_up(bounds.upper)},
    }
    variant = "Approximate DP" if delta else "Pure DP"
    parameters = {
        "epsilon": _printed_up(bounds.upper),
        **({"delta": float(delta)} if delta else {}),
    }
    document = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"{name} {curator}".lower()).strip("-"),
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": {
                "name": name,
                "data_curators": [curator],
                "intended_use": intended_use,
                "data_product_type": product,
                "data_product_region": region,
                "description": description,
                "publication_date": date,
            },
            "dp_variant": {"variant_name": variant},
            "privacy_loss": {
                "privacy_unit": unit,
                "privacy_unit_details": f"Neighbouring data sets: {found.relation.neighbours}.",
                "privacy_parameters": parameters,
            },
            "accounting": {
                "composition": f"{in_words(plan, released=True)}\n\n```yaml\n"
                f"{_dumped({'mustdp': [release]})}```\n"
            },
            "administrative": {"registry_authors": [curator]},
        },
    }
    return _dumped(document)


def deployments() -> Mapping[str, Deployment]:
    """The deployments that are shipped, by short names, in alphabetical order.

    Returns
    -------
    mapping of str to Deployment
        What ``mustdp deployments`` lists.

    Examples
    --------
    >>> from mustdp.interop.deployments import deployments
    >>> print(deployments()["wikimedia-pageviews"].releases[0].epsilon())
    0 attained, 0.855 certified (add-remove)
    """
    folder = files("mustdp.interop").joinpath("registry")
    return {
        path.name.removesuffix(".yaml"): read_deployment(path.read_text(encoding="utf-8"))
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
        if path.name.endswith(".yaml")
    }


# Reading and writing YAML.


def _loaded(text: str | bytes) -> object:
    yaml = required("yaml", "deployments")
    if len(text) > LARGEST_FILE:
        raise InvalidParameter(f"a deployment must have at most {LARGEST_FILE} bytes")
    try:
        parsed = list(yaml.parse(text, yaml.SafeLoader))
        found: object = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        reason = " ".join(str(getattr(problem, "problem", None) or type(problem).__name__).split())
        raise InvalidParameter(f"a deployment must be YAML: {reason}") from None
    if any(isinstance(one, yaml.AliasEvent) for one in parsed):  # a short text may be enormous
        raise InvalidParameter("a deployment must be YAML without references, got one")
    return found


def _dumped(document: Mapping[str, Any]) -> str:
    yaml = required("yaml", "deployments")

    class Dumper(yaml.SafeDumper):  # type: ignore[misc, name-defined, unused-ignore]
        """Writes text of several lines as such."""

    def text(dumper: Any, value: str) -> Any:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    written: str = yaml.dump(document, Dumper=Dumper, sort_keys=False, width=100)
    return written


def _printed_up(value: float) -> float:
    """Six digits, rounded up."""
    if not value > 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(value)) - 5)
    return float(f"{math.ceil(value / step) * step:.6g}")


def _mapping(found: object, name: str) -> dict[str, Any]:
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise InvalidParameter(f"{name} must be a mapping with names, got {type(found).__name__}")
    return found


def _numbers(found: Any) -> Any:
    """With numbers that YAML leaves as text, such as 1e-10."""
    if isinstance(found, dict):
        return {key: _numbers(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_numbers(value) for value in found]
    if isinstance(found, str) and _NUMBER.fullmatch(found):
        return float(found)
    return found


def _release(found: dict[str, Any]) -> DeployedRelease:
    known = ("name", "plan", "relation", "delta", "published", "differs")
    if not set(found) <= set(known) or "plan" not in found:
        raise InvalidParameter(
            f"a release must have a plan and may have {', '.join(known)}, got {', '.join(found)}"
        )
    published = _mapping(found.get("published") or {}, "published")
    delta, relation = _numbers(found.get("delta")), found.get("relation")
    return DeployedRelease(
        str(found.get("name", "")),
        plan_from_description(_numbers(found["plan"])),
        None if relation is None else Relation.read(relation),
        None if delta is None else checks.real("delta", delta, at_least=0, below=1),
        _epsilon(published),
        str(found.get("differs", "")),
    )


def _epsilon(parameters: dict[str, Any]) -> float | None:
    found = _numbers(parameters.get("epsilon"))
    return None if found is None else checks.real("epsilon", found, at_least=0)


def _stated(loss: dict[str, Any]) -> DeployedRelease:
    """By the parameters alone: the worst mechanism that has them."""
    parameters = _mapping(loss.get("privacy_parameters") or {}, "privacy_parameters")
    epsilon = _epsilon(parameters)
    rho, delta = (_numbers(parameters.get(one)) for one in ("rho", "delta"))
    if delta is not None:
        delta = checks.real("delta", delta, at_least=0, below=1)
    if rho is not None:
        return DeployedRelease("stated rho", zcdp(rho), None, delta, epsilon)
    if epsilon is None:
        raise InvalidParameter("privacy_parameters must state rho or epsilon, got neither")
    if delta:
        return DeployedRelease("stated", approximate_dp(epsilon, delta), None, delta, epsilon)
    return DeployedRelease("stated", pure_dp(epsilon), None, None, epsilon)
