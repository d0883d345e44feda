"""The bridges, once each."""

from mustdp.interop import deployments as deployments
from mustdp.interop import dp_accounting as dp_accounting
from mustdp.interop import flower as flower
from mustdp.interop import jax_privacy as jax_privacy
from mustdp.interop import opacus as opacus
from mustdp.interop import opendp as opendp
