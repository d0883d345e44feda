"""Private resampling inference: estimates and intervals from noisy replicates on random subsets."""
