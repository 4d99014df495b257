"""The shard process: attested channels, HTTPS, release policy, release (design section 8)."""
