"""Networks: per-example clipping, noise, update, for any torch model and any sampling scheme.

Only this package imports torch when it is loaded; ``import mustdp`` does not load it.
"""

from __future__ import annotations

from mustdp.extras import required

required("torch", "training a network")
