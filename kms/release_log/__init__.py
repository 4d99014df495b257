"""Audit of release logs: copies of the logs, a check that each release had an entitled voter, and a report of the voters that
could open a receipt.
"""
