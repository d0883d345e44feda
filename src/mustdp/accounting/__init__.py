"""From a plan to certified bounds, and the ledger of what was released."""
