"""Seconds and peak memory of taking drawn rows from a Parquet file that need not fit into memory.

    python benchmarks/parquet.py                       10 million rows, a table
    python benchmarks/parquet.py --rows 100000000      more of them
    python benchmarks/parquet.py --keep DIR            the file stays in DIR and is used again
    python benchmarks/parquet.py --json                one JSON object

The file has two columns of doubles, x from a gamma law and y on a line through x, in row groups of
a million. 10,000 of its rows are drawn without replacement and taken, 20 times, both columns. The
peer loads the file with pandas.read_parquet first and takes the same rows. Each side, and an
interpreter that only imports what ours does, runs in a process of its own that only reads. One
more side is a whole private bootstrap of x on the file, another one release on all of its rows.
``--only SIDE`` runs one side, ours among them under its name in the table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mustdp.data.opening import open_source

ROWS_OF_A_GROUP = 10**6
DRAWN = 10_000
DRAWS = 20
COLUMNS = ["x", "y"]
SEED = 2312


def write(path: Path, rows: int, report: Callable[[str], None]) -> None:
    """Write the file, chunk by chunk, under another name until it is whole."""
    pyarrow, parquet = (
        importlib.import_module("pyarrow"),
        importlib.import_module("pyarrow.parquet"),
    )
    rng = np.random.default_rng(SEED)
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in COLUMNS])
    part = path.with_name(f".{path.name}.part")
    try:
        with parquet.ParquetWriter(part, schema) as writer:
            for start in range(0, rows, ROWS_OF_A_GROUP):
                report(f"writing row {start:,}")
                count = min(ROWS_OF_A_GROUP, rows - start)
                x = rng.gamma(2.0, 2.0, count)
                y = 1.0 + 0.5 * x + rng.standard_normal(count)
                table = pyarrow.table([x, y], schema=schema)
                writer.write_table(table, row_group_size=ROWS_OF_A_GROUP)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def ours(path: str) -> dict[str, float]:
    return timed(lambda: open_source(path, COLUMNS), lambda source, rows: source.take(rows))


def pandas(path: str) -> dict[str, float]:
    read = importlib.import_module("pandas").read_parquet
    return timed(
        lambda: read(path, columns=COLUMNS), lambda frame, rows: frame.iloc[rows].to_numpy()
    )


def bootstrap(path: str) -> dict[str, float]:
    """A whole private bootstrap in one process: 50 subsets of 10,000, epsilon 1."""
    private_bootstrap = importlib.import_module("mustdp").private_bootstrap
    start = time.perf_counter()
    source = open_source(path, ["x"])
    opened = time.perf_counter() - start
    scheme = importlib.import_module("mustdp").wor(source.n, min(DRAWN, source.n // 10))
    result = private_bootstrap(
        source,
        "mean",
        lower=0,
        upper=40,
        design=scheme,
        replicates=50,
        epsilon=1.0,
        delta=1e-9,
        execution=importlib.import_module("mustdp.types").Execution(workers=1),
    )
    whole = time.perf_counter() - start
    return {"open_s": opened, "whole_s": whole, "mean_x": result.estimate}


def release(path: str) -> dict[str, float]:
    """Count, mean, sd and median of both columns, and their correlation, on all rows: epsilon 1."""
    private_release = importlib.import_module("mustdp").private_release
    start = time.perf_counter()
    result = private_release(
        path,
        ["count", "mean", "sd", "median", "correlation"],
        columns=COLUMNS,
        lower=[0.0, -5.0],
        upper=[40.0, 30.0],
        relation="add_remove",
        epsilon=1.0,
        delta=1e-9,
    )
    whole = time.perf_counter() - start
    return {"whole_s": whole, "mean_x": result["mean x"].value, "count": result["count"].value}


def imports(path: str) -> dict[str, float]:
    importlib.import_module("pyarrow.parquet")
    return {}


def timed(
    opening: Callable[[], Any], take: Callable[[Any, np.ndarray[Any, Any]], Any]
) -> dict[str, float]:
    """Seconds to open, seconds per take (the mean of all), and a mean that both sides share."""
    start = time.perf_counter()
    records = opening()
    opened = time.perf_counter() - start
    n = records.n if hasattr(records, "n") else len(records)
    rng, took, means = np.random.default_rng(SEED), 0.0, []
    for _ in range(DRAWS):
        rows = rng.choice(n, min(DRAWN, n), replace=False)
        start = time.perf_counter()
        values = take(records, rows)
        took += time.perf_counter() - start
        means.append(values[:, 0].mean())
    return {"open_s": opened, "take_s": took / DRAWS, "mean_x": float(np.mean(means))}


SIDES: dict[str, Callable[[str], dict[str, float]]] = {
    "ours": ours,
    "a private bootstrap": bootstrap,
    "one release": release,
    "pandas.read_parquet": pandas,
    "imports alone": imports,
}


def peak() -> float:
    """Most resident memory of this process, in bytes.

    The kernel's mark of the address space (VmHWM) is read where there is one: ru_maxrss of a child
    starts at what its parent held when it was forked.
    """
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return 1024.0 * float(fields["VmHWM"].split()[0])
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_new_process(side: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--side", side, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines()
        return {"side": side, "left_out": reason[-1] if reason else f"status {done.returncode}"}
    return {"side": side, **json.loads(done.stdout)}


def measure(
    folder: Path, rows: int, only: str | None, report: Callable[[str], None]
) -> dict[str, Any]:
    path = folder / f"rows-{rows}.parquet"
    if not path.exists():
        write(path, rows, report)
    figures: dict[str, Any] = {
        "rows": rows,
        "drawn": min(DRAWN, rows),
        "draws": DRAWS,
        "file_bytes": path.stat().st_size,
    }
    sides = []
    for side in SIDES if only is None else (only,):
        report(side)
        sides.append(in_new_process(side, path))
    return {
        **figures,
        "peak_over_file": sides[0].get("peak_bytes", math.nan) / figures["file_bytes"],
        "sides": sides,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("mustdp", "numpy", "pyarrow", "pandas"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def show(figures: dict[str, Any]) -> None:
    table = Table(
        "",
        "open, s",
        "take, s",
        "whole, s",
        "peak, MiB",
        title=f"{figures['drawn']:,} of {figures['rows']:,} rows, {figures['draws']} times; "
        f"a file of {figures['file_bytes'] / 2**20:,.0f} MiB",
    )
    console = Console()
    for row in figures["sides"]:
        if "left_out" in row:
            console.print(f"{row['side']} left out: {row['left_out']}")
            continue
        seconds = [
            f"{row[key]:.4f}" if key in row else "" for key in ("open_s", "take_s", "whole_s")
        ]
        table.add_row(row["side"], *seconds, f"{row['peak_bytes'] / 2**20:,.0f}")
    console.print(table)
    console.print(", ".join(f"{name} {version}" for name, version in figures["versions"].items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10**7, help="rows of the file")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="where the file is, and stays")
    parser.add_argument("--only", choices=tuple(SIDES), help="one side")
    parser.add_argument("--json", action="store_true", help="print one JSON object and no table")
    parser.add_argument("--side", nargs=2, metavar=("SIDE", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        side, file = arguments.side
        answer = SIDES[side](file)
        print(json.dumps({**answer, "peak_bytes": peak()}))
        return
    if arguments.rows < 1:
        parser.error(f"--rows must be at least 1, got {arguments.rows}")

    def report(step: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{step}", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        figures = measure(folder, arguments.rows, arguments.only, report)
    report("")
    if arguments.json:
        print(json.dumps(figures))
    else:
        show(figures)


if __name__ == "__main__":
    main()
