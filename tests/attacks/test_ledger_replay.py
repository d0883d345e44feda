"""An old note about a run, and its checkpoint, put back into a ledger: the run would go on again.

Every time with the same batches and with new noise, so that their mean has less of it than was
charged. The note was written by the ledger itself, so its own seal is right, with a key or not.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import mustdp as md
from tests.training.networks import runs


def put_back(file: Path, rows: list[tuple[object, ...]]) -> None:
    connection = sqlite3.connect(file)
    connection.execute("DELETE FROM runs")
    marks = ", ".join("?" * len(rows[0]))
    connection.executemany(f"INSERT INTO runs VALUES ({marks})", rows)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("key", [None, b"kept apart from the ledger"])
def test_a_note_and_its_checkpoint_put_back_do_not_let_a_run_go_on_again(
    tmp_path: Path, key: bytes | None
) -> None:
    file, saved = tmp_path / "office.ledger", tmp_path / "run.pt"
    with md.Ledger.open(file, epsilon=20, delta=1e-3, key=key) as ledger:
        runs.trainer(ledger=ledger, checkpoint=saved).train(2)
        connection = sqlite3.connect(file)
        note = connection.execute("SELECT * FROM runs").fetchall()
        connection.close()
        kept = shutil.copy(saved, tmp_path / "kept.pt")
        runs.trainer(ledger=ledger, checkpoint=saved).train(2)
        put_back(file, note)
        shutil.copy(kept, saved)
        with pytest.raises(md.InvalidParameter, match="as it was written last"):
            runs.trainer(ledger=ledger, checkpoint=saved)
        with pytest.raises(md.InvalidParameter, match="as it was written last"):
            ledger.verify()
    with pytest.raises(md.InvalidParameter, match="as it was written last"):
        md.Ledger.open(file, key=key)
