"""Customers: a view of the orders by e-mail."""
