"""Audit of release logs: copies of the logs, entitlement of each release, report of the voters that could open a receipt."""
