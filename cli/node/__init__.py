"""`bytewise init`, `run`, `doctor` and `status`: makes, runs, checks and shows a node of any role from its folder."""
