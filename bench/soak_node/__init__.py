"""Runs a whole network under faults for hours: `make soak-node`. The checks read the chain without the product's own readers."""
