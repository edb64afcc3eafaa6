"""The console of the operator's staff: every merchant, what needs somebody, people and settings."""
