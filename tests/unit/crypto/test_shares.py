"""Shares and partials: any t combine, fewer do not, and a lying shard is named."""

import itertools
import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.crypto.curve import GENERATOR, ORDER, encode_point, encode_scalar
from bytewise.crypto.shares import combine, prove_partial, split, verification_key, verify_partial, verify_share
from bytewise.protocol.errors.actors import ConfigurationError, ShardLied
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.epochs import Partial
from bytewise.protocol.units import Blob, Digest

RECEIPT, OTHER = Digest(b"\x03" * 32), Digest(b"\x04" * 32)
BASE = GENERATOR * 987654321


@given(st.integers(1, ORDER - 1), st.integers(1, 4), st.integers(0, 3), st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_any_threshold_of_shares_gives_the_point_and_fits(secret: int, threshold: int, spare: int, random: object) -> None:
    count = threshold + spare
    shares, commitments = split(secret, threshold, count, lambda size: random.randbytes(size))  # type: ignore[attr-defined]
    for index, share in shares.items():
        assert verify_share(index, share, commitments) == share
    for subset in itertools.combinations(shares, threshold):
        assert combine({i: BASE * shares[i] for i in subset}) == BASE * secret
    for subset in itertools.combinations(shares, threshold - 1):
        assert threshold == 1 or combine({i: BASE * shares[i] for i in subset}) != BASE * secret


def test_a_share_of_another_polynomial_is_refused() -> None:
    shares, commitments = split(5, 2, 3, os.urandom)
    for wrong in (shares[1] + 1, shares[2], 0, ORDER + shares[1]):
        with pytest.raises(ConfigurationError):
            verify_share(1, wrong, commitments)


@pytest.mark.parametrize("shape", [(0, 3), (4, 3), (1, 65)])
def test_impossible_thresholds_are_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ConfigurationError):
        split(5, *shape, os.urandom)


@pytest.mark.parametrize("indices", [(), (0,), (1, 65)])
def test_partials_of_impossible_shards_do_not_combine(indices: tuple[int, ...]) -> None:
    with pytest.raises(MalformedValue):
        combine({index: BASE for index in indices})


def test_partial_naming_another_shard_is_blamed_on_its_sender() -> None:
    share = 424242
    given = prove_partial(2, share, BASE, RECEIPT, os.urandom)
    assert verify_partial(given, 2, GENERATOR * share, BASE, RECEIPT) == BASE * share
    with pytest.raises(ShardLied, match="index 3"):
        verify_partial(replace(given, index=3), 2, GENERATOR * share, BASE, RECEIPT)


def test_a_proof_of_nothing_is_no_proof() -> None:
    """Response and challenge that cancel: both witnesses are the identity, which no honest prover has."""
    share, e = 424242, 7
    forged = Partial(2, encode_point(BASE * share), encode_scalar(e), encode_scalar(share * e))
    with pytest.raises(ShardLied, match="degenerate proof"):
        verify_partial(forged, 2, GENERATOR * share, BASE, RECEIPT)


@pytest.mark.parametrize("liars", [s for n in (1, 2, 3) for s in itertools.combinations(range(1, 6), n)])
def test_every_liar_is_named_and_the_others_suffice(liars: tuple[int, ...]) -> None:
    """2 of 5: whichever 1, 2 or 3 shards lie, they are found and the rest give the right point."""
    secret = 424242
    shares, commitments = split(secret, 2, 5, os.urandom)
    honest, named = {}, set()
    for index, share in shares.items():
        partial = prove_partial(index, share + 1 if index in liars else share, BASE, RECEIPT, os.urandom)
        try:
            honest[index] = verify_partial(partial, index, verification_key(index, commitments), BASE, RECEIPT)
        except ShardLied as lie:
            named.add(lie.values[0])
    assert named == set(liars)
    for subset in itertools.combinations(honest, 2):
        assert combine({i: honest[i] for i in subset}) == BASE * secret


def test_without_proofs_one_liar_spoils_every_subset_it_is_in() -> None:
    shares, _ = split(7, 3, 5, os.urandom)
    points = {i: BASE * (share + (i == 2)) for i, share in shares.items()}
    wrong = [s for s in itertools.combinations(points, 3) if combine({i: points[i] for i in s}) != BASE * 7]
    assert len(wrong) == 6 and all(2 in subset for subset in wrong)


def test_partial_is_valid_for_its_shard_receipt_and_point_only() -> None:
    key = GENERATOR * 55
    good = prove_partial(1, 55, BASE, RECEIPT, os.urandom)
    assert verify_partial(good, 1, key, BASE, RECEIPT) == BASE * 55
    cases = [
        (good, 2, key, BASE, RECEIPT),
        (good, 1, GENERATOR * 56, BASE, RECEIPT),
        (good, 1, key, BASE + GENERATOR, RECEIPT),
        (good, 1, key, BASE, OTHER),
        (Partial(1, encode_point(BASE * 56), good.e, good.f), 1, key, BASE, RECEIPT),
        (Partial(1, good.point, good.f, good.e), 1, key, BASE, RECEIPT),
        (Partial(1, Blob(b"\x04" + bytes(64)), good.e, good.f), 1, key, BASE, RECEIPT),
        (Partial(1, good.point, Blob(b"\xff" * 32), good.f), 1, key, BASE, RECEIPT),
        (Partial(1, good.point, Blob(b""), good.f), 1, key, BASE, RECEIPT),
        (Partial(1, good.point, Blob(bytes(32)), Blob(bytes(32))), 1, key, BASE, RECEIPT),
    ]
    for arguments in cases:
        with pytest.raises(ShardLied):
            verify_partial(*arguments)
