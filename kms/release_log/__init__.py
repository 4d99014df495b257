"""Audit of release logs: copies, entitlement of each release, report of who opened a receipt."""
