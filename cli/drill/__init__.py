"""`bytewise drill`: plays what would cost money on a fork of the chain, so that its owner knows before it happens."""
