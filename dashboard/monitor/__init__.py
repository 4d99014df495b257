"""The monitor: checks the invariants of a network against its chain, its index and its shards' release logs. It holds no key."""
