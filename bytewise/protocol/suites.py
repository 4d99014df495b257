"""Suites of sealed envelopes, and which of them a key epoch has: its number says so (design section 8).

Receipt, ticket, release record and chain all name the epoch by its number. A suite that is part of it needs no field of its own
in any of them, and nobody can be made to believe in another.
"""

from bytewise.protocol.errors.records import MalformedValue

SUITE_P256 = 1
"""DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, mode base, with a TDH2 proof."""

SUITE_HYBRID = 2
"""The same in mode PSK; the PSK is shared among the shards, each share under the ML-KEM-768 key of its shard."""

SUITE_REBUILT = 3
"""As `SUITE_P256`, of an epoch whose key enclaves put together from t shares: the paper's own mode (ADR-038)."""

_SUITE_BITS = 32
"""The number of an epoch has its suite in the bits above these; none there means `SUITE_P256`."""

_KINDS = {
    SUITE_P256: "shards open one receipt at a time",
    SUITE_HYBRID: "hybrid, shards open one receipt at a time",
    SUITE_REBUILT: "enclaves rebuild its key",
}

KEM_KEY_BYTES = 1184
"""ML-KEM-768 encapsulation key (FIPS 203, table 3)."""


def hybrid_epoch(number: int) -> int:
    """The hybrid key epoch of this number, counted from 1."""
    return (SUITE_HYBRID << _SUITE_BITS) | number


def rebuilt_epoch(number: int) -> int:
    """The key epoch of this number, counted from 1, whose key enclaves rebuild."""
    return (SUITE_REBUILT << _SUITE_BITS) | number


def is_rebuilt(epoch: int) -> bool:
    """Whether enclaves rebuild the key of this epoch; false for a number of an unknown suite."""
    return epoch >> _SUITE_BITS == SUITE_REBUILT


def is_key_epoch(number: int) -> bool:
    """Whether a key epoch can have this number: one of a suite that this version knows, counted from 1."""
    return number >> _SUITE_BITS in (0, SUITE_HYBRID, SUITE_REBUILT) and number % (1 << _SUITE_BITS) != 0


def kind_of(epoch: int) -> str:
    """For people: what shards of this epoch give an enclave, and with it what an enclave can open."""
    suite = epoch >> _SUITE_BITS or SUITE_P256
    return _KINDS.get(suite, f"suite {suite}, which this version does not know")


def suite_of(epoch: int) -> int:
    """Suite of a key epoch's envelopes; `MalformedValue` if its number names one that this version does not know."""
    named = epoch >> _SUITE_BITS
    if named not in (0, SUITE_HYBRID, SUITE_REBUILT):
        raise MalformedValue("key epoch", f"{epoch} is of suite {named}, which this version does not know")
    return named or SUITE_P256
