"""`bytewise init`, `run`, `doctor` and `status`: a node of any role, from its folder."""
