"""Sampling schemes: frozen descriptions that draw and know their multiplicity law."""
