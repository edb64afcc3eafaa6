"""The integrity rules of the ledger, checked all at once or incrementally."""
