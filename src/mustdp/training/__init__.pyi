"""What is needed around a training run, once each."""

from mustdp.training.data import load_data as load_data
from mustdp.training.networks.loaders import loader_budget as loader_budget
from mustdp.training.networks.separation import replace_batchnorm as replace_batchnorm
