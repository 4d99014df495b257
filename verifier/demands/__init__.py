"""Availability demands: made, followed and ended (design section 9)."""
