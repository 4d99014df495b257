"""HTTP connections that end by a deadline."""
