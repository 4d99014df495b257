"""Upkeep of stake records and of late penalties, for networks whose stake EigenLayer holds."""
