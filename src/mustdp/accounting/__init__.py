"""From a plan to certified bounds."""
