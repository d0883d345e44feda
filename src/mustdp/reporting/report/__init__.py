"""One page about one choice of sizes: what each scheme guarantees, needs and costs."""
