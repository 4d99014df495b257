"""Evidence of enclaves, the appraisal policy that judges it, and updates of this policy (design section 7)."""
