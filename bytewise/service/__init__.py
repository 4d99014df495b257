"""Process plumbing of every actor. Read `settings`, `clock`, `telemetry` and `schedule` in this order (design section 2)."""
