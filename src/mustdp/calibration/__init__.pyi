"""Calibrations beside ``mustdp.calibrate``, once each."""

from mustdp.calibration.budget import calibrate_plan as calibrate_plan
from mustdp.calibration.budget import largest_batch as largest_batch
from mustdp.calibration.budget import most_steps as most_steps
from mustdp.calibration.budget import smallest_first_stage as smallest_first_stage
