"""The ledger: what was released, what it costs, and a file whose limit cannot be overspent.

ledger     what all ledgers share, and the ledger in memory: a count of atoms, and its JSON
file       the ledger in a file: open, charge, merge, verify, export; runs that are charged once
program    whether a charge fits: chosen along the way, or next in a plan declared in advance
filter     what plans chosen adaptively may spend: Renyi filters
records    the SQLite file, one transaction at a time: header, head, entries and notes, and the
           hashes that tie them together
release    a release is refused before data are read, and charged before noise is drawn
"""
