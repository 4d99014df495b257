"""The checks of `bytewise doctor`, which `bytewise status` and the start of a node use too."""
