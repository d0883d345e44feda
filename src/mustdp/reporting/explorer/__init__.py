"""A page on this machine that answers while sliders move: every scheme side by side."""
