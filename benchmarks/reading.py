"""Seconds and peak memory of one pass over all records of CSV and Parquet files.

    python benchmarks/reading.py                    10 million rows, a table
    python benchmarks/reading.py --rows 1000000     fewer of them
    python benchmarks/reading.py --keep DIR         the files stay in DIR and are used again
    python benchmarks/reading.py --json             one JSON object

The file has two columns of doubles, one of integers and one of categories; the CSV file is written
once without quotation marks and once with them around texts. Ours reads a column of doubles, the
integers and the categories as a release does, with every check. The peers are pyarrow's own
streaming readers and DuckDB, which check nothing and leave the categories as texts. Each side runs
in a process of its own with one thread. ``ratio`` is our time over that of pyarrow.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROWS_OF_A_PART = 500_000
COLUMNS = ["x", "k", "region"]
REGIONS = ("north", "south", "east", "west")
FILES = ("plain.csv", "quoted.csv", "table.parquet")
SEED = 2312


def write(folder: Path, rows: int) -> None:
    """Write the three files, some rows at a time."""
    pa, csv, parquet = (
        importlib.import_module(name) for name in ("pyarrow", "pyarrow.csv", "pyarrow.parquet")
    )
    rng = np.random.default_rng(SEED)
    schema = pa.schema(
        [("x", pa.float64()), ("y", pa.float64()), ("k", pa.int64()), ("region", pa.string())]
    )
    plain, quoted, table = (folder / name for name in FILES)
    with (
        csv.CSVWriter(plain, schema, write_options=csv.WriteOptions(quoting_style="none")) as first,
        csv.CSVWriter(quoted, schema) as second,
        parquet.ParquetWriter(table, schema) as third,
    ):
        for start in range(0, rows, ROWS_OF_A_PART):
            count = min(ROWS_OF_A_PART, rows - start)
            x = np.round(rng.gamma(2.0, 2.0, count), 6)
            y = 1.0 + 0.5 * x + rng.standard_normal(count)
            region = np.array(REGIONS)[rng.integers(0, 4, count)]
            part = pa.table([x, y, rng.integers(0, 10**6, count), region.tolist()], schema=schema)
            for writer in (first, second, third):
                writer.write_table(part)


def ours(path: str) -> Iterator[tuple[int, float]]:
    open_records = importlib.import_module("mustdp.data.opening").open_records
    category = importlib.import_module("mustdp.data.columns").Category("region", REGIONS[:2])
    for block in open_records(path, ["x", "k", category]).blocks():
        yield len(block), float(block.values[:, 0].sum())


def pyarrow(path: str) -> Iterator[tuple[int, float]]:
    if path.endswith(".parquet"):
        parquet = importlib.import_module("pyarrow.parquet")
        file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20)
        batches = file.iter_batches(columns=COLUMNS, batch_size=2**17, use_threads=False)
    else:
        csv = importlib.import_module("pyarrow.csv")
        batches = csv.open_csv(
            path,
            read_options=csv.ReadOptions(block_size=2**22, use_threads=False),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(include_columns=COLUMNS),
        )
    for batch in batches:
        yield len(batch), float(batch.column(0).to_numpy().sum())


def duckdb(path: str) -> Iterator[tuple[int, float]]:
    connection = importlib.import_module("duckdb").connect()
    connection.execute("set threads=1")
    connection.execute("set memory_limit='200MB'")
    relation = connection.execute(f"select x, k, region from '{path}'")
    for batch in relation.to_arrow_reader(2**17):
        yield len(batch), float(batch.column(0).to_numpy().sum())


SIDES: dict[str, Callable[[str], Iterator[tuple[int, float]]]] = {
    "ours": ours,
    "pyarrow": pyarrow,
    "duckdb": duckdb,
}


def timed(side: str, path: str) -> dict[str, float]:
    """Seconds, rows, a sum that all sides share, and the most memory that was resident."""
    start = time.perf_counter()
    counts, sums = zip(*SIDES[side](path), strict=True)
    seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text().splitlines()
    resident = next(line for line in status if line.startswith("VmHWM"))
    peak = 1024 * int(resident.split()[1])
    return {"seconds": seconds, "rows": sum(counts), "sum": sum(sums), "peak_bytes": peak}


def in_new_process(side: str, path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--side", side, str(path)], capture_output=True, text=True
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()
        return {"left_out": reason[-1] if reason else f"status {done.returncode}"}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(folder: Path, rows: int) -> dict[str, Any]:
    if not all((folder / name).exists() for name in FILES):
        write(folder, rows)
    files = []
    for name in FILES:
        path = folder / name
        sides = {side: in_new_process(side, path) for side in SIDES}
        ratio = sides["ours"]["seconds"] / sides["pyarrow"]["seconds"]
        files.append({"file": name, "bytes": path.stat().st_size, "sides": sides, "ratio": ratio})
    return {"rows": rows, "files": files, "versions": versions()}


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("mustdp", "numpy", "pyarrow", "duckdb"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def show(figures: dict[str, Any]) -> None:
    table = Table("file", "side", "seconds", "peak, MiB", title=f"{figures['rows']:,} rows")
    console = Console()
    for file in figures["files"]:
        for side, row in file["sides"].items():
            if "left_out" in row:
                console.print(f"{file['file']}, {side} left out: {row['left_out']}")
                continue
            peak = f"{row['peak_bytes'] / 2**20:,.0f}"
            table.add_row(file["file"], side, f"{row['seconds']:.2f}", peak)
    console.print(table)
    console.print(", ".join(f"{name} {version}" for name, version in figures["versions"].items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10**7, help="rows of the files")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="where the files are, and stay")
    parser.add_argument("--json", action="store_true", help="print one JSON object and no table")
    parser.add_argument("--side", nargs=2, metavar=("SIDE", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(timed(*arguments.side)))
        return
    if arguments.rows < 1:
        parser.error(f"--rows must be at least 1, got {arguments.rows}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        figures = measure(folder, arguments.rows)
    if arguments.json:
        print(json.dumps(figures))
    else:
        show(figures)


if __name__ == "__main__":
    main()
