"""Pictures of given results, known to users as ``md.plot``: axes in, axes out.

    import mustdp as md
    ax = md.plot.profile_bands({"wor": account.curve(epsilons)})
    ax.figure.savefig("profile.svg")

Without axes a new figure is made; nothing is shown, saved or remembered. ``theme`` is
``md.plot.LIGHT`` or ``md.plot.DARK``; without it the ground of the given axes decides. Needs
``pip install ".[plots]"``.
"""

from mustdp.reporting.plots.drawing import DARK, LIGHT, Theme
from mustdp.reporting.plots.privacy import (
    aligned_profile,
    contours,
    epsilon_against_steps,
    multiplicity_law,
    profile_bands,
)
from mustdp.reporting.plots.results import ledger, loss_curves

__all__ = [
    "DARK",
    "LIGHT",
    "Theme",
    "aligned_profile",
    "contours",
    "epsilon_against_steps",
    "ledger",
    "loss_curves",
    "multiplicity_law",
    "profile_bands",
]
