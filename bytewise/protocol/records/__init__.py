"""Receipts, requests, outputs, envelopes and signed statements (design section 4)."""
