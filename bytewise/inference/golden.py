"""Golden numbers of profile `exact-1`: they never change. Made by tests/vectors/make_exact1.py."""

from bytewise.protocol.units import Digest

PROFILE_DIGEST = Digest(bytes.fromhex("b6ad51f910a00e8fe98d982680ef7f1cb6cf22e2474243e9d56e6adc6de1e7b8"))
"""`self_test.profile_digest` on every backend and machine."""
