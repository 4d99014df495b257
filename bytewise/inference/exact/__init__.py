"""The exact operations that every backend computes to the same bits (docs/reference/exact-arithmetic.md)."""
