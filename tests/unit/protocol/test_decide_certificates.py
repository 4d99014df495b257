"""What a member does in a round with a shared root: when it waits, signs, certifies, and when it acts alone."""

from dataclasses import replace

import pytest

from bytewise.protocol import merkle
from bytewise.protocol.court.commitments import sealed
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import CertifyRound, PostCommitRoot, RevealUnderRoot
from bytewise.protocol.decisions.certificates import (
    ALONE,
    CertificatePlan,
    RoundBoard,
    decide_certificate,
    finding_of,
    first_seat,
    leaves_of,
)
from bytewise.protocol.decisions.snapshot import Dispute, Seat
from bytewise.protocol.records.statements import Outcome, Vote
from bytewise.protocol.units import U8, U16, U256, ZERO_DIGEST, Address
from tests.fixtures.snapshot_builders import case, word

WHO = tuple(Address(f"0x{number:040x}") for number in range(1, 6))
MASKS = (0b111, 0b111000, 0b111 << 6, 0b111 << 9, 0b111 << 12)
SEATS = tuple(Seat(who, mask, ZERO_DIGEST, ZERO_DIGEST) for who, mask in zip(WHO, MASKS, strict=True))
ALL, BEGIN, COMMIT_S, REVEAL_S = (1 << 15) - 1, 1000, 160, 160
ME = WHO[0]


def commit(**changes: object) -> Dispute:
    plain = case(phase=Phase.COMMIT, commit_s=COMMIT_S, commit_end=BEGIN + COMMIT_S, reveal_end=BEGIN + COMMIT_S + REVEAL_S)
    return replace(plain, members=SEATS, **changes)  # type: ignore[arg-type]


def reveal(**changes: object) -> Dispute:
    return replace(commit(), phase=Phase.REVEAL, **changes)  # type: ignore[arg-type]


def vote(who: Address = ME, tokens: str = "true") -> Vote:
    mask = U256(MASKS[WHO.index(who)])
    plain = case()
    return Vote(
        plain.id, U16(1), who, mask, U8(Outcome.EXECUTED), U8(0), word(tokens), word("trace"), word("round"), ZERO_DIGEST,
        word("salt", who),
    )  # fmt: skip


LEAVES = {who: sealed(word("commitment", who), who, mask) for who, mask in zip(WHO, MASKS, strict=True)}
UNDER = leaves_of(commit(), LEAVES, ALL)
ROOT = merkle.commit_root(UNDER)
FOUND = {who: finding_of(vote(who)) for who in WHO}
BOARD = RoundBoard(able=frozenset(WHO), leaves=LEAVES)
ROOTED = replace(BOARD, root=ROOT, under=UNDER, opened=FOUND)


def plan(dispute: Dispute, board: RoundBoard, at: int, who: Address = ME, mine: Vote | None = None) -> CertificatePlan:
    """`at`: seconds since the begin of the phase."""
    begin = BEGIN if dispute.phase is Phase.COMMIT else dispute.commit_end
    return decide_certificate(begin + at, dispute, who, mine or vote(who), LEAVES[who], board)


FEW, FOUR = (replace(BOARD, leaves={who: LEAVES[who] for who in WHO[:count]}) for count in (1, 4))
WITHOUT_MINE = {place: leaf for place, leaf in UNDER.items() if place != first_seat(SEATS[0])}
COMMITTED = replace(SEATS[0], commitment=word("c"))
WAITS = CertificatePlan(shares_commitment=True)


def posts(members: int) -> CertificatePlan:
    """Sends the root of these members' commitments."""
    root = merkle.commit_root(leaves_of(commit(), LEAVES, members))
    return CertificatePlan(shares_commitment=True, actions=(PostCommitRoot(commit().id, 1, root),))


COMMITS: dict[str, tuple[CertificatePlan, CertificatePlan]] = {
    "a commitment is shared": (plan(commit(), FEW, 0), WAITS),
    "less than a quorum makes no root": (plan(commit(), FEW, 119), WAITS),
    "three quarters are over": (plan(commit(), FEW, 120), ALONE),
    "the first member posts the root at once": (plan(commit(), BOARD, 0), posts(ALL)),
    "the second one waits": (plan(commit(), BOARD, 0, WHO[1]), WAITS),
    "until its turn": (plan(commit(), BOARD, 89, WHO[1]), WAITS),
    "and posts it then": (plan(commit(), BOARD, 90, WHO[1]), posts(ALL)),
    "somebody is missing before half of the phase": (plan(commit(), FOUR, 79), WAITS),
    "and is left out after it": (plan(commit(), FOUR, 80), posts(0b111111111111)),
    **{f"a root with its commitment, {at} s": (plan(commit(), ROOTED, at), CertificatePlan()) for at in (0, 100, 159)},
    "a root without its commitment": (plan(commit(), replace(ROOTED, under=WITHOUT_MINE), 0), ALONE),
    "a root with another commitment": (plan(commit(), replace(ROOTED, under={**UNDER, 0: word("another")}), 0), ALONE),
    "a root of unknown members": (plan(commit(), replace(ROOTED, under=None), 119), WAITS),
    "and it is late": (plan(commit(), replace(ROOTED, under=None), 120), ALONE),
    "no key": (plan(commit(), replace(BOARD, able=frozenset(WHO[1:])), 0), ALONE),
    "a commitment on the chain": (plan(replace(commit(), members=(COMMITTED, *SEATS[1:])), BOARD, 0), ALONE),
}


