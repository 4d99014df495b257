"""The shard process: attested channels, HTTPS interface, release policy, release (design section 8)."""
