"""An embedded PostgreSQL in the data directory, for deployments without a server of their own."""
