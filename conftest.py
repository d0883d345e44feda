"""Examples of hypothesis are the same in every run, so that a failure is everybody's failure.

Modules that need an extra are left out of the doctests where the extra is not installed.
"""

from __future__ import annotations

from importlib.util import find_spec

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")

collect_ignore_glob: list[str] = []
if find_spec("torch") is None:
    collect_ignore_glob.append("src/mustdp/training/networks/*")
elif find_spec("opacus") is None:
    collect_ignore_glob.append("src/mustdp/training/networks/opacus_bridge.py")
if find_spec("sklearn") is None:
    collect_ignore_glob.append("src/mustdp/training/linear/*")
