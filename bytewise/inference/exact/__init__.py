"""The exact operations. Every backend computes them to the same bits (docs/reference/exact-arithmetic.md)."""
