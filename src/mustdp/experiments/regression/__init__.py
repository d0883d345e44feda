"""Experiment 2: linear regression, Tables 4 and S2 and Figure S4."""
