"""A seat's vote: one per round for ever, protected before it is sent, whatever crashes, restarts or is restored in between."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import vote_content
from bytewise.protocol.decisions.disputes import VotePolicy
from bytewise.protocol.decisions.snapshot import Dispute, RoundSeats
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import ProtectionMissing, SecondVote
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U8, ZERO_DIGEST, Blob
from bytewise.storage.duties import DECLINED, DONE, Duties
from bytewise.storage.engine import write_transaction
from bytewise.storage.tables import ProtectedVoteRow
from committee.ballots import KIND, RETRY_PAUSE_S
from tests.fixtures.builders import DISPUTES, word
from tests.fixtures.committee.seated_member import SeatedMember, disputed_receipt
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.verifier_fixture import NETWORK, VerifierFixture, seat
from verifier.jobs.enclave_pool import LONGEST_PAUSE_S


def test_a_duty_becomes_one_vote_a_commitment_and_a_reveal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    with SeatedMember(setup) as member:
        member.until_quiet()
        vote = member.vote(dispute)
        assert vote is not None and (vote.outcome, vote.seat_mask) == (Outcome.EXECUTED, 0b111)
        assert setup.sender.of("commit") == [typed_digest(DISPUTES, vote)] and setup.sender.of("reveal") == []
        shown = setup.show(dispute, vote, phase=Phase.REVEAL)
        member.tick(1)
        ((revealed, quote),) = setup.sender.of("reveal")
        assert revealed == vote and keccak256(quote) == vote.quote_hash
        index = setup.chain.disputes.index(shown)
        setup.chain.disputes[index] = replace(shown, members=(replace(shown.members[0], group=vote_content(vote).group),))
        member.tick(1)
        assert [duty.state for duty in member.duties.all()] == [DONE]
    assert setup.enclave.jobs == 1
    setup.journal.verify_journal()
    assert '"assurance":"simulated"' in next(line for line in capsys.readouterr().err.splitlines() if "vote.requested" in line)


def test_restart_after_the_vote_was_protected_sends_the_same_vote(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    with SeatedMember(setup) as member:
        member.until_quiet()
        before = member.vote(dispute)
    for _ in range(3):
        setup.reopen()
        with SeatedMember(setup) as member:
            member.tick(1)
            assert member.vote(dispute) == before
    assert setup.sender.of("commit") == [typed_digest(DISPUTES, before)] and setup.enclave.jobs == 1


def test_a_crash_between_protection_and_sending_loses_nothing(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    with SeatedMember(setup) as member:
        member.until_quiet()
        protected = member.vote(dispute)
    setup.sender.sent.clear()  # the process died before its outbox knew
    setup.reopen()
    with SeatedMember(setup) as member:
        member.tick(1)
    assert setup.sender.of("commit") == [typed_digest(DISPUTES, protected)]


def test_member_without_its_protection_table_stops_instead_of_voting(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    with SeatedMember(setup) as member:
        member.until_quiet()
        vote = member.vote(dispute)
    assert vote is not None
    setup.show(dispute, vote)
    with write_transaction(setup.database) as connection:
        connection.execute(delete(ProtectedVoteRow))
    setup.reopen()
    with SeatedMember(setup) as member, pytest.raises(ProtectionMissing):
        member.tick(1)


def test_two_different_votes_for_one_round_are_impossible(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    with SeatedMember(setup) as member:
        vote = member.voted(dispute)
        with pytest.raises(SecondVote):
            member.protection.sign_once(replace(vote, outcome=U8(Outcome.NO_KEY), tokens_hash=ZERO_DIGEST), Blob(b""))
        again = member.protection.sign_once(replace(vote, salt=word("another salt")), Blob(b""))
        assert again.vote == vote


def test_seat_beyond_closed_disputes_is_found_without_reading_them_again(tmp_path: Path) -> None:
    """One old dispute that stays open, 150 that are over, then ours: one call of the chain takes 32."""
    setup, ours = disputed_receipt(tmp_path)
    stranger = replace(seat(), voter=NETWORK.addresses.disputes)
    over = replace(ours, phase=Phase.FINAL, paid=True, rounds=(RoundSeats(15, 15),), members=(stranger,))
    closed = [replace(over, id=word("d", i)) for i in range(150)]
    stuck = replace(ours, id=word("stuck"), members=(stranger,))
    setup.chain.disputes = [stuck, *closed, ours]
    with SeatedMember(setup) as member:
        member.until_quiet()
        assert member.vote(ours) is not None
        setup.chain.asked.clear()
        member.tick(1)
        # The first is the test's own, of `pass_time`.
        assert setup.chain.asked[1:] == [2], "what is over is not read again"
        setup.chain.disputes[0] = replace(over, id=stuck.id)
        member.tick(1)
        setup.chain.asked.clear()
        member.tick(1)
        assert setup.chain.asked[1:] == [1]


def test_shards_without_a_key_are_asked_again_until_the_deadline(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    setup.enclave.bench.keys = b.WholeKey(available=False)
    with SeatedMember(setup) as member:
        member.until_quiet()
        assert member.vote(dispute) is None and setup.enclave.jobs == 1
        setup.chain.pass_time(31)
        member.until_quiet()
        assert member.outcome(dispute) is Outcome.NO_KEY and setup.enclave.jobs == 2


def test_enclave_that_recovers_in_time_still_votes(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    setup.enclave.running = False
    with SeatedMember(setup) as member:
        for _ in range(4):
            member.tick(1)
        setup.enclave.running = True
        member.until_quiet()
        setup.chain.pass_time(int(LONGEST_PAUSE_S))
        member.until_quiet()
        assert member.vote(dispute) is not None


def test_no_job_starts_near_the_end_of_the_commit_phase(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    with SeatedMember(setup) as member:
        member.tick(58)
        assert setup.enclave.jobs == 0 and member.vote(dispute) is None


def test_declined_duty_stays_declined_after_a_restart(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    Duties(setup.database, setup.clock).decline(dispute.id, KIND)
    for _ in range(2):
        setup.reopen()
        with SeatedMember(setup) as member:
            member.tick(1)
            member.tick(1)
            assert [duty.state for duty in member.duties.all()] == [DECLINED]
    assert setup.enclave.jobs == 0 and setup.sender.of("commit") == []


def test_a_second_round_gets_a_vote_of_its_own(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    with SeatedMember(setup) as member:
        member.until_quiet()
        first = member.vote(dispute)
        second = replace(dispute, round=2, round_seed=word("second seed"), members=(seat(),))
        setup.chain.disputes[0] = second
        member.until_quiet()
        again = member.vote(second)
    assert first is not None and again is not None and first.round_digest != again.round_digest
    assert len(setup.sender.of("commit")) == 2


def test_seat_of_another_member_is_ignored(tmp_path: Path) -> None:
    setup = VerifierFixture(tmp_path)
    signed = setup.signed(1)
    setup.anchor(signed)
    setup.dispute(signed, replace(seat(), voter=NETWORK.addresses.disputes))
    with SeatedMember(setup) as member:
        member.tick(1)
        assert member.ballots.step(setup.chain.now()) == ()


def redrawn(setup: VerifierFixture, dispute: Dispute, **changes: object) -> Dispute:
    """A reorganisation put another block in the place of the seed's: another seed drew other seats."""
    again = replace(dispute, round_seed=word("another seed"), members=(replace(seat(), seat_mask=0b11000),), **changes)  # type: ignore[arg-type]
    setup.chain.disputes = [again]
    return again


