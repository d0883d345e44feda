"""The ledger: what was released, what it costs, and a file of it that nobody can overspend.

ledger        the ledger in memory: a count of atoms; the way to a file
sealed        its JSON, with a version and a checksum
opening       make the file, or open one and compare it with what was asked for
budget_file   the ledger in a file: charge, check, merge, read
book          its head and entries within a transaction
program       whether a charge fits, and what would still fit if not
filter        what plans chosen along the way may spend: Renyi filters
divergences   what one step costs them
declared      what a plan that was declared in advance may spend
release       a release is refused before data are touched, charged before noise is drawn
runs          runs that are interrupted: charged once, never gone back
notes         the notes about them, chained, their latest states under the seal
chain         hashes that tie every entry to all before it
store         the file: SQLite, one transaction at a time, errors in words
entry         header, head and entries as they are stored
verifying     the whole file read and added up again
exports       the entries as a table, JSON and CSV
"""
