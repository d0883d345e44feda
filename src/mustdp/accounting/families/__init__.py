"""Several dominating pairs per step, of which the worst is chosen adaptively."""
