"""Watches batches, lists, receipts and ciphertext, and finds out whether something is missing (design section 10)."""
