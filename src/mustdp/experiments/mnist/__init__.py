"""Experiment 3b: a network on MNIST, Tables 5 and 7 and Figure 6."""
