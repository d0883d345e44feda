"""The ledger: what was released, what it costs, and a file whose limit cannot be overspent.

ledger     the ledger in memory: a count of atoms, its JSON, and the way to a file
file       the ledger in a file: open, charge, merge, verify, export; runs and their notes
program    whether a charge fits, and what would still fit if not
declared   what a plan that was declared in advance may spend
filter     what plans chosen adaptively may spend: Renyi filters
release    a release is refused before data are read, and charged before noise is drawn
store      the SQLite file, one transaction at a time, and the chain of hashes
entry      header, head and entries as they are stored
"""
