"""Keys and cryptographic bits: what decides batches and noise, and who may know it."""
