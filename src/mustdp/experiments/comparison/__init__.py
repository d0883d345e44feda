"""What experiments share: what the stated noise really gives, and the same guarantee for all."""
