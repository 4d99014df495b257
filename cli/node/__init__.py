"""`bytewise init`, `run`, `doctor`, `status` and `shard`: makes, runs, checks and shows a node of any role from its folder."""
