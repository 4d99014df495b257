"""A second implementation of exact-1 in Python integers and fractions alone, written from docs/exact-arithmetic.md.

Slow and plain; shares no arithmetic with the engine, and reads the artifact's files itself.
"""
