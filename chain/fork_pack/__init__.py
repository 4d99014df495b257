"""Fork packs: a fork pack is one file with everything that people need to continue a network without this deployment."""
