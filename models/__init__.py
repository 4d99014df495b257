"""Training of the checkpoint in `lighthouse/` (ADR-059). Nothing in `bytewise` imports this package."""
