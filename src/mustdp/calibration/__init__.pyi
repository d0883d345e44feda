"""Calibrations beside ``mustdp.calibrate``, once each."""

from mustdp.calibration.noise import calibrate_plan as calibrate_plan
from mustdp.calibration.sizes import largest_batch as largest_batch
from mustdp.calibration.sizes import most_steps as most_steps
from mustdp.calibration.sizes import smallest_first_stage as smallest_first_stage
