"""Audit of release logs: copies of the logs, entitlement of each release, report of who opened a receipt."""
