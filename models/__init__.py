"""Models that are trained here: how the checkpoint in `lighthouse/` was made (docs/adr/035). Nothing in `bytewise` imports it."""
