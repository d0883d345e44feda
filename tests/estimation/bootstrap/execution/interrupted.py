"""A run in two processes that is interrupted from the keyboard; started by a test as a script."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import mustdp as md
from mustdp.data.opening import open_source
from mustdp.estimation.bootstrap import Execution, run_replicates
from mustdp.types import Design
from tests.estimation.bootstrap.execution.examples import Halting

if __name__ == "__main__":
    try:
        run_replicates(
            open_source(np.zeros((100, 2))),
            Design(md.wor(100, 10), 64),
            Halting(Path(sys.argv[1])),
            seed=1,
            lower=[0, 0],
            upper=[1, 1],
            execution=Execution(workers=2),
        )
    except KeyboardInterrupt:
        print("interrupted")
