"""What can be reproduced about one application."""

from __future__ import annotations

from mustdp.experiments.frame.items import Item
from mustdp.experiments.one_step import amplification, contours, table_s1

ITEMS = (
    Item("table-s1", "Table S1: ε′ and δ′ of one application", table_s1.run),
    Item("figure-3", "Figure 3: quadrants of the aligned profile", amplification.run_figure_3),
    Item("figure-4", "Figure 4: aligned privacy profile", amplification.run_figure_4),
    Item("figure-5", "Figure 5: contours over b and m", contours.run_figure_5),
    Item("figure-s1", "Figure S1: surfaces over b and m", contours.run_figure_s1),
    Item("figure-s2", "Figure S2: ε′ against ε, δ′ against δ", amplification.run_figure_s2),
)
