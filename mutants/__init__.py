"""Mutation tests of SQL and of the Python code that moves money."""
