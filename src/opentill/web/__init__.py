"""Shared parts of all pages: frame, languages, forms, responses, and the files under /static."""
