"""What is computed on every subset, how far one copy of a record can move it, and what it means."""
