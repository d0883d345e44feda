"""Seconds and bytes of the accountant: against its peers and against its own targets, in one run.

    python benchmarks/accountant.py            tables
    python benchmarks/accountant.py --json     one JSON object
    python benchmarks/accountant.py --only must --only growth     some sections

Peers: dp-accounting (privacy loss distributions at spacing 1e-4), prv-accountant (+-0.01) and
Opacus (its own PRV accountant, +-0.01). A peer that is not installed is left out by name. Every
question is put to a new account with the caches of the package emptied, after one warm-up.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import mustdp as md

DELTA = 1e-5
#: (rate, noise multiplier, steps) of Poisson sampling under add_remove.
POISSON = ((0.01, 1.0, 1000), (0.001, 0.8, 10**4), (256 / 60_000, 1.1, 14_063), (0.02, 4.0, 1000))
STEPS = (10**3, 10**4, 10**5, 10**6)
REPEATS = 7
#: Records; Poisson accounts do not depend on it.
RECORDS = 60_000

Task = Callable[[], Any]
Report = Callable[[str], None]


@dataclass(frozen=True)
class Figure:
    """One number with what it should be; the value is None where it could not be measured."""

    name: str
    value: float | None
    target: float
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def described(self) -> dict[str, Any]:
        sign = ">=" if self.at_least else "<="
        target = f"{sign} {self.target:g}"
        return {"figure": self.name, "value": self.value, "target": target, "met": self.met}


@dataclass(frozen=True)
class Timed:
    """Seconds of every repeat of one task, by the clock and of this process, and its answer."""

    seconds: tuple[float, ...]
    cpu: tuple[float, ...]
    answer: Any

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def over(self, other: Timed) -> float:
        """Median ratio of repeats that were measured in turn."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        return statistics.median(mine / its for mine, its in pairs)

    def described(self) -> dict[str, float]:
        middle = statistics.median(self.cpu)
        return {"seconds": self.median, "fastest": min(self.seconds), "cpu_seconds": middle}


def in_turn(tasks: dict[str, Task], repeats: int = REPEATS) -> dict[str, Timed]:
    """Time the tasks one after the other, again and again, so that a busy machine slows all."""
    answers = {name: task() for name, task in tasks.items()}
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    cpu: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            forget()
            start, started = time.perf_counter(), time.process_time()
            task()
            seconds[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - started)
    return {name: Timed(tuple(seconds[name]), tuple(cpu[name]), answers[name]) for name in tasks}


