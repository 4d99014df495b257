"""The hybrid suite: two halves, one plaintext whichever shards answer, and attackers who each win where their defence is gone."""

import itertools
import json
import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.crypto import hpke, hybrid
from bytewise.crypto.curve import GENERATOR, decode_point, encode_scalar
from bytewise.crypto.envelope import MAX_ENVELOPE_BYTES, PART_BYTES, open_with_point, seal_padded, verify_envelope
from bytewise.crypto.hybrid import EnvelopeContext, Recipients
from bytewise.crypto.shares import MAX_SHARDS
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import EnvelopeDoesNotOpen, EnvelopeProofBad, MalformedValue
from bytewise.protocol.records.seal import Envelope, HybridEnvelope
from bytewise.protocol.suites import SUITE_HYBRID, SUITE_P256, hybrid_epoch, suite_of
from bytewise.protocol.units import Blob, Digest
from tests.fixtures.kms.hybrid_epoch import (
    CONTEXT,
    DATA,
    EPOCH,
    NOTHING,
    PLACE,
    PLAIN,
    PUBLIC,
    RECEIPT,
    SECRET,
    TO,
    opened,
    partial_of,
    shares_of,
    verified,
)


def test_any_three_or_more_of_five_shards_give_the_same_plaintext() -> None:
    for indices in (each for n in (3, 4, 5) for each in itertools.combinations(range(1, 6), n)):
        assert opened(verified(), indices) == PLAIN, indices


@pytest.mark.parametrize(("threshold", "count"), [(1, 1), (1, 2), (2, 3), (4, 7)])
def test_envelope_of_every_size_opens(threshold: int, count: int) -> None:
    seeds = [os.urandom(64) for _ in range(count)]
    to = Recipients(threshold, tuple(hpke.kem_key(seed) for seed in seeds))
    psk, parts = hybrid.share_psk(to, PLACE, os.urandom)
    envelope = replace(verified(), parts=parts)
    shares = {}
    for index, seed in enumerate(seeds, start=1):
        answer = hybrid.make_partial(replace(NOTHING, index=index), envelope, PLACE, seed, Digest(bytes(32)))
        assert answer.share is not None
        shares[index] = int.from_bytes(answer.share)
    for subset in itertools.combinations(shares, threshold):
        assert hybrid.recover_psk({index: shares[index] for index in subset}, envelope, to, PLACE) == psk


def test_suite_is_fixed_by_the_epoch_and_sealing_to_another_is_a_bug() -> None:
    assert [suite_of(each) for each in (0, 1, 2**32 - 1, EPOCH)] == [SUITE_P256] * 3 + [SUITE_HYBRID]
    for epoch in (2**32, 4 << 32, 2**63):
        with pytest.raises(MalformedValue, match="does not know"):
            suite_of(epoch)
    with pytest.raises(ConfigurationError, match="hybrid keys missing"):
        seal_padded(PLAIN, PUBLIC, CONTEXT, EPOCH, os.urandom)
    with pytest.raises(ConfigurationError, match="hybrid keys given"):
        seal_padded(PLAIN, PUBLIC, CONTEXT, 1, os.urandom, TO)


# --- who breaks P-256 ---


def harvested(envelope: HybridEnvelope, shards: tuple[int, ...]) -> bytes | None:
    """What a quantum computer reads of a stored envelope that also has these shards' ML-KEM keys: P-256 gives it the point."""
    logarithm, shares = SECRET, shares_of(envelope, shards)
    guess = hpke.Psk(encode_scalar(hybrid._value(shares, 0)), hybrid.parts_digest(envelope.parts)) if shares else hpke.NO_PSK
    try:
        return open_with_point(envelope, decode_point(envelope.enc) * logarithm, PUBLIC, CONTEXT, RECEIPT, guess)
    except EnvelopeDoesNotOpen:
        return None


def test_breaking_p256_opens_nothing_without_t_shards() -> None:
    """Controls: with t of them, and an envelope without the ML-KEM half."""
    for shards in (each for n in (0, 1, 2) for each in itertools.combinations(range(1, 6), n)):
        assert harvested(verified(), shards) is None, shards
    assert harvested(verified(), (1, 3, 5)) == PLAIN
    plain = verify_envelope(seal_padded(PLAIN, PUBLIC, CONTEXT, 1, os.urandom), CONTEXT, RECEIPT)
    assert open_with_point(plain, decode_point(plain.enc) * SECRET, PUBLIC, CONTEXT, RECEIPT) == PLAIN


def test_breaking_mlkem_alone_opens_nothing() -> None:
    envelope = verified()
    psk = hybrid.recover_psk(shares_of(envelope, (1, 2, 3)), envelope, TO, PLACE)
    assert psk is not None
    for wrong in (GENERATOR, decode_point(envelope.enc), decode_point(envelope.ubar)):
        with pytest.raises(EnvelopeDoesNotOpen):
            open_with_point(envelope, wrong, PUBLIC, CONTEXT, RECEIPT, psk)


# --- who changes an envelope ---


def stripped(envelope: HybridEnvelope, suite: int) -> bytes:
    """The first half alone."""
    members = {name: value for name, value in json.loads(encode(envelope)).items() if name != "parts"}
    return encode({**members, "suite": suite})


def test_stripped_envelope_is_refused_under_every_label() -> None:
    for suite, believed in itertools.product([SUITE_P256, SUITE_HYBRID], repeat=2):
        with pytest.raises(EnvelopeProofBad):
            verify_envelope(stripped(verified(), suite), CONTEXT, RECEIPT, believed)


