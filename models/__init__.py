"""Models that are trained here: how the checkpoint in `lighthouse/` was made (ADR-059). Nothing in `bytewise` imports it."""
