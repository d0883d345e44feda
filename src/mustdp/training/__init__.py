"""Train with any sampling scheme: draw, clip, add noise, and be charged for what was drawn."""
