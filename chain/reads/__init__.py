"""Typed reads of the contracts, each at one named block."""
