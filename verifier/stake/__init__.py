"""Stake records and late penalties that a node keeps in order, where EigenLayer holds the stake."""
