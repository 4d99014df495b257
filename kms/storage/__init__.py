"""The folder of a shard: sealed keys and shares, files, the lock, and the position of the release log."""
