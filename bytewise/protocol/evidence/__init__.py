"""Evidence of enclaves, the policy that appraises it, and updates of the policy (design section 7)."""
