"""Customers: a view of the orders by email."""
