"""The ``mustdp`` command: parse, make one call, print."""
