"""Evidence of enclaves: appraisal (pure judgement), measurement (what a program is), policy (files), mode (production fence)."""
