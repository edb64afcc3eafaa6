"""Pages of the operator's staff: all merchants, what needs attention, people and settings."""
