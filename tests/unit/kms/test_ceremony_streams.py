"""Randomness of a shard in a ceremony has the name of all that it is used for: no nonce or ephemeral key is used twice."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bytewise.crypto.curve import GENERATOR, Rng, decode_point, decode_scalar, encode_point
from bytewise.crypto.shares import knows_log
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import DealerLied, ShardLied
from bytewise.protocol.suites import hybrid_epoch
from bytewise.protocol.units import Blob, Digest
from bytewise.service.secret import Secret
from kms.ceremony import canary, responses
from kms.ceremony.deals import commitment_digest, draw_polynomial, judge_complaint, make_complaint, repair_context, seal_value
from kms.ceremony.responses import seeded_rng
from kms.ceremony.state import CeremonyPhase, result_of
from tests.fixtures.kms.ceremonies import generated, new_key, repair
from tests.fixtures.kms.lying_shards import ALL

Name = tuple[bytes | int, ...]
CEREMONY, OTHER = Digest(b"\x0c" * 32), Digest(b"\x0d" * 32)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[Name]:
    """Of all streams that are opened from now on."""
    seen: list[Name] = []

    def watched(seed: Secret, *name: bytes | int) -> Rng:
        seen.append(name)
        return seeded_rng(seed, *name)

    monkeypatch.setattr(responses, "seeded_rng", watched)
    return seen


def named(names: list[Name], what: bytes, act: Callable[[], object]) -> list[Name]:
    """The streams of one kind that an act opens."""
    names.clear()
    act()
    return [each for each in names if len(each) > 1 and each[1] == what]


def test_deal_randomness_is_bound_to_polynomial_and_receivers(names: list[Name]) -> None:
    """In another log of the ceremony, with other deal keys, nothing of it is the same."""
    ceremony = new_key().until(CeremonyPhase.DEALING)
    who, state = ceremony.parties[1].member, ceremony.state
    (name,) = named(names, b"deal", lambda: responses.due_messages(state, who))
    opening = responses._opening(state, who, state.plan.dealers[1])
    assert name == (state.id, b"deal", *opening.commitments, 1, state.keys[1], 2, state.keys[2], 3, state.keys[3])
    (polynomial,) = named(names, b"polynomial", lambda: responses.due_messages(state, who))
    assert polynomial == (state.id, b"polynomial", 2)
    others = replace(state, keys={**state.keys, 3: encode_point(GENERATOR)})
    first, second = (responses.due_messages(each, who)[0] for each in (state, others))
    assert {each.enc for each in first.sealed}.isdisjoint(each.enc for each in second.sealed)  # type: ignore[union-attr]


def test_each_join_key_of_a_shard_has_its_own_stream(names: list[Name]) -> None:
    ceremony = new_key(epoch=hybrid_epoch(1))
    found = named(names, b"kem key", lambda: responses.due_messages(ceremony.state, ceremony.parties[0].member))
    assert found == [(ceremony.state.id, b"kem key")]
    assert {each[1:] for each in names} == {(b"deal key",), (b"kem key",), (b"polynomial", 1)}


def test_complaint_and_confirmation_randomness_is_bound_to_the_statement(names: list[Name]) -> None:
    ceremony = new_key()
    ceremony.parties[0].meddle = ALL["wrong share"]
    state, victim = ceremony.until(CeremonyPhase.JUDGING).state, ceremony.parties[2].member
    (name,) = named(names, b"complaint", lambda: responses.due_messages(state, victim))
    assert name == (state.id, b"complaint", 1, state.deals[1].sealed[2].enc)
    state, result = ceremony.until(CeremonyPhase.CONFIRMING).state, ceremony.state.result
    assert result is not None
    (name,) = named(names, b"confirm", lambda: responses.due_messages(state, victim))
    assert name == (state.id, b"confirm", result.transcript, 3)


def test_repair_randomness_is_bound_to_result_and_receiver(names: list[Name]) -> None:
    ceremony = repair(*generated(2, 3)).until(CeremonyPhase.REPAIRING)
    state, result = ceremony.state, ceremony.state.result
    assert result is not None and state.repair_key is not None
    (name,) = named(names, b"hand", lambda: responses.due_messages(state, ceremony.parties[0].member))
    assert name == (state.id, b"hand", result.transcript, state.repair_key)


def test_streams_of_other_names_or_seeds_are_independent() -> None:
    one, other = Secret(b"\x01" * 32), Secret(b"\x02" * 32)
    drawn = [
        seeded_rng(*each)(64)
        for each in ((one, CEREMONY, b"a"), (other, CEREMONY, b"a"), (one, OTHER, b"a"), (one, CEREMONY, b"b"))
    ]
    blocks = [each[at : at + 32] for each in drawn for at in (0, 32)]
    assert len(set(blocks)) == 8
    again = seeded_rng(one, CEREMONY, b"a")
    assert again(10) + again(54) != drawn[0] and seeded_rng(one, CEREMONY, b"a")(64) == drawn[0]


@pytest.mark.parametrize("what", ["ceremony", "dealer", "receiver"])
def test_complaint_proves_only_its_own_ceremony_dealer_and_receiver(what: str) -> None:
    """The same deal key in another ceremony, or another dealer's deal: its point is shown by whoever copies the complaint."""
    secret = 424242
    key = encode_point(GENERATOR * secret)
    sealed = seal_value(CEREMONY, 1, 2, 7, key, lambda size: bytes([7]) * size)
    polynomial = [GENERATOR * 5, GENERATOR]  # 7 at 2: a good deal
    said = make_complaint(CEREMONY, 1, sealed, secret, lambda size: bytes([9]) * size)
    assert judge_complaint(CEREMONY, said, sealed, key, polynomial) is None
    wrong = judge_complaint(CEREMONY, said, replace(sealed, ciphertext=Blob(bytes(48))), key, polynomial)
    assert isinstance(wrong, DealerLied)
    found = {
        "ceremony": lambda: judge_complaint(OTHER, said, sealed, key, polynomial),
        "dealer": lambda: judge_complaint(CEREMONY, replace(said, dealer=3), sealed, key, polynomial),
        "receiver": lambda: judge_complaint(CEREMONY, said, replace(sealed, receiver=3), key, polynomial),
    }[what]()
    assert isinstance(found, ShardLied) and decode_point(said.point) == decode_point(sealed.enc) * secret


