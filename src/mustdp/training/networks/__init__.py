"""Networks: per-example clipping, noise, update, for any torch model and any sampling scheme.

The only rooms of the package that import torch; ``import mustdp`` does not load them.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError(
        "mustdp.training.networks needs torch: python -m pip install 'mustdp[train]'", name="torch"
    )