def test_vote_waits_for_a_deep_seed_and_redrawn_seats_get_their_own_vote(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    shallow = replace(dispute, seed=replace(dispute.seed, block=setup.chain.number))
    setup.chain.disputes = [shallow]
    with SeatedMember(setup) as member:
        jobs = 0
        for _ in range(3000):
            member.node.tick()
            if setup.enclave.jobs and not member.pool.busy():
                break
            threading.Event().wait(0.02)
        setup.chain.pass_time(0)
        member.node.tick()
        jobs = setup.enclave.jobs
        assert jobs == 1 and member.vote(shallow) is None and setup.sender.of("commit") == []
        again = redrawn(setup, shallow, seed=replace(shallow.seed, block=setup.chain.number - 10))
        setup.chain.pass_time(RETRY_PAUSE_S)
        member.node.tick()
        member.until_quiet()
        vote = member.vote(again)
        assert vote is not None and vote.seat_mask == 0b11000 and setup.enclave.jobs == 2
        assert len(setup.sender.of("commit")) == 1


def test_a_result_becomes_the_vote_once_the_seed_is_deep(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    setup.chain.disputes = [replace(dispute, seed=replace(dispute.seed, block=setup.chain.number + 1))]
    with SeatedMember(setup) as member:
        depth = VotePolicy().seed_depth
        for _ in range(3000):
            if setup.enclave.jobs and not member.pool.busy():
                break
            member.node.tick()
            threading.Event().wait(0.02)
        made = []
        for _ in range(depth + 3):
            setup.chain.pass_time(0)
            member.node.tick()
            made.append(member.vote(dispute) is not None)
        assert made == [number >= depth + 1 for number in range(1, depth + 4)] and setup.enclave.jobs == 1


def test_shallow_seed_is_voted_on_after_half_of_the_commit_phase(tmp_path: Path) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    setup.chain.disputes = [replace(dispute, seed=replace(dispute.seed, block=10**6))]
    with SeatedMember(setup) as member:
        member.until_quiet()
        assert setup.enclave.jobs == 1 and member.vote(dispute) is None
        setup.chain.pass_time(31)
        member.node.tick()
        assert member.vote(dispute) is not None and setup.enclave.jobs == 1
