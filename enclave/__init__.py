"""The measured program: opens one envelope at a time and judges it. Read `judge`, `session`, `server` (design section 7)."""
