"""``mustdp doctor``: what is installed, what works, and how fast this machine is."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mustdp.cli.output import Answer, progress
from mustdp.cli.parameters import with_bundles
from mustdp.errors import InvalidParameter, MustdpError, NumericalFailure
from mustdp.extras import EXTRAS, version_of
from mustdp.version import __version__

#: What every installation has.
_CORE = ("numpy", "scipy", "randomgen", "pyarrow", "narwhals", "typer", "rich")
#: How often a speed is measured.
ROUNDS = 3


@with_bundles
def doctor() -> Answer:
    """Report what is installed, which extras work, and how fast this machine is.

    It repeats the self-tests that every release makes before its first random number: the
    cipher on vectors of FIPS 197 and SP 800-38A, the inverse tails of the noise against exact
    enclosures, one account against its closed form, and a ledger in a temporary file. If one
    fails, only its name is printed, and the exit status is 3.

    Example: mustdp doctor --json
    """
    with progress("testing"):
        tests = {name: _outcome(test) for name, test in _TESTS.items()}
        failed = [f"{name}: {said}" for name, said in tests.items() if said.startswith("failed")]
        if failed:
            raise NumericalFailure("; ".join(failed))
        extras = {
            extra: {"for": purpose, **_imported(packages)}
            for extra, (purpose, packages) in EXTRAS.items()
        }
        speeds = {name: measure() for name, measure in _SPEEDS.items()}
    data: dict[str, Any] = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "packages": {name: version_of(name) for name in _CORE},
        "self_tests": tests,
        "extras": extras,
        "speed": speeds,
    }
    lines = [f"self-test, {name}: {said}" for name, said in tests.items()]
    lines += [
        f"extra {name} ({found['for']}): {_in_words(found)}" for name, found in extras.items()
    ]
    lines += [f"{name}: {speed:.3g}" for name, speed in speeds.items()]
    if not all(found["works"] for found in extras.values()):
        lines.append('pip install ".[NAME]" in the folder of mustdp installs a missing extra.')
    return Answer(
        data,
        heading=f"mustdp {__version__}, Python {data['python']}, {data['platform']}, "
        f"{data['processors']} processors\n"
        + ", ".join(f"{name} {found}" for name, found in data["packages"].items()),
        note="\n".join(lines),
    )


def _outcome(test: Callable[[], None]) -> str:
    """ "passed", "not here" with the reason, or "failed" with the reason, in one line."""
    try:
        test()
    except InvalidParameter as refused:  # the system lacks what the feature needs
        return f"not here: {refused}"
    except (MustdpError, ArithmeticError, OSError) as problem:
        return f"failed: {problem}"
    return "passed"


def _cipher() -> None:
    """Once more: what an earlier call in this process found is not asked for."""
    from mustdp.randomness.keys import check_cipher

    check_cipher.__wrapped__()


def _normal_quantiles() -> None:
    from mustdp.noise.exact import GAUSSIAN, check_arithmetic

    check_arithmetic.__wrapped__(GAUSSIAN)


def _logarithms() -> None:
    from mustdp.noise.exact import LAPLACE, check_arithmetic

    check_arithmetic.__wrapped__(LAPLACE)


#: Epsilon of one Gaussian release with noise multiplier 2 at delta 1e-5, to 15 digits: the closed
#: form of Balle & Wang (arXiv 1805.06530v2, Theorem 8), solved with mpmath.
_ONE_RELEASE = 1.99309140441512


def _account() -> None:
    import mustdp as md

    one = md.account(md.gaussian(noise_multiplier=2), relation="add_remove")
    bounds = one.epsilon(delta=1e-5)
    if not bounds.lower <= _ONE_RELEASE <= bounds.upper <= _ONE_RELEASE * 1.001:
        raise NumericalFailure(f"a Gaussian release costs {_ONE_RELEASE}, not {bounds}")


def _ledger() -> None:
    import mustdp as md

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "doctor.ledger"
        with md.Ledger.open(path, epsilon=1, delta=1e-6) as ledger:
            ledger.charge(md.laplace(shift=0.5))
            ledger.verify()


_TESTS = {
    "cipher of the random generator": _cipher,
    "normal quantiles": _normal_quantiles,
    "logarithms": _logarithms,
    "an account against its closed form": _account,
    "a ledger in a file": _ledger,
}


def _imported(packages: tuple[str, ...]) -> dict[str, Any]:
    """Whether the packages can be imported, with their versions."""
    import importlib

    found: dict[str, Any] = {"works": True, "packages": {}}
    for name in packages:
        try:
            importlib.import_module(name)
            found["packages"][name] = version_of(name)
        except ImportError as problem:
            missing = isinstance(problem, ModuleNotFoundError) and problem.name == name
            found["packages"][name] = None if missing else f"cannot be imported: {problem}"
            found["works"] = False
    return found


def _in_words(found: dict[str, Any]) -> str:
    said = ", ".join(
        f"{name} {version}" if version else f"{name} is not installed"
        for name, version in found["packages"].items()
    )
    return f"works ({said})" if found["works"] else said


def _per_second(work: Callable[[], Any], amount: int) -> float:
    """The best of a few rounds, as other programs may run."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return amount / min(times)


def _noise_speed() -> float:
    from mustdp.noise.exact import GAUSSIAN, exact_noise
    from mustdp.randomness.keys import NoiseSource

    return _per_second(lambda: exact_noise(GAUSSIAN, 1000.0, 200_000, NoiseSource()), 200_000)


def _account_speed() -> float:
    import mustdp as md

    plan = md.repeat(1000, md.subsample(md.wor(60_000, 256), md.gaussian(noise_multiplier=1.5)))
    return _per_second(lambda: md.account(plan, composition="pair").epsilon(delta=1e-5), 1)


def _release_speed() -> float:
    import numpy as np

    import mustdp as md

    ages = np.linspace(0, 100, 200_000)

    def release() -> None:
        md.private_release(ages, "mean", lower=0, upper=100, epsilon=1, delta=1e-6)

    return _per_second(release, 200_000)


_SPEEDS = {
    "exact noise, values per second": _noise_speed,
    "accounts of fixed-size batches, per second": _account_speed,
    "releases of a mean, records per second": _release_speed,
}