def forget() -> None:
    """Empty every cache of the package, so that no repeat profits from the one before."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mustdp."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def accounted(scheme: md.types.Scheme, noise_multiplier: float, steps: int) -> md.types.Account:
    """One pair per step, whose cost is followed here; families have a section of their own."""
    noise = md.gaussian(noise_multiplier=noise_multiplier)
    plan = md.repeat(steps, md.subsample(scheme, noise))
    return md.account(plan, composition="pair")


def spent(make: Callable[[], md.types.Scheme], noise_multiplier: float, steps: int) -> md.Bounds:
    """Both bounds of epsilon, from the making of the scheme on."""
    return accounted(make(), noise_multiplier, steps).epsilon(DELTA)


def spent_and_failing(make: Callable[[], md.types.Scheme], z: float, steps: int) -> list[md.Bounds]:
    """Both bounds of epsilon at delta = 1e-5 and of delta at epsilon = 1."""
    account = accounted(make(), z, steps)
    return [account.epsilon(DELTA), account.delta(1.0)]


def dp_accounting_epsilon(module: Any, rate: float, z: float, steps: int) -> float:
    one = module.from_gaussian_mechanism(z, value_discretization_interval=1e-4, sampling_prob=rate)
    return float(one.self_compose(steps).get_epsilon_for_delta(DELTA))


def prv_epsilon(module: Any, rate: float, z: float, steps: int) -> list[float]:
    step = module.PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=z)
    composed = module.PRVAccountant(
        step, max_self_compositions=steps, eps_error=0.01, delta_error=DELTA / 1000
    )
    lower, _, upper = composed.compute_epsilon(DELTA, steps)
    return [float(lower), float(upper)]


def opacus_epsilon(module: Any, rate: float, z: float, steps: int) -> float:
    accountant = module.PRVAccountant()
    accountant.history = [(z, rate, steps)]
    with warnings.catch_warnings(action="ignore"):  # about the Renyi orders of its first guess
        return float(accountant.get_epsilon(DELTA, eps_error=0.01))


#: Name, module and function of every peer.
PEERS: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("dp-accounting", "dp_accounting.pld.privacy_loss_distribution", dp_accounting_epsilon),
    ("prv-accountant", "prv_accountant", prv_epsilon),
    ("opacus", "opacus.accountants", opacus_epsilon),
)


def imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def poisson_rows(report: Report) -> tuple[list[dict[str, Any]], list[Figure]]:
    """The four Poisson settings, ours and the peers' in turn."""
    rows, figures = [], []
    for rate, z, steps in POISSON:
        label = f"poisson q={rate:.4g} z={z:g} k={steps}"
        report(label)
        tasks: dict[str, Task] = {
            "ours": partial(spent, partial(md.poisson, RECORDS, rate), z, steps)
        }
        for peer, home, epsilon in PEERS:
            module = imported(home)
            if module is not None:
                tasks[peer] = partial(epsilon, module, rate, z, steps)
        timed = in_turn(tasks)
        ours = timed.pop("ours")
        bounds: md.Bounds = ours.answer
        width = (bounds.upper - bounds.lower) / bounds.upper
        over, speedup = None, None
        if "dp-accounting" in timed:
            over = ours.over(timed["dp-accounting"])
        if "prv-accountant" in timed:
            speedup = timed["prv-accountant"].over(ours)
        rows.append(
            {
                "setting": label,
                "lower": bounds.lower,
                "upper": bounds.upper,
                "relative_width": width,
                **ours.described(),
                "over_dp_accounting": over,
                "speedup_over_prv": speedup,
                "peers": {n: {"epsilon": t.answer, **t.described()} for n, t in timed.items()},
            }
        )
        figures += [
            Figure(f"{label}: relative_width", width, 1e-3),
            Figure(f"{label}: over_dp_accounting", over, 1.0),
            Figure(f"{label}: speedup_over_prv", speedup, 3.0, at_least=True),
        ]
    return rows, figures


def interval(bounds: md.Bounds) -> dict[str, float]:
    return {"lower": bounds.lower, "upper": bounds.upper}


def large_ow() -> md.types.Scheme:
    return md.must_ow(60_000, 3000, 2000)


def large_ww() -> md.types.Scheme:
    return md.must_ww(60_000, 3000, 2000)


def must_rows(report: Report) -> tuple[list[dict[str, Any]], list[Figure]]:
    """Accounts that no peer can give."""
    small_ow, small_ww = (partial(make, 10_000, 118, 200) for make in (md.must_ow, md.must_ww))
    settings = (
        ("must-ow(10000, 118, 200) z=4 k=1000", small_ow, 4.0, 1000, 1.0),
        ("must-ww(10000, 118, 200) z=4 k=1000", small_ww, 4.0, 1000, 3.0),
        ("must-ow(60000, 3000, 2000) z=10 k=1e5", large_ow, 10.0, 10**5, 5.0),
    )
    rows, figures = [], []
    for label, make, z, steps, target in settings:
        report(label)
        timed = in_turn({label: partial(spent_and_failing, make, z, steps)})[label]
        epsilon, delta = map(interval, timed.answer)
        rows.append({"setting": label, "epsilon": epsilon, "delta": delta, **timed.described()})
        figures.append(Figure(f"{label}: seconds", timed.median, target))
    return rows, figures


