"""Database of the dashboard's index: blocks, events and facts of one network. Each fact has the blocks in which it was in
force."""
