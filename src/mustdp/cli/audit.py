"""``mustdp audit``: what an attacker finds out about training runs, beside what is certified."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mustdp.cli import output
from mustdp.cli.options import BudgetOptions, RunOptions, SchemeOptions
from mustdp.cli.output import Answer, progress
from mustdp.cli.parameters import (
    Panel,
    read_integer,
    read_natural,
    read_number,
    read_scale,
    with_bundles,
)
from mustdp.errors import NumericalFailure
from mustdp.numerics.formatting import as_stated, readable

if TYPE_CHECKING:
    from mustdp.auditing.audit import Audit, Game
    from mustdp.calibration.budget import Budget

_EXPERIMENT = "a game with a seed, an experiment: its canaries, batches and noise can be repeated"
_game = Panel(
    "Game",
    """
    --clip C       Bound on the norm of one record's gradient; every canary's gradient is ten times
                   as long.
    --runs INT     Independent runs; their canaries count together.
    --level LEVEL  Confidence of what is found, above 0.5 and below 1.
    --seed INT     Reproducible, for experiments: canaries, batches and noise are repeated.
    """,
)


@with_bundles
def audit(
    scheme: SchemeOptions,
    run: RunOptions,
    budget: BudgetOptions,
    max_grad_norm: Annotated[float, _game("--clip", read_scale)] = 1.0,
    runs: Annotated[int, _game("--runs", partial(read_integer, high=1000))] = 1,
    level: Annotated[float, _game("--level", partial(read_number, above=0.5, below=1))] = 0.95,
    seed: Annotated[int | None, _game("--seed", read_natural)] = None,
) -> Answer:
    """Attack training runs with canaries, and compare what is found with the certificate.

    A model is trained by PrivateTrainer on records that are all canaries (-n of them, 20 to 5000);
    an attacker who sees it after every step guesses what a fifth of them were. Good guesses give
    a lower bound on epsilon; guesses that are too good contradict the certificate, which ends
    with status 3. If none are, that proves nothing.

    Example: mustdp audit --scheme wor -n 300 -m 300 --steps 1 --noise-multiplier 2.5 --delta 1e-5
    """
    scheme.check()
    steps, noise = run.count(), budget.read(scheme.n)
    plan = scheme.build()
    scheme.check_trains(plan)

    from mustdp.extras import required

    required("torch", "an audit")
    import mustdp
    from mustdp.auditing.audit import check_size
    from mustdp.calibration.budget import calibrated_budget

    check_size(plan.n)
    with progress("certifying"):
        settled = calibrated_budget(plan, steps=steps, relation=run.relation, **noise)
        output.two_sided(settled.spent().epsilon, "here")
    with progress("playing") as move:
        player = _player(settled, max_grad_norm, seed, lambda k: move("runs", k - 1, runs))
        found = mustdp.audit(player, settled, clip=max_grad_norm, runs=runs, level=level, seed=seed)
    if found.contradicted:
        raise NumericalFailure(_contradicted(found))
    return _answer(settled, found, {"clip": max_grad_norm, "runs": runs})


def _player(
    budget: Budget, max_grad_norm: float, seed: int | None, begin: Callable[[int], object]
) -> Callable[[Game], Any]:
    """What makes the trainer of each run, on the CPU; runs of one seed have seeds of their own."""
    import numpy as np

    from mustdp.randomness.keys import SeededRelease
    from mustdp.training.networks.trainer import PrivateTrainer

    begun = 0

    def player(game: Game) -> PrivateTrainer:
        nonlocal begun
        own = None
        if seed is not None:
            own = int(np.random.SeedSequence([seed, begun]).generate_state(1, np.uint64)[0])
        begun += 1
        begin(begun)
        with warnings.catch_warnings():
            # The answer says in its first line that there was a seed.
            warnings.simplefilter("ignore", SeededRelease)
            return PrivateTrainer(
                game.model, game.loss, game.data, budget,
                optimizer=game.optimizer, max_grad_norm=max_grad_norm, seed=own,
                progress=False,
            )  # fmt: skip

    return player


def _contradicted(found: Audit) -> str:
    """The one line about a run that is not as private as was certified."""
    return (
        f"the certificate is contradicted: {found.right} of {found.guesses} guesses are right, "
        f"which has a chance of at most {readable(found.chance, 'up')} if epsilon is "
        f"{readable(found.certified.upper, 'up')} at delta {as_stated(found.delta)}; epsilon is at "
        f"least {readable(found.epsilon, 'down')} with confidence {as_stated(found.level)}, and "
        "the program does not do what was proved"
    )


def _answer(budget: Budget, found: Audit, settings: dict[str, Any]) -> Answer:
    scheme, certified = budget.scheme, found.certified
    data = {
        **output.scheme_as_data(scheme),
        "noise_multiplier": budget.noise_multiplier,
        "noise": budget.source,
        "steps": budget.steps,
        **settings,
        **found.as_dict(),
    }
    heading = (
        f"{output.describe(scheme)}; steps: {budget.steps}, runs: {settings['runs']}; "
        f"attacker: {found.attacker}"
    )
    return Answer(
        data,
        heading=f"{_EXPERIMENT}\n{heading}" if found.seeded else heading,
        columns=(
            "canaries", "guesses", "right", "delta", "epsilon, found", "epsilon, certified",
        ),
        rows=(
            (
                str(found.canaries),
                str(found.guesses),
                str(found.right),
                as_stated(found.delta),
                readable(found.epsilon, "down"),
                readable(certified.upper, "up"),
            ),
        ),
        note="\n".join(
            (
                f"found: with confidence {as_stated(found.level)}, these runs are not private at "
                "any smaller epsilon.",
                f"certified: no pair of neighbouring data sets ({found.relation.neighbours}) has a "
                "larger epsilon.",
                "the certificate is not contradicted, which proves nothing.",
                output.run_noise_in_words(budget.noise_multiplier, budget.source, found.relation),
            )
        ),
    )  # fmt: skip
