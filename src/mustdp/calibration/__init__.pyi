"""Calibrations beside ``mustdp.calibrate``, once each."""

from mustdp.calibration.search import calibrate_plan as calibrate_plan
from mustdp.calibration.search import largest_batch as largest_batch
from mustdp.calibration.search import most_steps as most_steps
from mustdp.calibration.search import smallest_first_stage as smallest_first_stage
