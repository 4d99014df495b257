"""Database of the dashboard: blocks, events and facts of one network, with the blocks in which each fact was in force."""
