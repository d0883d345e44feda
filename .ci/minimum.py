"""Print constraints that pin what the package runs on to the minimum versions in pyproject.toml.

What only tests, documents and benchmarks use stays free, and so does torch, which ``dev`` pins.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

TOOLS = {"dev", "site", "bench", "interop"}
#: Libraries whose data frames are taken: no extra asks for them, and tests do.
FRAMES = {"pandas", "polars"}

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
wanted = [one for one in extras["dev"] if one.partition(">")[0] in FRAMES]
for lines in (project["dependencies"], *(extras[name] for name in extras.keys() - TOOLS)):
    wanted += lines
for one in sorted(set(wanted)):
    found = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)(?:,<[\w.]+)?", one)
    if found is None:
        if not one.startswith("mustdp["):
            raise SystemExit(f"no minimum version in {one!r}")
    elif found[1] != "torch":
        print(f"{found[1]}=={found[2]}")
