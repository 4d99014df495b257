"""Decisions of an actor, as pure functions of a snapshot and of findings (design section 2)."""
