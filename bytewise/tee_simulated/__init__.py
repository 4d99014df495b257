"""Simulated evidence, with its own root and evidence type. It tests protocol and policy, but isolates nothing. Never use it in
production."""
