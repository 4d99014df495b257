"""Audit of release logs: copies of the logs, the check that each release had an entitled voter, and a report which voters could
open a receipt."""
