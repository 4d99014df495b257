"""Maintenance of stake records and of late penalties, for networks whose stake is in EigenLayer."""
