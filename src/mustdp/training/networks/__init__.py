"""Networks: per-example clipping, noise, update, for any torch model and any sampling scheme.

The only rooms of the package that import torch; ``import mustdp`` does not load them.
"""

from __future__ import annotations

from mustdp.extras import required

required("torch", "training a network")
