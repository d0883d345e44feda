"""Numerical building blocks that know nothing of privacy."""
