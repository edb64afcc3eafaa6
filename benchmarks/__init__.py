"""Compare OpenTill with upper limits and with peers: ``python -m benchmarks``. See README.md."""
