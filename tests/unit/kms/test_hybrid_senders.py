"""Senders that give shards something else than they should: found by every enclave alike, whichever shards answered it."""

import itertools
import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.crypto import hpke, hybrid, mlkem
from bytewise.crypto.curve import ORDER, encode_scalar, random_scalar
from bytewise.crypto.shares import evaluate
from bytewise.protocol.records.seal import HybridEnvelope, HybridPart
from bytewise.protocol.units import Blob
from tests.fixtures.kms.hybrid_epoch import COUNT, PLACE, SEEDS, THRESHOLD, TO, partial_of, shares_of, verified


def sealed_badly(bad: dict[int, str], degree: int = THRESHOLD) -> HybridEnvelope:
    """Parts of a sender that does as it likes with some of them; the envelope's own proof is good."""
    coefficients = [random_scalar(os.urandom) for _ in range(degree)]
    secret, parts = encode_scalar(coefficients[0]), []
    for index, key in enumerate(TO.keys, start=1):
        share = evaluate(coefficients, index)
        honest = hybrid._part(secret, index, share, key, PLACE)
        other = hybrid._part(secret, index, (share + 1) % ORDER, key, PLACE)
        unread = mlkem.encapsulate(key, os.urandom(32)).ciphertext
        parts.append(
            {
                "": honest,
                "garbage": HybridPart(Blob(os.urandom(1088)), Blob(os.urandom(48)), honest.commitment),
                "another secret": replace(honest, kem=unread),
                "another share": replace(other, commitment=honest.commitment),
                "another commitment": replace(honest, commitment=other.commitment),
                "off the polynomial": other,
                "not from the secret": _fresh_part(index, share, key),
            }[bad.get(index, "")]
        )
    return replace(verified(), parts=tuple(parts))


def _fresh_part(index: int, share: int, key: Blob) -> HybridPart:
    """A part that its shard opens well, of a message that does not follow from the PSK."""
    return hybrid._part(os.urandom(32), index, share, key, PLACE)


FAULTS = ("garbage", "another secret", "another share", "another commitment", "off the polynomial", "not from the secret")
UNREADABLE = FAULTS[:4]


@given(st.dictionaries(st.integers(1, COUNT), st.sampled_from(FAULTS), max_size=COUNT), st.integers(1, COUNT))
@settings(max_examples=40, deadline=None)
def test_outcome_does_not_depend_on_which_shards_answer(bad: dict[int, str], degree: int) -> None:
    envelope = sealed_badly(bad, degree)
    shares = shares_of(envelope, tuple(range(1, COUNT + 1)))
    assert set(shares) == {index for index in range(1, COUNT + 1) if bad.get(index) not in UNREADABLE}
    outcomes = {
        hybrid.recover_psk({index: shares[index] for index in subset}, envelope, TO, PLACE)
        for subset in itertools.combinations(shares, THRESHOLD)
    }
    fair = not bad and degree <= THRESHOLD
    assert len(outcomes) <= 1 and (None in outcomes or fair or not outcomes)


@pytest.mark.parametrize("fault", FAULTS)
def test_one_bad_part_is_found_without_asking_its_shard(fault: str) -> None:
    envelope = sealed_badly({5: fault})
    assert hybrid.recover_psk(shares_of(envelope, (1, 2, 3)), envelope, TO, PLACE) is None


def test_without_reencapsulation_plaintext_depends_on_the_answering_shards() -> None:
    """The control: interpolation alone gives each set of shards its own PSK."""
    envelope = sealed_badly({5: "off the polynomial"})
    values = {hybrid._value(shares_of(envelope, subset), 0) for subset in itertools.combinations(range(1, 6), THRESHOLD)}
    assert len(values) > 1


def test_share_above_the_group_order_is_refused() -> None:
    """Two encodings of one share would let a sender make two honest shards contradict each other."""
    mine, key = verified(), TO.keys[0]
    encapsulated = mlkem.encapsulate(key, bytes(32))
    value = (ORDER + 5).to_bytes(32, "big")
    info = hybrid._info(1, encapsulated.ciphertext, PLACE)
    sealed = hpke.key_schedule(encapsulated.secret, info, kem=hpke.ML_KEM_768).seal(value)
    part = HybridPart(encapsulated.ciphertext, Blob(sealed), hybrid._commitment(value, 1, PLACE))
    assert hpke.open_with_kem(SEEDS[0], info, part.kem + part.sealed) == value
    assert partial_of(1, replace(mine, parts=(part, *mine.parts[1:]))).share is None
