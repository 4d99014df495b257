"""The dashboard: an index of one network's events, a read API over the index, and server-rendered pages. It holds no key."""
