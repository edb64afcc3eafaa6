"""The parts from which portals are built: tables of pages, requests, templates, lists and forms.

A merchant's dashboard (``dashboard``), the console of the operator's staff (``console``) and the
pages of logging in (``auth``) are each a ``Portal`` with pages of its own.
"""
