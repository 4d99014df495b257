"""Key epochs, ceremonies and the release log, as records (design section 8)."""
