"""Install the built wheel with each extra alone into an empty environment, and use what it brings.

    python .ci/extras.py WHEEL [EXTRA ...]

A dependency that is missing from pyproject.toml is found here: the environment has nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

MEAN = "--column age --lower 0 --upper 100 --noise-multiplier 9 --delta 1e-5"
#: What is run for each extra, in a folder with ages.csv; "" is the wheel without extras.
USES = {
    "": [
        f"release ages.csv --statistic mean {MEAN}",
        "account --scheme wor -n 1000 -m 100 --steps 10 --noise-multiplier 2 --delta 1e-5",
    ],
    "plots": ["report -n 30 -b 10 -m 4 --steps 1 --delta 1e-3 --epsilon 1 --out report.html"],
    "explore": ["report -n 30 -b 10 -m 4 --steps 1 --delta 1e-3 --epsilon 1 --out report.html"],
    "train": [
        "train digits --scheme wor -m 50 --steps 5 --epsilon 1 --delta 1e-5",
        "train digits --scheme wor -m 50 --steps 5 --epsilon 1 --delta 1e-5 --model mlp",
    ],
    "files": [f"bootstrap ages.sav {MEAN} --scheme wor -m 5 --replicates 9"],
    "duckdb": [f"release duckdb::ages.csv --statistic mean {MEAN}"],
    "spark": [],  # the doctor has imported it; a session needs Java
    "parallel": [f"bootstrap ages.csv {MEAN} --scheme wor -m 5 --replicates 9 --workers 2"],
    "dask": [f"bootstrap ages.csv {MEAN} --scheme wor -m 5 --replicates 9 --dask local"],
    "dp-accounting": ["conformance dp-accounting-pld"],
    "opacus": ["conformance opacus-prv"],
    "jax-privacy": ["conformance jax-privacy"],
    "opendp": ["doctor"],
    "flower": ["doctor"],
    "deployments": ["deployments"],
    "fast": [f"release ages.csv --statistic mean {MEAN}"],
}
#: Tools, which ./test and ./docs-site install and use themselves.
TOOLS = {"dev", "site", "bench", "interop", "models"}


def check(wheel: Path, extra: str) -> None:
    """Install, ask the doctor, and run what the extra is for."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")

        def run(*command: str) -> str:
            done = subprocess.run(
                [str(programs / command[0]), *command[1:]],
                cwd=folder,
                capture_output=True,
                encoding="utf-8",
            )
            if done.returncode:
                raise SystemExit(f"[{extra}] {' '.join(command)}\n{done.stdout}{done.stderr}")
            return done.stdout

        what = f"{wheel}[{extra}]" if extra else str(wheel)
        run("python", "-m", "pip", "install", "--quiet", "--no-compile", what)
        run("python", "-m", "pip", "check")
        told = json.loads(run("mustdp", "doctor", "--json"))["extras"]
        if extra in told and not told[extra]["works"]:
            raise SystemExit(f"[{extra}] {told[extra]}")
        (folder / "ages.csv").write_text("age\n" + "50\n" * 90, encoding="utf-8")
        if extra == "files":
            import pandas  # of the environment that runs this; the one that is tested has none
            import pyreadstat

            pyreadstat.write_sav(pandas.DataFrame({"age": [50.0] * 90}), folder / "ages.sav")
        for line in USES[extra]:
            run("mustdp", *line.split())
        print(f"[{extra}] works: {', '.join(USES[extra]) or 'imported'}", flush=True)


def main() -> None:
    """All extras, or those that are named."""
    wheel, *named = sys.argv[1:]
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    unused = project["optional-dependencies"].keys() - TOOLS - USES.keys()
    if unused:
        raise SystemExit(f"nothing is run for the extras {sorted(unused)}")
    for extra in named or USES:
        check(Path(wheel).absolute(), extra)


if __name__ == "__main__":
    main()
