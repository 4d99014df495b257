"""`bytewise verify`, `capsule`, `journal` and `evidence`: makes and verifies what proves a result to others."""
