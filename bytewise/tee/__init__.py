"""Evidence of enclaves: appraisal (pure judgement), measurement (what a program is), policy (files), mode (no simulator in
production)."""
