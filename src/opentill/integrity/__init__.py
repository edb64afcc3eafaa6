"""Whether the books are right: every rule, all at once or in bounded steps all the time."""
