"""What an actor does next: pure functions of a snapshot and of findings (design section 2)."""
