"""Typed reads of the contracts, each at a named block."""
