"""`bytewise drill`: plays a slash or a penalty of an account on a fork of the chain. A fork is a copy of the chain on this
machine. So the owner of the account learns what a slash would cost, and nothing happens on the chain."""
