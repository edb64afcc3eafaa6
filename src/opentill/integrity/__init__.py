"""Whether the books are right: every rule, all at once or a bounded part at a time."""
