"""Where the published files lie, if they do."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[4] / "shared" / "data"

needs_mnist = pytest.mark.skipif(
    not (SHARED / "mnist").is_dir(), reason=f"the MNIST files are not in {SHARED}/mnist"
)
needs_adult = pytest.mark.skipif(
    not (SHARED / "adult").is_dir(), reason=f"the Adult files are not in {SHARED}/adult"
)
