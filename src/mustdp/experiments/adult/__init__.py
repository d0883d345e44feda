"""Experiment 3a: logistic regression on Adult, Tables 5 and 7, Figure S5, the overall delta_c."""
