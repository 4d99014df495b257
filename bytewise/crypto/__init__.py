"""Cryptography that actors share: curve points, HPKE, proofs, shares, envelopes, ML-KEM, BLS. No I/O (design section 8).

Read `curve`, `hpke`, `envelope`, then `shares`. `hybrid` and `mlkem` add the post-quantum half.
"""
