"""The R on the page for R users runs, and gives data frames, where R and reticulate are there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
R = shutil.which("Rscript")


def has_reticulate() -> bool:
    if R is None:
        return False
    asked = [R, "-e", 'quit(status = !requireNamespace("reticulate", quietly = TRUE))']
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


CHECKS = """
stopifnot(is.data.frame(estimates), nrow(estimates) == 2, all(estimates$lower < estimates$upper))
stopifnot(is.data.frame(wide), nrow(wide) == 5, difference$p_value >= 0, difference$p_value <= 1)
stopifnot(identical(as.character(coefficients$cell), c("intercept", "age", "employed[yes]", "R2")))
stopifnot(plan[[1]]$width > 0)
cat("everything ran\\n")
"""


@pytest.mark.skipif(not has_reticulate(), reason="needs R with reticulate")
def test_the_page_for_r_users_runs(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    page = (ROOT / "docs" / "from-r.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```r\n(.*?)```", page, re.DOTALL))
    shutil.copy(ROOT / "examples" / "people.csv", tmp_path)
    script = tmp_path / "page.R"
    script.write_text(code + CHECKS, encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    own = {**os.environ, "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": path}
    ran = subprocess.run(
        [str(R), "--vanilla", str(script)],
        cwd=tmp_path, env=own, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if "libpython" in ran.stderr or "shared library" in ran.stderr:
        pytest.skip("this Python has no shared library that R can load")
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert "everything ran" in ran.stdout
