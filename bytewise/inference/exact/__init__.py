"""The exact operations that every backend computes to the same bits (docs/exact-arithmetic.md)."""
