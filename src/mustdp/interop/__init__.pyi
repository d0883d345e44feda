"""The bridges, once each."""

from mustdp.interop import dp_accounting as dp_accounting
from mustdp.interop import opacus as opacus