def test_envelope_of_the_old_suite_passes_only_if_its_label_is_believed() -> None:
    """Sealed by an operator that wants no second half: with a good proof, which its epoch's suite does not let count."""
    weak = encode(replace(verify_envelope(seal_padded(PLAIN, PUBLIC, CONTEXT, 1, os.urandom), CONTEXT, RECEIPT)))
    with pytest.raises(EnvelopeProofBad):
        verify_envelope(weak, CONTEXT, RECEIPT, SUITE_HYBRID)
    assert verify_envelope(weak, CONTEXT, RECEIPT, decode(Envelope, weak).suite).suite == SUITE_P256


def swapped(field: str) -> HybridEnvelope:
    """One member of part 2 replaced by that of a second envelope of the same sender."""
    other = verified(seal_padded(PLAIN, PUBLIC, CONTEXT, EPOCH, os.urandom, TO))
    mine = verified()
    part = replace(mine.parts[1], **{field: getattr(other.parts[1], field)})
    return replace(mine, parts=(mine.parts[0], part, *mine.parts[2:]))


@pytest.mark.parametrize("field", ["kem", "sealed", "commitment"])
def test_the_proof_covers_every_member_of_every_part(field: str) -> None:
    with pytest.raises(EnvelopeProofBad, match="proof does not hold"):
        verified(encode(swapped(field)))


def test_parts_outside_the_proof_can_be_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = swapped("sealed")
    monkeypatch.setattr(hybrid, "parts_digest", lambda _parts: Digest(bytes(32)))
    data = seal_padded(PLAIN, PUBLIC, CONTEXT, EPOCH, os.urandom, TO)
    forged = replace(verified(data), parts=changed.parts)
    assert verified(encode(forged)).parts == changed.parts, "the control: a proof that does not cover the parts holds"
    monkeypatch.undo()
    with pytest.raises(EnvelopeProofBad):
        verified(encode(forged))


def test_parts_in_another_order_or_number_are_refused() -> None:
    mine = verified()
    for order in ((1, 0, 2, 3, 4), (0, 1, 2, 3), (0, 1, 2, 3, 4, 4), ()):
        with pytest.raises(EnvelopeProofBad):
            verified(encode(replace(mine, parts=tuple(mine.parts[i] for i in order))))


def test_parts_of_another_receipt_open_nothing() -> None:
    place = EnvelopeContext(Digest(b"\x09" * 32), EPOCH)
    assert partial_of(1, verified()).share is not None
    assert partial_of(1, verified(), place).share is None
    assert partial_of(1, verified(), EnvelopeContext(CONTEXT, hybrid_epoch(2))).share is None


@pytest.mark.parametrize("member", ["kem", "sealed"])
def test_members_of_another_length_are_refused(member: str) -> None:
    first, *others = verified().parts
    value = getattr(first, member)
    for wrong in (b"", value[:-1], value + b"\0"):
        changed = replace(first, **{member: Blob(wrong)})  # type: ignore[arg-type]
        with pytest.raises(EnvelopeProofBad, match="part 1"):
            verified(encode(replace(verified(), parts=(changed, *others))))


def test_parts_beyond_the_largest_shard_number_are_refused() -> None:
    to = Recipients(2, TO.keys * 12 + TO.keys[:4])
    assert len(to.keys) == MAX_SHARDS
    data = seal_padded(bytes(2**21), PUBLIC, CONTEXT, hybrid_epoch(2**32 - 1), os.urandom, to)
    assert len(data) <= MAX_ENVELOPE_BYTES + MAX_SHARDS * PART_BYTES
    assert len(verified(data).parts) == MAX_SHARDS
    many = seal_padded(PLAIN, PUBLIC, CONTEXT, EPOCH, os.urandom, Recipients(2, (*to.keys, TO.keys[0])))
    with pytest.raises(EnvelopeProofBad):
        verified(many)


@given(st.integers(0, len(DATA) - 1), st.integers(0, 255))
@settings(max_examples=60)
def test_no_byte_of_a_hybrid_envelope_can_be_changed(at: int, value: int) -> None:
    changed = bytearray(DATA)
    changed[at] = value
    if bytes(changed) != DATA:
        with pytest.raises(EnvelopeProofBad):
            verified(bytes(changed))


ELSEWHERE = {"context": PLACE._replace(context=Digest(b"\x09" * 32)), "epoch": PLACE._replace(key_epoch=PLACE.key_epoch + 1)}


@pytest.mark.parametrize("what", ["secret", "context", "epoch", "index", "share"])
def test_part_is_bound_to_one_secret_receipt_and_shard(what: str) -> None:
    """What encapsulates a share comes of the PSK: without it, everybody could; and no part is good anywhere else."""
    secret, place, key = bytes(32), ELSEWHERE.get(what, PLACE), TO.keys[0]
    plain = hybrid._part(secret, 1, 7, key, PLACE)
    other = hybrid._part(
        b"\x01" * 32 if what == "secret" else secret, 2 if what == "index" else 1, 8 if what == "share" else 7, key, place
    )
    assert (other.kem != plain.kem) == (what != "share")
    assert other.sealed != plain.sealed
    assert (other.commitment != plain.commitment) == (what != "secret")
    assert (hybrid._info(1, plain.kem, PLACE) != hybrid._info(2 if what == "index" else 1, plain.kem, place)) == (
        what in ("context", "epoch", "index")
    )
    assert hybrid._info(1, plain.kem, PLACE) != hybrid._info(1, plain.kem[:-1], PLACE)


def test_envelope_has_between_one_part_and_the_largest_number_of_shards() -> None:
    part = verified().parts[0]
    for count in (0, MAX_SHARDS + 1):
        with pytest.raises(MalformedValue, match=f"{count} of them"):
            hybrid.verify_sizes([part] * count)
    assert len(hybrid.verify_sizes([part] * MAX_SHARDS)) == MAX_SHARDS
