"""Decisions: recomputed from nothing, never repeated once the chain shows them, and never an accusation out of doubt."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.actions import (
    Action,
    CastCommit,
    CastReveal,
    DrawSeats,
    OpenDispute,
    PostAudit,
    Rearm,
    RunAudit,
    RunVoteJob,
    Settle,
    Withdraw,
)
from bytewise.protocol.decide import (
    AuditDuty,
    AuditedReceipt,
    MovePolicy,
    VotePolicy,
    WatchPolicy,
    decide_auditor,
    decide_member,
    decide_moves,
    decide_watchtower,
)
from bytewise.protocol.dispute import Dispute, Member, Params, Phase, Snapshot
from bytewise.protocol.errors import ProtectionMissing
from bytewise.protocol.messages import AuditOutcome, AuditResult, Vote
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.sortition import audit_is_drawn
from bytewise.protocol.units import U8, U16, U64, U256, ZERO_DIGEST, Address, Digest
from tests.world import DISPUTES, NOW, signer, word

PEOPLE = tuple(signer(f"verifier {i}").address for i in range(5))
ME = PEOPLE[2]
STRANGER = signer("watchtower").address
STAKES = tuple((who, 100) for who in PEOPLE)
PARAMS = Params(
    window_s=600, max_anchor_delay_s=60, commit_s=60, reveal_s=60, seats=(15, 31), tau_num=2, tau_den=3,
    audit_rate_bps=9000, audit_unit_wei=10, required_bond_wei=100,
)  # fmt: skip
MOVES = MovePolicy(turn_blocks=1, overdue_s=30)
VOTES = VotePolicy(job_margin_s=3)


def member(who: Address = ME, commitment: Digest = ZERO_DIGEST, revealed: bool = False) -> Member:
    return Member(who, 0b101, commitment, revealed, 0, 0, ZERO_DIGEST)


def dispute(phase: Phase, *members: Member, name: str = "d", **changes: object) -> Dispute:
    plain = Dispute(
        id=word(name), receipt_id=word("receipt", name), batch_id=0, operator=signer("operator").address, challenger=STRANGER,
        claimed_out_hash=word("claim"), key_epoch=1, phase=phase, round=1, seats=15, seed_block=95, round_seed=word("seed"),
        opened_at=NOW - 20, commit_end=NOW + 40, reveal_end=NOW + 100, bond_wei=100, verdict=0, replacement=ZERO_DIGEST,
        members=members,
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def snapshot(*disputes: Dispute, number: int = 100, timestamp: int = NOW, credit_wei: int = 0) -> Snapshot:
    return Snapshot(
        block_hash=word("block", number), number=number, timestamp=timestamp, params=PARAMS, disputes=disputes,
        dispute_count=len(disputes), verifiers=STAKES, credit_wei=credit_wei, active_epoch=1,
        policy=word("policy"),
    )  # fmt: skip


def vote(of: Dispute, salt: str = "salt") -> Vote:
    return Vote(
        of.id, U16(of.round), ME, U256(0b101), U8(1), U8(0), word("tokens"), word("trace"), word("round digest"), word("quote"),
        word(salt),
    )  # fmt: skip


def applied(seen: Snapshot, action: Action) -> Snapshot:
    """What the chain shows once an action of ours is in a block: the transition table of the contracts."""
    return replace(seen, disputes=tuple(_moved(each, action, seen) for each in seen.disputes))


def _moved(each: Dispute, action: Action, seen: Snapshot) -> Dispute:
    match action:
        case DrawSeats(id_, _) if id_ == each.id:
            return replace(each, phase=Phase.COMMIT, members=(member(PEOPLE[0]),), commit_end=seen.timestamp + 60)
        case Rearm(id_, _) if id_ == each.id:
            return replace(each, seed_block=seen.number + 2)
        case Settle(id_, _) if id_ == each.id:
            return replace(each, phase=Phase.FINAL)
        case CastCommit(cast, commitment) if cast.dispute == each.id:
            return replace(each, members=tuple(replace(m, commitment=commitment) if m.voter == ME else m for m in each.members))
        case CastReveal(cast) if cast.dispute == each.id:
            return replace(each, members=tuple(replace(m, revealed=True) if m.voter == ME else m for m in each.members))
    return each


phases = st.sampled_from([Phase.SEED, Phase.COMMIT, Phase.REVEAL, Phase.FINAL])


@st.composite
def situations(draw: st.DrawFn) -> tuple[Snapshot, dict[tuple[Digest, int], Vote]]:
    disputes, votes = [], {}
    for name in "abc"[: draw(st.integers(1, 3))]:
        each = dispute(
            draw(phases), name=name, seed_block=draw(st.integers(-300, 110)), reveal_end=NOW + draw(st.integers(-60, 60))
        )
        mine, voted, committed = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
        if voted or committed:
            votes[(each.id, each.round)] = vote(each)
        commitment = typed_digest(DISPUTES, vote(each)) if committed else ZERO_DIGEST
        others = (member(PEOPLE[0], word("other commitment"), draw(st.booleans())),)
        seats = (member(ME, commitment, committed and draw(st.booleans())), *others) if mine else others
        disputes.append(replace(each, members=() if each.phase is Phase.SEED else seats))
    return snapshot(*disputes, number=draw(st.integers(0, 120))), votes


@given(situations())
def test_what_was_done_is_not_decided_again(situation: tuple[Snapshot, dict[tuple[Digest, int], Vote]]) -> None:
    seen, votes = situation
    running: set[tuple[Digest, int]] = set()
    first = decide_member(seen, DISPUTES, ME, votes, frozenset(), running, VOTES) + decide_moves(seen, ME, MOVES)
    for action in first:
        seen = applied(seen, action)
        if isinstance(action, RunVoteJob):
            running.add((action.dispute, action.round))
    again = decide_member(seen, DISPUTES, ME, votes, frozenset(), running, VOTES)
    assert [a for a in again if a in first] == []
    assert [a for a in decide_moves(seen, ME, MOVES) if a in first] == []


@given(situations())
def test_a_decision_depends_on_its_arguments_alone(situation: tuple[Snapshot, dict[tuple[Digest, int], Vote]]) -> None:
    seen, votes = situation
    first = decide_member(seen, DISPUTES, ME, votes, frozenset(), frozenset(), VOTES)
    assert decide_member(seen, DISPUTES, ME, dict(votes), frozenset(), frozenset(), VOTES) == first


def test_a_seat_without_a_vote_runs_a_job_and_with_one_commits_and_then_reveals() -> None:
    case = dispute(Phase.COMMIT, member())
    (job,) = decide_member(snapshot(case), DISPUTES, ME, {}, frozenset(), frozenset(), VOTES)
    assert isinstance(job, RunVoteJob) and job.seat_mask == 0b101
    assert job.fetch_deadline == case.commit_end - 30
    ours = {(case.id, 1): vote(case)}
    (commit,) = decide_member(snapshot(case), DISPUTES, ME, ours, frozenset(), frozenset(), VOTES)
    assert commit == CastCommit(vote(case), typed_digest(DISPUTES, vote(case)))
    later = dispute(Phase.REVEAL, member(commitment=commit.commitment))
    assert decide_member(snapshot(later), DISPUTES, ME, ours, frozenset(), frozenset(), VOTES) == (CastReveal(vote(case)),)


def test_no_job_starts_without_time_for_it() -> None:
    case = dispute(Phase.COMMIT, member(), commit_end=NOW + 3)
    assert decide_member(snapshot(case), DISPUTES, ME, {}, frozenset(), frozenset(), VOTES) == ()


def test_a_declined_duty_is_left_alone_but_a_commitment_is_still_opened() -> None:
    case, declined = dispute(Phase.COMMIT, member()), frozenset({dispute(Phase.COMMIT).id})
    ours = {(case.id, 1): vote(case)}
    assert decide_member(snapshot(case), DISPUTES, ME, {}, declined, frozenset(), VOTES) == ()
    assert decide_member(snapshot(case), DISPUTES, ME, ours, declined, frozenset(), VOTES) == ()
    committed = dispute(Phase.REVEAL, member(commitment=typed_digest(DISPUTES, vote(case))))
    assert decide_member(snapshot(committed), DISPUTES, ME, ours, declined, frozenset(), VOTES) == (CastReveal(vote(case)),)


@pytest.mark.parametrize("known", [{}, {(dispute(Phase.COMMIT).id, 1): vote(dispute(Phase.COMMIT), "another salt")}])
def test_a_commitment_of_ours_that_the_table_cannot_open_stops_us(known: dict[tuple[Digest, int], Vote]) -> None:
    case = dispute(Phase.COMMIT, member(commitment=typed_digest(DISPUTES, vote(dispute(Phase.COMMIT)))))
    with pytest.raises(ProtectionMissing):
        decide_member(snapshot(case), DISPUTES, ME, known, frozenset(), frozenset(), VOTES)


def test_verifiers_take_turns_at_moves_that_anybody_may_make() -> None:
    case = dispute(Phase.REVEAL, member(PEOPLE[0], word("c"), True))
    for number in range(100, 110):
        movers = [who for who in PEOPLE if decide_moves(snapshot(case, number=number), who, MOVES)]
        assert movers == [PEOPLE[number % 5]]
    assert decide_moves(snapshot(case), STRANGER, MOVES) == ()


def test_an_overdue_move_is_anybodys() -> None:
    late = snapshot(dispute(Phase.REVEAL, member(PEOPLE[0], word("c"))), timestamp=NOW + 131)
    assert decide_moves(late, STRANGER, MOVES) == (Settle(word("d"), 1),)


def test_a_seed_is_drawn_once_its_block_is_there_and_armed_again_once_it_is_out_of_reach() -> None:
    assert decide_moves(snapshot(dispute(Phase.SEED, seed_block=102), number=102), PEOPLE[2], MOVES) == ()
    assert decide_moves(snapshot(dispute(Phase.SEED, seed_block=101), number=102), PEOPLE[2], MOVES) == (DrawSeats(word("d"), 1),)
    assert decide_moves(snapshot(dispute(Phase.SEED, seed_block=101), number=357), PEOPLE[2], MOVES) == (Rearm(word("d"), 1),)


def test_a_round_with_open_commitments_waits_for_them() -> None:
    case = dispute(Phase.REVEAL, member(PEOPLE[0], word("c"), True), member(PEOPLE[1], word("c")))
    assert all(decide_moves(snapshot(case, number=n), who, MOVES) == () for who in PEOPLE for n in range(100, 105))


def test_credit_is_collected_from_the_set_amount_on() -> None:
    policy = replace(MOVES, withdraw_above_wei=50)
    assert decide_moves(snapshot(credit_wei=49), ME, policy) == ()
    assert decide_moves(snapshot(credit_wei=50), ME, policy) == (Withdraw(50),)
    assert decide_moves(snapshot(credit_wei=50), ME, MOVES) == ()


def result(receipt: Digest, who: Address, word_: AuditOutcome) -> AuditResult:
    return AuditResult(receipt, who, U8(word_), ZERO_DIGEST, U64(NOW))


def test_an_audit_runs_once_is_posted_once_and_ends_with_the_window() -> None:
    receipt, opened = word("r"), NOW - 100
    seen = snapshot()
    duty = AuditDuty(receipt, opened, None, False)
    assert decide_auditor(seen, [duty], frozenset(), 5) == (RunAudit(receipt),)
    assert decide_auditor(seen, [duty], {receipt}, 5) == ()
    said = result(receipt, ME, AuditOutcome.MATCH)
    assert decide_auditor(seen, [replace(duty, result=said)], frozenset(), 5) == (PostAudit(said),)
    assert decide_auditor(seen, [replace(duty, result=said, posted=True)], frozenset(), 5) == ()
    for anchored_at in (NOW - 595, NOW - 600, NOW - 700):
        assert decide_auditor(seen, [replace(duty, anchored_at=anchored_at)], frozenset(), 5) == ()


def drawn(count: int) -> tuple[Digest, Digest, list[Address]]:
    """A receipt and beacon that draw at least so many of our people."""
    for attempt in range(1000):
        receipt, beacon = word("audited", attempt), word("beacon")
        who = [p for p in PEOPLE if audit_is_drawn(beacon, receipt, p, PARAMS.audit_rate_bps, 10)]
        if len(who) >= count:
            return receipt, beacon, who
    raise AssertionError("nobody is drawn")


WATCH = WatchPolicy(mismatches=2, margin_s=2)


def audited(*words: tuple[int, AuditOutcome], anchored_at: int = NOW - 10) -> AuditedReceipt:
    receipt, beacon, who = drawn(4)
    return AuditedReceipt(receipt, anchored_at, beacon, STAKES, tuple(result(receipt, who[i], said) for i, said in words))


def test_two_drawn_auditors_that_disagree_with_a_receipt_open_one_dispute() -> None:
    mismatch = audited((0, AuditOutcome.MISMATCH), (1, AuditOutcome.MISMATCH), (2, AuditOutcome.MATCH))
    opened = decide_watchtower(snapshot(), [mismatch], frozenset(), 1000, WATCH)
    assert opened == (OpenDispute(mismatch.receipt_id, 100),)
    assert decide_watchtower(snapshot(), [mismatch], {mismatch.receipt_id}, 1000, WATCH) == ()
    known = dispute(Phase.SEED, receipt_id=mismatch.receipt_id)
    assert decide_watchtower(snapshot(known), [mismatch], frozenset(), 1000, WATCH) == ()


@pytest.mark.parametrize(
    "words",
    [
        ((0, AuditOutcome.MISMATCH),),
        ((0, AuditOutcome.MISMATCH), (0, AuditOutcome.MISMATCH)),
        ((0, AuditOutcome.MISMATCH), (1, AuditOutcome.MISMATCH), (2, AuditOutcome.MATCH), (3, AuditOutcome.MATCH)),
        ((0, AuditOutcome.NONE), (1, AuditOutcome.NONE), (2, AuditOutcome.NONE)),
        ((0, AuditOutcome.MATCH), (0, AuditOutcome.MISMATCH), (1, AuditOutcome.MISMATCH)),
    ],
)
def test_fewer_or_contradicted_or_repeated_words_open_nothing(words: tuple[tuple[int, AuditOutcome], ...]) -> None:
    assert decide_watchtower(snapshot(), [audited(*words)], frozenset(), 1000, WATCH) == ()


def test_words_of_strangers_and_of_verifiers_who_were_not_drawn_do_not_count() -> None:
    receipt, beacon = word("quiet"), word("beacon")
    rare = replace(snapshot(), params=replace(PARAMS, audit_rate_bps=0))
    words = tuple(result(receipt, who, AuditOutcome.MISMATCH) for who in PEOPLE)
    assert decide_watchtower(rare, [AuditedReceipt(receipt, NOW, beacon, STAKES, words)], frozenset(), 1000, WATCH) == ()
    strangers = tuple(result(receipt, signer(f"sybil {i}").address, AuditOutcome.MISMATCH) for i in range(9))
    told = AuditedReceipt(receipt, NOW, beacon, STAKES, strangers)
    assert decide_watchtower(snapshot(), [told], frozenset(), 1000, WATCH) == ()


def test_words_count_by_the_stakes_at_the_batch_not_by_those_of_today() -> None:
    """A late joiner or a late deposit could otherwise try out receipts until one draws it."""
    mismatch = audited((0, AuditOutcome.MISMATCH), (1, AuditOutcome.MISMATCH))
    assert decide_watchtower(snapshot(), [mismatch], frozenset(), 1000, WATCH) != ()
    joined_later = replace(mismatch, weights=tuple((who, 0) for who in PEOPLE))
    assert decide_watchtower(snapshot(), [joined_later], frozenset(), 1000, WATCH) == ()
    gone_today = replace(snapshot(), verifiers=())
    assert decide_watchtower(gone_today, [mismatch], frozenset(), 1000, WATCH) != ()


def test_the_window_and_the_purse_bound_what_is_opened() -> None:
    words = ((0, AuditOutcome.MISMATCH), (1, AuditOutcome.MISMATCH))
    assert decide_watchtower(snapshot(), [audited(*words, anchored_at=NOW - 599)], frozenset(), 1000, WATCH) == ()
    assert decide_watchtower(snapshot(), [audited(*words)], frozenset(), 99, WATCH) == ()
    several = [replace(audited(*words)), replace(audited(*words))]
    assert len(decide_watchtower(snapshot(), several[:1], frozenset(), 150, WATCH)) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([AuditOutcome.MATCH, AuditOutcome.NONE])), max_size=8))
def test_without_a_mismatch_nothing_is_ever_opened(words: list[tuple[int, AuditOutcome]]) -> None:
    assert decide_watchtower(snapshot(), [audited(*words)], frozenset(), 10**30, WATCH) == ()
