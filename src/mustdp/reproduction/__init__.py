"""The tables and figures of the MUST paper, computed again and judged cell by cell."""
