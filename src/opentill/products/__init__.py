"""Products: what a merchant sells."""
