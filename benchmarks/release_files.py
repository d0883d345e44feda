"""One release from a file that is read here, beside one of the same file read by DuckDB.

    python benchmarks/release_files.py [--rows 1e7] [--rounds 2] [--folder DIR] [--json]

Both give the same bits. Processor seconds and seconds by the clock, the least of some rounds that
take turns. The peak is that of a process of its own for each way.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FORMS = {
    "CSV": "rows.csv",
    "CSV with quotation marks": "quoted.csv",
    "Parquet": "rows.parquet",
}
ARGUMENTS: dict[str, Any] = {
    "columns": ["age", "income"],
    "lower": 0,
    "upper": {"age": 100, "income": 100_000},
    "noise_multiplier": 5,
    "delta": 1e-9,
    "by": "town",
    "groups": ["a", "b", "c"],
}


def make(folder: Path, rows: int) -> None:
    """By DuckDB, from hashes of the number of a row."""
    import duckdb

    records = f"""SELECT round((hash(i) % 1200000) / 10000.0, 2) AS age,
        hash(i + 1) % 120000 AS income, chr(CAST(97 + hash(i + 2) % 5 AS INTEGER)) AS town
        FROM range({rows}) AS t(i)"""
    for name, how in (
        ("rows.csv", "HEADER"),
        ("quoted.csv", "HEADER, FORCE_QUOTE (town)"),
        ("rows.parquet", "FORMAT parquet"),
    ):
        duckdb.execute(f"COPY ({records}) TO '{folder / name}' ({how})")


def one(source: str) -> dict[str, float]:
    """A release in this process."""
    import mustdp as md

    begun = time.process_time(), time.perf_counter()
    md.private_release(source, ["mean", "count"], **ARGUMENTS)
    return {
        "cpu_s": time.process_time() - begun[0],
        "clock_s": time.perf_counter() - begun[1],
        "peak_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measured(source: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--one", source], capture_output=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", help="where the files are made")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(one(chosen.one)))
        return
    rows = []
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        folder = Path(name)
        make(folder, int(chosen.rows))
        for form, file in FORMS.items():
            size = (folder / file).stat().st_size / 2**20
            ways: dict[str, list[dict[str, float]]] = {"here": [], "duckdb": []}
            for _ in range(chosen.rounds):
                ways["here"].append(measured(str(folder / file)))
                ways["duckdb"].append(measured(f"duckdb::{folder / file}"))
            for way, found in ways.items():
                least = {key: min(each[key] for each in found) for key in found[0]}
                rows.append({"form": form, "MiB": round(size), "by": way, **least})
                if not chosen.json:
                    print(rows[-1], flush=True)
    if chosen.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
