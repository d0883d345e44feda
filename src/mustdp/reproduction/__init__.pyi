"""What exists for the sake of the MUST paper, once each."""

from mustdp.accounting.subsampling.one_slope import amplified_epsilon as amplified_epsilon
from mustdp.accounting.subsampling.one_slope import base_epsilon as base_epsilon
from mustdp.mechanisms.mechanism import analytic_sigma as analytic_sigma
from mustdp.mechanisms.mechanism import classical_sigma as classical_sigma
from mustdp.reproduction.budgets import paper_budget as paper_budget
from mustdp.reproduction.paper_account import Attained as Attained
from mustdp.reproduction.paper_account import PaperAccount as PaperAccount
from mustdp.reproduction.simulation import Chains as Chains
from mustdp.reproduction.simulation import fit_chains as fit_chains
