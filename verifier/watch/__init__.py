"""What a node sees: batches, lists, receipts, ciphertext, and whether something is missing (design section 10)."""
