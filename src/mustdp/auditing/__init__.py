"""Auditing: what an attacker really finds out about a run, beside what was certified for it."""
