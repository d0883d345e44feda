"""Work in several processes and on clusters."""
