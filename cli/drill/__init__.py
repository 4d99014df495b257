"""`bytewise drill`: plays a slash or a penalty on a fork of the chain, so that the owner of an account knows what it would
cost."""
