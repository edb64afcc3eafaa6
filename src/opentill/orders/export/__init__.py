"""The CSV export of orders."""
