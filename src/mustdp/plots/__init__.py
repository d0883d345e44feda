"""Pictures of given results: axes in, axes out. Needs ``pip install "mustdp[plots]"``."""

from mustdp.plots.aligned import aligned_profile, aligned_profile_panels

__all__ = ["aligned_profile", "aligned_profile_panels"]
