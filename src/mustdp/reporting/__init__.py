"""Plots, pages, the report and the explorer."""
