"""Damaged and hostile files: refused in one line, whatever is in them, at a bounded cost."""

from __future__ import annotations

import decimal
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mustdp.data import opening, text
from mustdp.data.columns import Number
from mustdp.data.opening import open_records, open_source
from mustdp.data.parquet import ParquetFiles
from mustdp.errors import InvalidParameter

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

#: Opens a file with little more memory than the process has, and says what came of it and the most
#: that was resident.
CHILD = """
import resource, sys
import numpy, pyarrow.csv
from mustdp.errors import InvalidParameter
from mustdp.data.opening import open_source
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_AS, (size + 2**28, size + 2**28))
try:
    open_source(sys.argv[1], "x")
except InvalidParameter as problem:
    print(problem)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def packed(path: Path, first: bytes, again: bytes, times: int) -> Path:
    """A packed file of 16 MiB pieces, each a few kilobytes packed."""
    piece = gzip.compress(again * (2**24 // len(again)))
    path.write_bytes(gzip.compress(first) + piece * times)
    return path


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is asked of Linux")
@pytest.mark.parametrize(
    ("first", "again", "message"),
    [
        (b"x,y\n", b"1", "line 2 of .* a well-formed record of at most 16777216 bytes"),
        (b"", b"x", "line 1 of .* a well-formed record of at most 16777216 bytes"),
        (b'x,y\n1,"', b"\n", "line 2 of .* must begin a well-formed record"),
        (b'x,y\n1,"', b'","', "line 2 of .* must begin a well-formed record"),
        (
            b'x,y\n1,"a',
            b"\n" + b"a" * 1021 + b'","',
            "line 2 of .* must begin a well-formed record",
        ),
        (b"", b"x,", "line 1 of .* must begin a well-formed record"),
    ],
    ids=["long line", "long name", "open quote", "many fields", "many lines", "many names"],
)
def test_a_record_that_does_not_end(
    first: bytes, again: bytes, message: str, tmp_path: Path
) -> None:
    """4 MB of gzip took 119 s and 3 GB: now no more than a record is read of the 4 GiB."""
    path = packed(tmp_path / "x.csv.gz", first, again, 256)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True
    )
    said, resident = done.stdout.splitlines()
    with pytest.raises(InvalidParameter, match=message):
        raise InvalidParameter(said)
    assert int(resident) < 2**18  # KiB


def test_no_byte_is_read_twice_and_no_more_than_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work is counted in bytes handed on: with lines of any length it is that of the file."""
    monkeypatch.setattr(text, "_BLOCK", 2**10)
    file = text.TextFile(None, "x", ",", None, None)
    for length in (10, 2**10, 2**16):
        content = (b"7" * length + b"\n") * (2**20 // length)
        path = tmp_path / "x.csv"
        path.write_bytes(content)
        with path.open("rb") as stream:
            assert sum(map(len, text.blocks(file, stream))) == len(content)
    path.write_bytes(b"7" * 2**26)
    monkeypatch.setattr(text, "LONGEST_RECORD", 2**20)
    with path.open("rb") as stream:
        with pytest.raises(InvalidParameter, match="must begin a well-formed record"):
            list(text.blocks(file, stream))
        assert stream.tell() <= 2**20 + 2**14


def test_a_million_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    names = ",".join(f"c{k}" for k in range(1_000_000))
    path.write_text(f"{names}\n{'1,' * 999_999}1\n")
    with pytest.raises(InvalidParameter, match=r"at most 131072 columns, got 1000000 in its first"):
        open_source(path, "c5")
    few = tmp_path / "few.csv"
    few.write_text(f"x,y\n{'1,' * 999_999}1\n")
    with pytest.raises(InvalidParameter, match=r"line 2 .* must have 2 fields .* got 1000000"):
        open_source(few, "x")


def test_numbers_that_do_not_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = packed(tmp_path / "x.csv.gz", b"x\n", b"1\n", 2)
    monkeypatch.setattr(opening, "_most_bytes", lambda: 2.0**20)
    with pytest.raises(InvalidParameter, match=r"half of this machine's memory, .* Parquet file"):
        open_source(path, "x")


@pytest.mark.parametrize("digits", [17, 308, 4299, 4300, 4301, 100_000])
@pytest.mark.parametrize("sign", ["", "-", "+", "0", "-00"])
def test_integers_of_thousands_of_digits(digits: int, sign: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"x\n1\n{sign}{'7' * digits}\n")
    with pytest.raises(InvalidParameter, match=r"2\*\*53|got infinite"):
        open_source(path, "x")
    path.write_text(f"x\n1\n{'0' * digits}7\n")
    assert open_source(path, "x").take([1]).tolist() == [[7.0]]


@pytest.mark.parametrize(
    "word",
    [
        "9_007_199_254_740_993",
        "٩٠٠٧١٩٩٢٥٤٧٤٠٩٩٣",
        "９００７１９９２５４７４０９９３",
        " 9007199254740993 ",
    ],
)
def test_large_integers_in_odd_spellings(word: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"x\n1\n{word}\n", encoding="utf-8")
    with pytest.raises(InvalidParameter, match=r"2\*\*53|a text that is not one in line 3"):
        open_source(path, "x")


def test_flipped_bits_are_refused_or_harmless(tmp_path: Path) -> None:
    """18 of 2912 ended the process. A footer has no checksum: there, others may be read."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.data.damage", str(tmp_path), "3", "300"],
        capture_output=True, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert sum(counts.values()) == 300
    assert counts.get("pages other", 0) == 0
    assert counts["pages refused"] > 100


def test_contradictions_in_a_footer_do_not_end_the_process(tmp_path: Path) -> None:
    """Bits in the metadata of column chunks, at some of which pyarrow's accessors would."""
    program = (
        "import sys; from pathlib import Path; from tests.data import damage\n"
        "from mustdp.errors import InvalidParameter\n"
        "path = Path(sys.argv[1]); damage.write(path); whole = path.read_bytes()\n"
        "start = damage.footer_start(whole)\n"
        "for bit in range(1200, 3200, 3):\n"
        "    changed = bytearray(whole); changed[start + bit // 8] ^= 1 << bit % 8\n"
        "    one = path.with_name(f'{bit}.parquet'); one.write_bytes(changed)\n"
        "    try: damage.open_records(one, damage.WANTED)\n"
        "    except InvalidParameter: pass\n"
        "    one.unlink()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "x.parquet")],
        capture_output=True, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def test_checksums_of_pages_are_compared(tmp_path: Path) -> None:
    """Plain doubles: without the checksum any bit gives another number without a word."""
    x = np.arange(5000.0)
    for checked in (True, False):
        path = tmp_path / f"{checked}.parquet"
        parquet.write_table(
            pyarrow.table({"x": x}), path, use_dictionary=False, compression="none",
            write_page_checksum=checked,
        )  # fmt: skip
        content = bytearray(path.read_bytes())
        content[20_000] ^= 1
        path.write_bytes(content)
    source = open_source(tmp_path / "False.parquet", "x")
    assert (source.take(np.arange(5000))[:, 0] != x).sum() == 1
    with pytest.raises(InvalidParameter, match=r"True.parquet must be undamaged, got"):
        open_source(tmp_path / "True.parquet", "x")
    with pytest.raises(InvalidParameter, match=r"True.parquet must be undamaged, got"):
        list(open_records(tmp_path / "True.parquet", ["x"]).blocks())


def narrow(name: str, precision: int, scale: int) -> Callable[[], Any]:
    return lambda: getattr(pyarrow, name)(precision, scale)


@pytest.mark.parametrize(
    "kind",
    [narrow("decimal32", 7, 2), narrow("decimal64", 12, 2), narrow("decimal128", 30, 2),
     narrow("decimal256", 60, 2)],
    ids=["32", "64", "128", "256"],
)  # fmt: skip
def test_decimals_of_all_widths(kind: Callable[[], Any], tmp_path: Path) -> None:
    values = [decimal.Decimal("0.10"), decimal.Decimal("-12345.67"), None]
    table = pyarrow.table({"x": pyarrow.array(values, kind())})
    path = tmp_path / "x.parquet"
    try:
        parquet.write_table(table, path)
    except pyarrow.ArrowNotImplementedError:  # narrow decimals, before pyarrow 22
        path.unlink(missing_ok=True)
    for data in (table, path) if path.exists() else (table,):
        (block,) = open_records(data, [Number("x", missing="drop")]).blocks()
        assert block.values[:, 0].tolist() == [0.1, -12345.67, 0.0]
        with pytest.raises(InvalidParameter, match="got missing"):
            open_source(data, "x").take([0])


def test_links_in_a_folder(tmp_path: Path) -> None:
    """What a link does not lead to would be left out without a word."""
    folder = tmp_path / "data"
    folder.mkdir()
    parquet.write_table(pyarrow.table({"x": [1.0]}), folder / "1.parquet")
    parquet.write_table(pyarrow.table({"x": [2.0]}), tmp_path / "2.parquet")
    (folder / "2.parquet").symlink_to(tmp_path / "2.parquet")
    assert open_source(folder, "x").n == 2
    (folder / "3.parquet").symlink_to(tmp_path / "3.parquet")
    with pytest.raises(InvalidParameter, match=r"got .*3.parquet: a link to nothing"):
        open_source(folder, "x")
    (folder / "3.parquet").unlink()
    (folder / "more").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(InvalidParameter, match=r"got .*more: a link to a folder"):
        open_source(folder, "x")


def test_rows_that_the_footer_invents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"x": np.arange(10.0)}), path)
    records = open_records(path, ["x"])
    monkeypatch.setattr(ParquetFiles, "batches", lambda *_: iter(()))
    with pytest.raises(InvalidParameter, match="must have 10 rows, got 0"):
        list(records.blocks())
