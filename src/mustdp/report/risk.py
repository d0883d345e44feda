"""The part of a report about attackers: what they achieve at most, by scheme, and two sentences."""

from __future__ import annotations

from mustdp.accounting.risk import Risk
from mustdp.numerics.decimals import percent, percent_stated, readable
from mustdp.pages.document import Page
from mustdp.report.findings import Findings
from mustdp.report.reading import label


def attackers(page: Page, found: Findings) -> None:
    """What somebody who sees everything released can achieve under each scheme."""
    ours = found.risks["must-ow"]
    page.paragraph(f"**MUSTow, to quote.** {' '.join(ours.sentences())}")
    other = found.reference.scheme.name
    if other in found.risks:
        page.paragraph(f"**{label(other)}, to quote.** {' '.join(found.risks[other].sentences())}")
    page.table(
        (
            "scheme",
            "advantage, at least",
            "at most",
            *(f"found at {percent_stated(rate)} false, at most" for rate in ours.fpr),
            "50 % becomes, at most",
            "1 % becomes, at most",
        ),
        [_row(name, risk) for name, risk in found.risks.items()],
        "What an attacker who sees everything that is released can achieve, each scheme with its "
        "noise from the table above.",
    )
    page.note(
        "Advantage: true-positive rate less false-positive rate, at its largest. Found: the share "
        "of records that were there and are accused, if so many that were not there are accused "
        "falsely. Becomes: what a suspicion held before is after an accusation at 1 % false ones. "
        "At most: certified for every attacker and pair of neighbouring data sets; at least: "
        "reached by an attacker on a concrete pair."
    )


def _row(name: str, risk: Risk) -> list[str]:
    place = risk.fpr.index(0.01)
    return [
        label(name),
        readable(risk.advantage.lower, "down"),
        readable(risk.advantage.upper, "up"),
        *(percent(one.upper, "up") for one in risk.tpr),
        *(percent(risk.becomes(prior)[place].upper, "up") for prior in (0.5, 0.01)),
    ]
