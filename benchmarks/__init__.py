"""Measures OpenTill side by side with its limits: ``python -m benchmarks``. See README.md."""
