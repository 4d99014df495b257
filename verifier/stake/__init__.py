"""Stake and penalties that a node keeps in order, with EigenLayer where the network has it."""
