"""Discrete privacy loss distributions: discretise, compose, read off."""
