"""What can be reproduced about composition."""

from __future__ import annotations

from mustdp.experiments.composition import figure_s3
from mustdp.experiments.frame.items import Item

ITEMS = (Item("figure-s3", "Figure S3: overall δ after k steps", figure_s3.run),)
