"""Finding orders: filters, the index of search terms, and look-ups by an id or a number."""
