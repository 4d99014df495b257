"""The folder of a shard: sealed keys, files, lock, log position."""