#: Fixed-size batches under replace_one: scheme, noise, steps, composition, the upper bound and the
#: seconds that are allowed, and the dimension of a release where it is one number.
FAMILIES: tuple[
    tuple[Callable[[], md.types.Scheme], float, int, str, float, float, int | None], ...
] = (
    (partial(md.wor, 60_000, 2000), 3.117, 300, "auto", 1.77, 2.0, None),
    (partial(md.wor, 60_000, 2000), 3.117, 300, "family", 1.760, 5.0, None),
    (partial(md.wor, 60_000, 256), 1.6, 14_063, "family", 4.70, 20.0, None),
    (partial(md.wr, 60_000, 2000), 3.153, 300, "family", 1.80, 8.0, None),
    (large_ow, 4.283, 300, "family", 1.94, 12.0, None),
    (partial(md.must_ow, 10_000, 118, 200), 4.0, 1000, "family", 9.53, 20.0, None),
    (partial(md.wor, 60_000, 2000), 3.117, 300, "auto", 1.7589, 3.0, 1),
    (partial(md.wor, 60_000, 256), 1.6, 10**6, "auto", 104.95, 15.0, None),
    (partial(md.wor, 50_000, 120), 6.0, 104_166, "auto", 1.118, 15.0, None),
)


def family_rows(report: Report) -> tuple[list[dict[str, Any]], list[Figure]]:
    """The worst of a family chosen in every step, against the bounds it is to reach."""
    rows, figures = [], []
    for make, z, steps, composition, most, seconds, dimension in FAMILIES:
        scheme = make()
        label = f"{scheme.name} eta={scheme.eta:.4g} z={z:g} k={steps}, {composition}"
        label += "" if dimension is None else f", dimension {dimension}"
        report(label)

        def ask(
            scheme: md.types.Scheme = scheme, z: float = z, steps: int = steps,
            composition: str = composition, dimension: int | None = dimension,
        ) -> tuple[md.Bounds, str]:  # fmt: skip
            plan = md.repeat(steps, md.subsample(scheme, md.gaussian(noise_multiplier=z)))
            account = md.account(plan, composition=composition, dimension=dimension)
            return account.epsilon(DELTA), account.composition

        timed = in_turn({label: ask}, repeats=1)[label]
        bounds, composed = timed.answer
        rows.append(
            {"setting": label, **interval(bounds), "composition": composed, **timed.described()}
        )
        figures += [
            Figure(f"{label}: upper", bounds.upper, most),
            Figure(f"{label}: seconds", timed.median, seconds),
        ]
    return rows, figures


#: Plans whose cost is followed as their steps grow.
GROWING: dict[str, Callable[[int], object]] = {
    "poisson q=0.001 z=0.8": partial(spent, partial(md.poisson, RECORDS, 0.001), 0.8),
    "must-ow(60000, 3000, 2000) z=10": partial(spent, large_ow, 10.0),
}


def growth(report: Report) -> tuple[list[dict[str, Any]], list[Figure]]:
    """How seconds and memory grow with the number of steps, at the same relative accuracy."""
    rows: list[dict[str, Any]] = []
    figures: list[Figure] = []
    idle = peak_in_new_process("nothing", 0)
    for label, answer in GROWING.items():
        report(f"growth of {label}")
        timed = in_turn({str(k): partial(answer, k) for k in STEPS}, repeats=5)
        seconds = [timed[str(k)].median for k in STEPS]
        peaks = [peak_in_new_process(label, k) for k in STEPS]
        extra = [max(peak - idle, 2**20) for peak in peaks]
        for k, peak in zip(STEPS, peaks, strict=True):
            row = {"setting": f"{label} k={k}", "epsilon": interval(timed[str(k)].answer)}
            rows.append({**row, **timed[str(k)].described(), "peak_mib": peak / 2**20})
        figures += [
            Figure(f"{label}: exponent of seconds in steps", exponent(seconds), 0.5),
            Figure(f"{label}: exponent of memory in steps", exponent(extra), 0.5),
        ]
        if label.startswith("must-ow"):
            gib = peaks[STEPS.index(10**5)] / 2**30
            figures.append(Figure(f"{label} k=1e5: peak GiB of its process", gib, 1.0))
    rows.append({"setting": "imports alone", "peak_mib": idle / 2**20})
    return rows, figures


def exponent(values: list[float]) -> float:
    """Slope of the least-squares line through the logarithms."""
    return float(np.polyfit(np.log(STEPS), np.log(values), 1)[0])


