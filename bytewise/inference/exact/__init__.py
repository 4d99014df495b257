"""The exact operations, which every backend computes to the same bits (docs/reference/exact-arithmetic.md)."""