@pytest.mark.parametrize("name", COMMITS)
def test_plan_of_a_member_while_commitments_are_made(name: str) -> None:
    found, wanted = COMMITS[name]
    assert found == wanted


def test_member_opens_its_vote_and_signs_for_all_that_agree() -> None:
    assert plan(reveal(), ROOTED, 1) == CertificatePlan(opens_vote=True, signs=ALL)
    silent = replace(ROOTED, opened={who: FOUND[who] for who in WHO[:4]})
    assert plan(reveal(), silent, 1) == CertificatePlan(opens_vote=True)
    assert plan(reveal(), silent, 20).signs == 0b111111111111
    split = replace(ROOTED, opened={**FOUND, WHO[4]: finding_of(vote(WHO[4], "other"))})
    assert plan(reveal(), split, 1).signs == 0b111111111111


def test_member_without_a_quorum_beside_it_reveals_itself() -> None:
    mine = vote(ME, "other")
    split = replace(ROOTED, opened={**FOUND, ME: finding_of(mine)})
    (alone,) = plan(reveal(), split, 1, mine=mine).actions
    assert isinstance(alone, RevealUnderRoot)
    assert merkle.commit_root_from(LEAVES[ME], 0, alone.proof) == ROOT


def test_next_attempt_leaves_out_who_did_not_sign() -> None:
    waiting = replace(ROOTED, signed=(ALL,), shares={ALL: set(WHO[:4])})
    assert plan(reveal(), waiting, 39).signs == 0
    assert plan(reveal(), waiting, 40).signs == 0b111111111111
    again = replace(waiting, signed=(ALL, 0b111111111111), shares={ALL: set(WHO[:4]), 0b111111111111: set(WHO[:4])})
    assert plan(reveal(), again, 60).signs == 0
    too_few = replace(ROOTED, signed=(ALL,), shares={ALL: set(WHO[:3])})
    assert plan(reveal(), too_few, 40).signs == 0


def test_member_signs_for_three_sets_at_most() -> None:
    assert plan(reveal(), replace(ROOTED, signed=(1, 2, 3), shares={3: set(WHO[:4])}), 70).signs == 0


def test_first_signer_sends_the_certificate_and_others_in_turn() -> None:
    done = replace(ROOTED, signed=(ALL,), shares={ALL: set(WHO)}, complete={ALL})
    certify = CertifyRound(FOUND[ME], ROOT, ALL, True)
    assert plan(reveal(), done, 1) == CertificatePlan(actions=(certify,), opens_vote=True)
    assert plan(reveal(), done, 1, WHO[1]).actions == ()
    assert plan(reveal(), done, 61, WHO[1]).actions == ()
    assert plan(reveal(), done, 62, WHO[1]).actions == (replace(certify, finding=FOUND[WHO[1]]),)


def test_certificate_settles_only_if_every_seat_has_spoken() -> None:
    four = 0b111111111111
    done = replace(ROOTED, signed=(four,), shares={four: set(WHO[:4])}, complete={four})
    (certify,) = plan(reveal(), done, 1).actions
    assert isinstance(certify, CertifyRound) and not certify.settles
    spoken = replace(reveal(), members=(*SEATS[:4], replace(SEATS[4], group=word("group"))))
    (certify,) = plan(spoken, done, 1).actions
    assert isinstance(certify, CertifyRound) and certify.settles


def test_member_reveals_itself_late_or_beside_a_certificate_without_it() -> None:
    for at, dispute in ((80, reveal()), (1, reveal(certified_group=word("group")))):
        (alone,) = plan(dispute, ROOTED, at).actions
        assert isinstance(alone, RevealUnderRoot)
    counted = replace(reveal(), members=(replace(SEATS[0], group=word("group")), *SEATS[1:]))
    assert plan(counted, ROOTED, 100) == ALONE


def test_member_that_comes_late_signs_for_its_own_seats_too() -> None:
    others = replace(ROOTED, opened={who: FOUND[who] for who in WHO[1:]})
    assert plan(reveal(), others, 21).signs == ALL


def test_member_that_lost_its_key_signs_nothing_and_reveals_under_the_root() -> None:
    keyless = replace(ROOTED, able=frozenset(WHO[1:]))
    assert plan(reveal(), keyless, 21).signs == 0
    (alone,) = plan(reveal(), keyless, 80).actions
    assert isinstance(alone, RevealUnderRoot)


def test_member_that_relied_on_no_root_has_nothing_to_reveal() -> None:
    assert plan(reveal(), BOARD, 1) == ALONE
