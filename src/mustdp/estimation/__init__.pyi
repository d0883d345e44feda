"""Designs of the bootstrap and planning of releases, once each."""

from mustdp.estimation.designs import bag_of_little_bootstraps as bag_of_little_bootstraps
from mustdp.estimation.designs import double_bootstrap as double_bootstrap
from mustdp.estimation.planning import expected_widths as expected_widths
from mustdp.estimation.planning import smallest_epsilon as smallest_epsilon
