"""A PostgreSQL of our own in the data directory, for whoever has none."""
