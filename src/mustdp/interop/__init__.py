"""Other libraries' plans, accountants and loops, each behind its own extra."""
