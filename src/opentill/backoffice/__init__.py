"""What the pages of everybody who logs in share: rows, requests, templates, logging in, accounts.

A merchant's dashboard (``dashboard``) and the console of the operator's staff (``console``) are
each a ``Face`` with pages of its own; what belongs to neither is here (``api.py``).
"""
