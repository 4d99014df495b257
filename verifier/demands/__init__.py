"""Availability demands: the node makes them, follows them and ends them (design section 9)."""
