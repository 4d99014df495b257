"""Transactions by purpose: accounts, demands, disputes, epochs, proposals. `actor` offers them to one account."""
