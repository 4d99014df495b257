"""Transactions of an account by purpose: accounts, demands, disputes, key epochs, proposals. `actor` combines them for one
account."""
