"""Receipts of paid orders: their data, the tax in them, and their PDF.

Other packages import the modules, because ``pdf`` is also run as a program that loads little.
"""
