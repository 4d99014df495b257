"""What people look at: an index of one network's events, a read API over it, and server-rendered pages. It holds no key."""
