"""Suites of sealed envelopes. The number of a key epoch names its suite (design section 8).

Receipt, ticket, release record and chain all name the epoch by its number. None of them needs a field for the suite, so none can
contradict it.
"""

from bytewise.protocol.errors.records import MalformedValue

SUITE_P256 = 1
"""DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, mode base, with a TDH2 proof."""

SUITE_HYBRID = 2
"""As `SUITE_P256`, in mode PSK. The PSK is shared among the shards; each share is sealed to the ML-KEM-768 key of its shard."""

SUITE_REBUILT = 3
"""As `SUITE_P256`, for an epoch whose key enclaves reconstruct from t shares: the mode of the paper (ADR-038)."""

_SUITE_BITS = 32
"""The bits of an epoch's number above these name its suite; 0 means `SUITE_P256`."""

_KINDS = {
    SUITE_P256: "shards open one receipt at a time",
    SUITE_HYBRID: "hybrid, shards open one receipt at a time",
    SUITE_REBUILT: "enclaves rebuild its key",
}

KEM_KEY_BYTES = 1184
"""ML-KEM-768 encapsulation key (FIPS 203, table 3)."""


def hybrid_epoch(number: int) -> int:
    """Number of a hybrid key epoch, from its count from 1."""
    return (SUITE_HYBRID << _SUITE_BITS) | number


def rebuilt_epoch(number: int) -> int:
    """Number of a key epoch whose key enclaves reconstruct, from its count from 1."""
    return (SUITE_REBUILT << _SUITE_BITS) | number


def is_rebuilt(epoch: int) -> bool:
    """Whether enclaves reconstruct the key of this epoch; False for an unknown suite."""
    return epoch >> _SUITE_BITS == SUITE_REBUILT


def is_key_epoch(number: int) -> bool:
    """Whether this can be the number of a key epoch: a known suite, counted from 1."""
    return number >> _SUITE_BITS in (0, SUITE_HYBRID, SUITE_REBUILT) and number % (1 << _SUITE_BITS) != 0


def kind_of(epoch: int) -> str:
    """Description for people: what shards of this epoch release to an enclave, and what the enclave can open with it."""
    suite = epoch >> _SUITE_BITS or SUITE_P256
    return _KINDS.get(suite, f"suite {suite}, which this version does not know")


def suite_of(epoch: int) -> int:
    """Suite of a key epoch's envelopes. `MalformedValue` if its number names an unknown suite."""
    named = epoch >> _SUITE_BITS
    if named not in (0, SUITE_HYBRID, SUITE_REBUILT):
        raise MalformedValue("key epoch", f"{epoch} is of suite {named}, which this version does not know")
    return named or SUITE_P256
