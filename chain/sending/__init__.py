"""The single writer of an account: signing keys, fees, transactions, finality (design section 2)."""
