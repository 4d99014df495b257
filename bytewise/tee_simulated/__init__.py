"""Simulated evidence: own root, own type, own package. It exercises protocol and policy, not isolation. Never use it in
production."""
