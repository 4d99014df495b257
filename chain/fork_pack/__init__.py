"""Fork packs: what people need who go on without this deployment, in one file."""
