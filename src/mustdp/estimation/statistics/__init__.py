"""Statistics: each is one class, registered once, for releases and for the bootstrap."""
