"""Soak test of a whole network under faults for hours: `make soak-node`. Its checks read the chain without the product's
readers."""
