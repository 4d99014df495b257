"""The folder of a shard: sealed keys and shares, files, locks, and the position of the release log."""
