"""The integrity rules of the ledger, checked all at once or a bounded part at a time."""
