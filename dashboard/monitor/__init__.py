"""The monitor: checks the invariants of a network against its chain, its index and the shards' release logs; it holds no key."""
