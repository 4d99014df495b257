"""Suites of sealed envelopes. The number of a key epoch names its suite (design section 8).

Receipt, ticket, release record and chain all name the epoch by its number. None of them needs a field for the suite, so none can
contradict it.
"""

from bytewise.protocol.errors.records import MalformedValue

SUITE_P256 = 1
"""DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, mode base, with a TDH2 proof."""

SUITE_HYBRID = 2
"""Like `SUITE_P256`, but in mode PSK. The pre-shared key (PSK) is split among the shards, and each share is sealed to the
ML-KEM-768 key of its shard."""

SUITE_REBUILT = 3
"""Like `SUITE_P256`, but enclaves reconstruct the epoch's key from t shares. This is the mode of the paper (ADR-040)."""

_SUITE_BITS = 32
"""Number of low bits of an epoch's number that count the epoch. The bits above name the suite; 0 there means `SUITE_P256`."""

_KINDS = {
    SUITE_P256: "shards open one receipt at a time",
    SUITE_HYBRID: "hybrid, shards open one receipt at a time",
    SUITE_REBUILT: "enclaves rebuild its key",
}

KEM_KEY_BYTES = 1184
"""Length of an ML-KEM-768 encapsulation key (FIPS 203, table 3)."""


def hybrid_epoch(number: int) -> int:
    """Returns the number of a hybrid key epoch: its suite in the high bits, and `number`, at least 1, in the low bits."""
    return (SUITE_HYBRID << _SUITE_BITS) | number


def rebuilt_epoch(number: int) -> int:
    """Returns the number of a rebuilt key epoch: its suite in the high bits, and `number`, at least 1, in the low bits."""
    return (SUITE_REBUILT << _SUITE_BITS) | number


def is_rebuilt(epoch: int) -> bool:
    """Returns whether enclaves reconstruct the key of this epoch. Returns False for an unknown suite."""
    return epoch >> _SUITE_BITS == SUITE_REBUILT


def is_key_epoch(number: int) -> bool:
    """Returns whether this can be the number of a key epoch: its suite is known and its low bits are not 0."""
    return number >> _SUITE_BITS in (0, SUITE_HYBRID, SUITE_REBUILT) and number % (1 << _SUITE_BITS) != 0


def kind_of(epoch: int) -> str:
    """Describes, for people, what the shards of this epoch release to an enclave and what the enclave can open with it."""
    suite = epoch >> _SUITE_BITS or SUITE_P256
    return _KINDS.get(suite, f"suite {suite}, which this version does not know")


def suite_of(epoch: int) -> int:
    """Returns the suite of a key epoch's envelopes. Raises `MalformedValue` if the number names an unknown suite."""
    named = epoch >> _SUITE_BITS
    if named not in (0, SUITE_HYBRID, SUITE_REBUILT):
        raise MalformedValue("key epoch", f"{epoch} is of suite {named}, which this version does not know")
    return named or SUITE_P256