# --- digests that everybody computes again ---

POINTS = tuple(encode_point(GENERATOR * n) for n in (3, 5, 7))
SCALARS = tuple(Blob(bytes([n]) * 32) for n in (1, 2, 3))


def test_commitment_covers_every_member_of_its_opening() -> None:
    """What it left out a dealer could choose after it has seen the others' commitments."""
    said = (CEREMONY, 1, POINTS[:2], SCALARS[0], SCALARS[1])
    others: list[tuple[Digest, int, tuple[Blob, ...], Blob, Blob]] = [
        (OTHER, *said[1:]), (CEREMONY, 2, *said[2:]), (CEREMONY, 1, POINTS[1:], *said[3:]), (CEREMONY, 1, POINTS[:1], *said[3:]),
        (CEREMONY, 1, POINTS, *said[3:]), (*said[:3], SCALARS[2], SCALARS[1]), (*said[:4], SCALARS[2]),
    ]  # fmt: skip
    digests = [commitment_digest(*each) for each in (said, *others)]
    assert len(set(digests)) == len(digests)
    # Nor can a commitment pass for the first part of the proof behind it.
    assert commitment_digest(CEREMONY, 1, (POINTS[0], SCALARS[0]), SCALARS[1], SCALARS[2]) not in digests


def test_transcript_covers_log_polynomials_and_plan() -> None:
    """Who signs it signs all that the ceremony did until then."""
    agreed = new_key(count=2).plan
    rows = {1: (GENERATOR * 3, GENERATOR * 5), 2: (GENERATOR * 7, GENERATOR * 11)}
    plain = result_of(agreed, CEREMONY, rows, {})
    assert result_of(agreed, CEREMONY, rows, {}) == plain
    for head, polynomials in ((OTHER, rows), (CEREMONY, {**rows, 2: (GENERATOR * 7, GENERATOR * 13)}), (CEREMONY, {1: rows[1]})):
        assert result_of(agreed, head, polynomials, {}).transcript != plain.transcript
    assert canary.canary_point(plain.transcript) != canary.canary_point(CEREMONY)
    assert len({repair_context(CEREMONY, CEREMONY), repair_context(CEREMONY, OTHER), repair_context(OTHER, CEREMONY)}) == 3


@pytest.mark.parametrize("what", ["ceremony", "dealer", "threshold", "commitments"])
def test_dealers_proof_is_valid_for_its_own_deal_only(what: str) -> None:
    opening = draw_polynomial(CEREMONY, 1, 42, 2, lambda size: bytes([3]) * size)
    e, f = decode_scalar(opening.e), decode_scalar(opening.f)
    statement: list[bytes | int] = [CEREMONY, 1, 2, *opening.commitments]
    point = decode_point(opening.commitments[0])
    assert knows_log(Label.CEREMONY_KNOWLEDGE, point, e, f, *statement)
    match what:
        case "ceremony":
            statement[0] = OTHER
        case "dealer":
            statement[1] = 2
        case "threshold":
            statement[2] = 3
        case _:
            statement[4] = POINTS[2]
    assert not knows_log(Label.CEREMONY_KNOWLEDGE, point, e, f, *statement)
    assert not knows_log(Label.CEREMONY_EPHEMERAL, point, e, f, CEREMONY, 1, 2, *opening.commitments)
