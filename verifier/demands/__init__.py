"""Availability demands: made, followed, ended (design section 9)."""
