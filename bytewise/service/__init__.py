"""Process plumbing that every actor uses.

Read `settings`, `clock`, `telemetry` and `schedule` first, in this order (design section 2).
"""
