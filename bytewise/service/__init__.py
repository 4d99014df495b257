"""Plumbing of every actor: read `settings`, `clock`, `telemetry`, `schedule` in this order (design section 2)."""
