"""Examples of hypothesis are the same in every run, so that a failure can be repeated by everyone.

Modules that need an extra are left out of the doctests where the extra is not installed. With
``--within SECONDS``, tests that have not begun by then are skipped. What was skipped is counted at
the end, by reason: without a browser or Spark, the tests that need one were not tried.

Collecting makes some 800,000 objects that stay until the end. Python's garbage collector would go
through them again and again, which takes a third of the time of collecting; it is told not to.
"""

from __future__ import annotations

import gc
import math
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings

STARTED = time.monotonic()
gc.disable()  # until everything is collected

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")

collect_ignore_glob: list[str] = []
if find_spec("torch") is None:
    collect_ignore_glob += ["src/mustdp/training/networks/*", "src/mustdp/interop/opacus.py"]
elif find_spec("opacus") is None:
    collect_ignore_glob.append("src/mustdp/interop/opacus.py")
if find_spec("triton") is None:
    collect_ignore_glob.append("src/mustdp/training/networks/kernels.py")
for _package, _bridge in (
    ("dp_accounting", "dp_accounting"),
    ("jax_privacy", "jax_privacy"),
    ("opendp", "opendp"),
    ("flwr", "flower"),
    ("yaml", "deployments"),
):
    if find_spec(_package) is None:
        collect_ignore_glob.append(f"src/mustdp/interop/{_bridge}.py")
if find_spec("sklearn") is None:
    collect_ignore_glob.append("src/mustdp/training/linear/*")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the quick lane end in time."""
    parser.addoption(
        "--within",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="skip tests that have not begun after this many seconds",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip before the test's fixtures are made."""
    if not time.monotonic() - STARTED < item.config.getoption("--within"):
        pytest.skip("no time left (--within); run without it for all")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: TerminalReporter) -> Iterator[None]:
    """Say what was not tried here, after everything else."""
    yield
    skipped = terminalreporter.getreports("skipped")
    reasons = Counter(one.longrepr[2] for one in skipped if isinstance(one.longrepr, tuple))
    if reasons:
        terminalreporter.section("not tried here", sep="-")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:>6}  {reason.removeprefix('Skipped: ')}")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the garbage collector look at what the tests make, and at nothing older."""
    gc.collect()
    gc.freeze()
    gc.enable()
