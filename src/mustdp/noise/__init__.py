"""Exact noise: released = lattice sum + exactly rounded noise, the only place where it is made."""
