"""Networks: per-example clipping, noise, update, for any torch model and any sampling scheme.

The only rooms of the package that import torch; ``import mustdp`` does not load them.
"""
