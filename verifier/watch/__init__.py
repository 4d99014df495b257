"""Follows batches, lists, receipts and ciphertext, and finds out whether any of them is missing (design section 10)."""
