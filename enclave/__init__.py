"""The measured program that opens one envelope at a time and judges its receipt. Read `judge`, `session`, `server` (design
section 7)."""
