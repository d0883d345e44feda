"""``mustdp deployments`` and ``conformance``: epsilons that others publish, computed again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mustdp.cli.options import read_delta
from mustdp.cli.output import Answer, ends, progress
from mustdp.cli.parameters import Panel, clipped, with_bundles
from mustdp.errors import InvalidParameter
from mustdp.numerics.formatting import as_stated, readable

if TYPE_CHECKING:
    from mustdp.interop.deployments import Deployment


NameArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="One deployment, in detail, or a file FILE.yaml in the schema of the registry of "
        "deployments; all known ones if left out.",
        show_default=False,
    ),
]
_deployments = Panel(
    None,
    """
    --delta D  The delta of the guarantees, well below 1/n, instead of that of each deployment.
    """,
)


@with_bundles
def deployments(
    name: NameArgument = None,
    delta: Annotated[float | None, _deployments("--delta", read_delta)] = None,
) -> Answer:
    """Published deployments of differential privacy: their figures beside certified ones.

    Every row is computed from the published parameters. With NAME the answer also
    says what is released, why the figures differ, and where the parameters come from.

    Example: mustdp deployments census-redistricting
    """
    from mustdp.accounting.account import in_words

    chosen = _chosen(name)
    data: list[dict[str, Any]] = []
    rows, notes = [], []
    with progress("computing") as move:
        for place, (short, one) in enumerate(chosen.items()):
            move(short, place, len(chosen))
            for release in one.releases:
                found, words = release.epsilon(delta), in_words(release.plan, released=True)
                at = release.delta if delta is None else delta
                data.append(
                    {
                        "deployment": short,
                        "name": one.name,
                        "curators": list(one.curators),
                        "unit": one.unit,
                        "release": release.name,
                        "plan": words,
                        "relation": found.relation.option if found.relation else None,
                        "delta": at,
                        "published": release.published,
                        "epsilon": {"lower": found.lower, "upper": found.upper},
                        "differs": release.differs,
                        "sources": one.sources,
                    }
                )
                published = "-" if release.published is None else as_stated(release.published)
                shown = "-" if at is None else as_stated(at)
                rows.append((short, release.name, shown, published, *ends(found, 4)))
                notes.append(f"{release.name}: {words}. {release.differs}".strip())
    heading = ""
    if name is not None:
        [one] = chosen.values()
        heading = f"{one.name} ({', '.join(one.curators) or 'no curator named'})"
        notes.append(f"Unit: {one.unit or '-'}. Sources:\n{one.sources or '-'}")
    return Answer(
        {"deployments": data},
        heading=heading,
        columns=("deployment", "release", "delta", "published epsilon", "attained", "certified"),
        rows=tuple(rows),
        note="\n".join(notes)
        if name is not None
        else "mustdp deployments NAME says what is released, why figures differ, and the sources.\n"
        "An attained epsilon of 0 means that only rho is known, and no mechanism.",
    )


def _chosen(name: str | None) -> Mapping[str, Deployment]:
    from mustdp.files.reading import read_file
    from mustdp.interop.deployments import LARGEST_FILE, read_deployment
    from mustdp.interop.deployments import deployments as shipped

    known = shipped()
    if name is None:
        return known
    if name in known:
        return {name: known[name]}
    if not name.endswith((".yaml", ".yml")):
        raise InvalidParameter(
            f"NAME must be a file FILE.yaml or one of {', '.join(known)}, got {clipped(name)}"
        )
    try:
        content = read_file(name, LARGEST_FILE)
    except OSError as problem:
        raise InvalidParameter(
            f"NAME must be a file that can be read, got {clipped(name)} ({problem.strerror})"
        ) from None
    return {name: read_deployment(content)}


# ``mustdp conformance``: an accountant's answers beside certified and attained ones.


ModuleArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE",
        help="mustdp, dp-accounting-pld, dp-accounting-rdp, opacus-prv, opacus-rdp, opacus-gdp, "
        "prv-accountant, riskcal, pld-accounting, jax-privacy, flower, or a module that has a "
        "function epsilon(setting).",
        show_default=False,
    ),
]


@with_bundles
def conformance(module: ModuleArgument) -> Answer:
    """Run an accountant on settings whose epsilon is known, and say where it is too small or loose.

    Every setting has an epsilon that some pair of neighbouring data sets attains and one that is
    certified for all. An answer below the first is refuted; one far above the second is loose.
    MODULE is the name of a known accountant, or a module with a function epsilon(setting) that
    returns a number, or None where it does not accept the setting.

    Example: mustdp conformance dp-accounting-pld
    """
    from mustdp.interop.conformance import accountant_named, judge, settings

    accountant, asked = accountant_named(module), settings()
    judged = []
    with progress("asking") as move:
        for place, setting in enumerate(asked):
            move(setting["name"], place, len(asked))
            judged += judge(accountant, [setting])
    counts = {
        verdict: sum(one.verdict == verdict for one in judged)
        for verdict in ("too small", "tight", "loose", "not accepted", "failed")
    }
    data = {
        "module": module,
        "verdicts": counts,
        "rows": [one.as_dict() for one in judged],
    }
    rows = tuple(
        (
            one.setting["name"],
            as_stated(one.setting["delta"]),
            readable(one.setting["lower"], "down"),
            readable(one.setting["upper"], "up"),
            "-" if one.answer is None else readable(one.answer, "nearest"),
            one.verdict,
            one.reason,
        )
        for one in judged
    )
    return Answer(
        data,
        heading=f"{module}: "
        + ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count),
        columns=("setting", "delta", "attained", "certified", "answer", "verdict", "why"),
        rows=rows,
        note="too small: a pair of neighbouring data sets attains more, so the answer promises "
        "too much. loose: more than 2 % above what is certified.",
    )