def peak_in_new_process(label: str, steps: int) -> float:
    """Most resident memory, in bytes, of a new interpreter that answers one question."""
    command = [sys.executable, __file__, "--peak", label, str(steps)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def peak_of(label: str, steps: int) -> float:
    """Answer, then say how much memory this process held at most.

    The kernel's mark of the address space (VmHWM) is read where there is one: ru_maxrss of a
    child starts at what its parent held when it was forked.
    """
    importlib.import_module("mustdp.accounting.account")
    if label in GROWING:
        GROWING[label](steps)
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return 1024.0 * float(fields["VmHWM"].split()[0])
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def calibrations(report: Report) -> tuple[list[dict[str, Any]], list[Figure]]:
    """Noise for a target; dp-accounting's root search beside the Poisson one."""
    report("calibration")

    def ours(make: Callable[[], md.types.Scheme], epsilon: float, steps: int) -> float:
        found = md.calibrate(make(), epsilon=epsilon, delta=DELTA, steps=steps)
        return found.noise_multiplier

    def one(make: Callable[[], md.types.Scheme], z: float, steps: int) -> md.Bounds:
        plan = md.repeat(steps, md.subsample(make(), md.gaussian(noise_multiplier=z)))
        return md.account(plan).epsilon(DELTA)

    two_stage = "must-ow(60000, 3000, 2000) epsilon=2 k=300"
    plain = "wor(60000, 2000) epsilon=2 k=300"
    poisson = "poisson q=0.01 epsilon=1 k=1000"
    large_wor = partial(md.wor, 60_000, 2000)
    tasks: dict[str, Task] = {
        two_stage: partial(ours, large_ow, 2.0, 300),
        f"{two_stage}, one account": partial(one, large_ow, 4.243, 300),
        plain: partial(ours, large_wor, 2.0, 300),
        f"{plain}, one account": partial(one, large_wor, 2.868, 300),
        poisson: partial(ours, partial(md.poisson, RECORDS, 0.01), 1.0, 1000),
    }
    peer = f"{poisson}, dp-accounting"
    module, losses = imported("dp_accounting"), imported("dp_accounting.pld")
    if module is not None and losses is not None:
        tasks[peer] = partial(dp_accounting_noise, module, losses)
    timed = in_turn(tasks, repeats=3)
    rows = [
        {"setting": name, "noise_multiplier": t.answer, **t.described()}
        for name, t in timed.items()
        if not isinstance(t.answer, md.Bounds)
    ]
    repeated = [
        Figure(f"calibrate {name}: over one account", timed[name].over(timed[account]), 6.0)
        for name in (two_stage, plain)
        for account in (f"{name}, one account",)
    ]
    over = timed[poisson].over(timed[peer]) if peer in timed else None
    return rows, [
        Figure(f"calibrate {two_stage}: seconds", timed[two_stage].median, 10.0),
        Figure(f"calibrate {poisson}: over_dp_accounting", over, 1.0),
        *repeated,
    ]


def dp_accounting_noise(module: Any, losses: Any) -> float:
    """Noise multiplier by dp-accounting's own search, to about the tolerance of ours."""

    def accountant() -> Any:
        return losses.PLDAccountant(module.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-4)

    def event(z: float) -> Any:
        step = module.PoissonSampledDpEvent(0.01, module.GaussianDpEvent(z))
        return module.SelfComposedDpEvent(step, 1000)

    return float(module.calibrate_dp_mechanism(accountant, event, 1.0, DELTA, tol=1e-3))


def certificates(report: Report) -> tuple[list[dict[str, Any]], list[Figure]]:
    """One-step bounds of both sides at 500 values of alpha from 1.001 to 1001."""
    report("one step")
    epsilon = np.log1p(np.geomspace(1e-3, 1e3, 500))
    rows, figures = [], []
    for name, make, target in (("must-ow", large_ow, 0.3), ("must-ww", large_ww, 1.0)):
        label = f"one step of {name}(60000, 3000, 2000)"
        tasks: dict[str, Task] = {
            str(z): partial(one_step, make, z, epsilon) for z in (1.0, 4.0, 10.0)
        }
        timed = in_turn(tasks)
        rows += [{"setting": f"{label} z={z}", **t.described()} for z, t in timed.items()]
        slowest = max(t.median for t in timed.values())
        figures.append(Figure(f"{label}, 500 alphas: seconds", slowest, target))
    return rows, figures


def one_step(make: Callable[[], md.types.Scheme], z: float, epsilon: Any) -> float:
    return float(md.one_step(make(), md.gaussian(noise_multiplier=z), epsilon).upper[0])


def imports(report: Report) -> tuple[list[dict[str, Any]], list[Figure]]:
    """Fresh interpreters in turn: with nothing, numpy, the package, and all an account needs."""
    report("imports")
    programs = {
        "nothing": "pass",
        "numpy": "import numpy",
        "mustdp": "import mustdp",
        "mustdp with all an account needs": "import mustdp; mustdp.account",
    }
    timed = in_turn({name: partial(interpret, text) for name, text in programs.items()}, 11)
    pairs = zip(timed["mustdp"].seconds, timed["numpy"].seconds, strict=True)
    more = statistics.median(ours - plain for ours, plain in pairs)
    figures = [Figure("import mustdp: seconds more than import numpy", more, 0.3)]
    rows = [
        {"setting": f"interpreter with {name}", "seconds": t.median, "fastest": min(t.seconds)}
        for name, t in timed.items()
    ]
    return rows, figures


def interpret(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True)


#: What can be measured, each on its own or all in this order.
SECTIONS: dict[str, Callable[[Report], tuple[list[dict[str, Any]], list[Figure]]]] = {
    "poisson": poisson_rows,
    "must": must_rows,
    "family": family_rows,
    "growth": growth,
    "calibration": calibrations,
    "one_step": certificates,
    "imports": imports,
}


def measure(sections: list[str], report: Report) -> dict[str, Any]:
    """The figures of the sections asked for, as plain values."""
    parts = {name: SECTIONS[name](report) for name in SECTIONS if name in sections}
    missing = [f"{peer} is not installed" for peer, home, _ in PEERS if imported(home) is None]
    return {
        "versions": versions(),
        "threads": os.environ.get("OMP_NUM_THREADS", "not set"),
        "left_out": missing,
        **{name: rows for name, (rows, _) in parts.items()},
        "figures": [figure.described() for _, found in parts.values() for figure in found],
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("mustdp", "numpy", "scipy", "dp-accounting", "prv-accountant", "opacus"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def show(measured: dict[str, Any]) -> None:
    """Print the tables."""
    console = Console()
    peers = [peer for peer, _, _ in PEERS]
    table = Table("", "lower", "upper", "ours", *peers, title="Epsilon at delta 1e-5, and seconds")
    for row in measured.get("poisson", []):
        theirs = (row["peers"].get(peer, {}).get("seconds") for peer in peers)
        values = (row["lower"], row["upper"], row["seconds"], *theirs)
        table.add_row(row["setting"], *map(shown, values))
    if table.row_count:
        console.print(table)
    for title in SECTIONS:
        for row in measured.get(title, []) if title != "poisson" else []:
            console.print(", ".join(f"{k} {shown(v)}" for k, v in row.items()), highlight=False)
    table = Table("figure", "value", "target", "met", title="Targets")
    words = {True: "yes", False: "NO", None: "-"}
    for row in measured["figures"]:
        table.add_row(row["figure"], shown(row["value"]), row["target"], words[row["met"]])
    console.print(table)
    for line in measured["left_out"]:
        console.print(line)
    console.print(", ".join(f"{name} {version}" for name, version in measured["versions"].items()))


def shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"[{value['lower']:.4g}, {value['upper']:.4g}]"
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object and no table")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="measure this section")
    parser.add_argument("--peak", nargs=2, metavar=("PLAN", "STEPS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print(peak_of(arguments.peak[0], int(arguments.peak[1])))
        return

    def report(step: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{step}", end="", file=sys.stderr, flush=True)

    measured = measure(arguments.only or list(SECTIONS), report)
    report("")
    if arguments.json:
        print(json.dumps(measured))
    else:
        show(measured)


if __name__ == "__main__":
    main()
