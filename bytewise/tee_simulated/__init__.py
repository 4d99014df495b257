"""Simulated evidence: own root, own type, own package. Shows protocol and policy, never isolation. Not in production."""
