"""PostgreSQL: connections, transactions, statements, migrations, rate limits, the clock."""
