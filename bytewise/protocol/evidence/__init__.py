"""Evidence of enclaves, the policy that judges it, and how a policy changes (design section 7)."""
