"""One dispute from challenge to payment, every step through the sender, and the same story told by Python's rules."""

import dataclasses
from pathlib import Path

import pytest

from bytewise.protocol import digests
from bytewise.protocol.dispute import Dispute, Phase
from bytewise.protocol.errors import SecondVote
from bytewise.protocol.messages import AuditOutcome, AuditResult, Outcome, Verdict, Vote
from bytewise.protocol.network import Network
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.sortition import draw_seats, round_seed
from bytewise.protocol.tally import RevealedVote, tally
from bytewise.protocol.units import U8, U16, U64, U256, Address, Blob, Digest
from bytewise.storage.outbox import State
from chain.history import ChainHistory
from chain.params import DEVNET
from tests.anvil import Anvil
from tests.devnet import Batch, batch, deployed, pump, reader, sender, signer, word

TRUE_TOKENS, TRUE_TRACE, QUOTE = word("true tokens"), word("true trace"), Blob(b"quote")


class Court:
    """A network with one anchored batch and a sender for everybody."""

    def __init__(self, anvil: Anvil, folder: Path, **params: object) -> None:
        self.anvil = anvil
        self.network: Network = deployed(anvil, **params)
        self.reader = reader(anvil, self.network)
        self.operator = sender(anvil, self.network, signer(1), folder)
        self.challenger = sender(anvil, self.network, signer(8), folder)
        self.members = {signer(i).address: sender(anvil, self.network, signer(i), folder) for i in range(3, 8)}
        self.batch: Batch = batch(self.network, signer(1), 1, 3, anvil.client.head().timestamp)
        self.operator.anchor(self.batch.header)
        self.pump()

    def pump(self) -> None:
        pump(self.anvil, [self.operator, self.challenger, *self.members.values()])

    def open(self, index: int = 0) -> Dispute:
        entry = self.batch.entries[index]
        bond = self.reader.params(self.reader.head()).required_bond_wei
        self.challenger.open_dispute(entry.receipt, entry.signature, 0, self.batch.proofs[index], bond)
        self.pump()
        return self.dispute()

    def dispute(self) -> Dispute:
        return self.reader.snapshot(signer(8).address, self.reader.head()).disputes[-1]

    def drawn(self) -> Dispute:
        self.anvil.mine(3)
        found = self.dispute()
        self.challenger.draw(found.id, found.round)
        self.pump()
        return self.dispute()

    def vote(self, dispute: Dispute, voter: Address, outcome: Outcome = Outcome.EXECUTED, code: int = 0) -> Vote:
        member = dispute.member(voter)
        assert member is not None
        ran = outcome is Outcome.EXECUTED
        nothing = Digest(bytes(32))
        return Vote(
            dispute=dispute.id, round=U16(dispute.round), voter=voter, seat_mask=U256(member.seat_mask), outcome=U8(outcome),
            code=U8(code), tokens_hash=TRUE_TOKENS if ran else nothing, trace_root=TRUE_TRACE if ran else nothing,
            round_digest=word("round") if ran else nothing, quote_hash=digests.keccak256(QUOTE), salt=word("salt", voter),
        )  # fmt: skip

    def commit(self, votes: list[Vote]) -> None:
        for vote in votes:
            commitment = typed_digest(self.network.disputes_domain, vote)
            self.members[vote.voter].commit(vote.dispute, vote.round, vote.seat_mask, commitment)
        self.pump()

    def reveal(self, votes: list[Vote]) -> None:
        for vote in votes:
            self.members[vote.voter].reveal(vote, QUOTE)
        self.pump()

    def settle(self) -> Dispute:
        found = self.dispute()
        self.challenger.settle(found.id, found.round)
        self.pump()
        return self.dispute()


@pytest.fixture
def court(anvil: Anvil, tmp_path: Path) -> Court:
    return Court(anvil, tmp_path)


def test_a_wrong_receipt_is_overturned_and_all_money_sums(court: Court) -> None:
    opened = court.open()
    assert (opened.phase, opened.round, opened.claimed_out_hash) == (Phase.SEED, 1, court.batch.entries[0].receipt.out_hash)
    found = court.drawn()
    history = ChainHistory(court.reader)
    (committee,) = history.drawn(0, court.reader.head())
    pool = court.reader.verifiers(opened.seed_block)
    seats = draw_seats(committee.seed, found.id, 1, 15, pool)
    assert {who: sum(1 << i for i, holder in enumerate(seats) if holder == who) for who in seats} == {
        member.voter: member.seat_mask for member in found.members
    }
    assert [member.voter for member in found.members] == list(dict.fromkeys(seats))
    assert court.reader.members(found.id, 1, court.reader.head()) == found.members
    assert found.round_seed == round_seed(committee.seed, found.id, 1)
    votes = [court.vote(found, member.voter) for member in found.members]
    court.commit(votes)
    assert court.dispute().phase is Phase.REVEAL
    court.reveal(votes)
    assert court.dispute().ready_to_settle
    ended = court.settle()
    true = digests.out_hash(TRUE_TOKENS, TRUE_TRACE)
    assert (ended.phase, ended.verdict, ended.replacement) == (Phase.FINAL, Verdict.OVERTURNED, true)
    (ending,) = history.endings(0, court.reader.head())
    assert ending.sums and ending.out_hash == true and ending.slashed_wei == DEVNET["slashAmount"]
    assert ending.burned_wei * 5 >= ending.slashed_wei
    assert court.reader.money(court.reader.head()).sums
    revealed = [_revealed(vote, found) for vote in votes]
    assert tally(15, 2, 3, revealed, found.claimed_out_hash).verdict is Verdict.OVERTURNED
    assert len(history.commitments(0, court.reader.head())) == len(votes)
    assert {opening.vote for opening in history.openings(0, court.reader.head())} == set(votes)
    (settled,) = history.rounds(0, court.reader.head())
    assert (settled.verdict, settled.seats["lead"], settled.seats["absent"]) == (Verdict.OVERTURNED, 15, 0)


def test_a_challenger_collects_its_credit_once(court: Court) -> None:
    court.open()
    found = court.drawn()
    votes = [court.vote(found, member.voter, Outcome.INVALID, 4) for member in found.members]
    court.commit(votes)
    court.reveal(votes)
    court.settle()
    due = court.reader.credit(signer(8).address, court.reader.head())
    assert due > DEVNET["slashAmount"] * DEVNET["alphaBps"] // 10_000
    court.challenger.withdraw(due)
    court.challenger.withdraw(due)
    court.pump()
    head = court.reader.head()
    assert court.reader.credit(signer(8).address, head) == 0 and court.reader.money(head).sums
    kinds = [str(move.kind) for move in ChainHistory(court.reader).movements(0, head)]
    assert kinds.count("withdrawn") == 1


def test_an_absent_member_is_charged_and_the_verdict_stands(anvil: Anvil, tmp_path: Path) -> None:
    court = Court(anvil, tmp_path)
    court.open()
    found = court.drawn()
    absent = min(found.members, key=lambda member: member.seat_mask.bit_count())
    assert absent.seat_mask.bit_count() <= 5
    votes = [court.vote(found, member.voter) for member in found.members if member.voter != absent.voter]
    court.commit(votes)
    anvil.pass_time(DEVNET["commitTime"] + 1)
    court.reveal(votes)
    ended = court.settle()
    assert ended.verdict is Verdict.OVERTURNED
    (charge,) = ChainHistory(court.reader).charges(0, court.reader.head())
    assert (charge.voter, charge.reason, charge.seats) == (absent.voter, 1, absent.seat_mask.bit_count())
    assert charge.amount_wei == charge.seats * DEVNET["absentPenalty"]
    assert court.reader.money(court.reader.head()).sums


def test_an_inconclusive_round_leads_to_a_larger_one(court: Court) -> None:
    court.open()
    found = court.drawn()
    votes = [court.vote(found, member.voter, Outcome.NO_KEY) for member in found.members]
    court.commit(votes)
    court.reveal(votes)
    second = court.settle()
    assert (second.phase, second.round, second.seats) == (Phase.SEED, 2, 31)


def test_a_second_different_vote_is_our_bug(court: Court) -> None:
    court.open()
    found = court.drawn()
    who = found.members[0].voter
    mask = found.members[0].seat_mask
    court.members[who].commit(found.id, 1, mask, word("one"))
    court.members[who].commit(found.id, 1, mask, word("one"))
    with pytest.raises(SecondVote):
        court.members[who].commit(found.id, 1, mask, word("other"))
    court.pump()
    made = ChainHistory(court.reader).commitments(0, court.reader.head())
    assert [each.commitment for each in made] == [word("one")]
    row = court.members[who].find(court.network.addresses.disputes, "commit", found.id + b"\0\1")
    assert row and row.intent.deadline == found.commit_end, "the nearer that comes, the more is paid"


def test_what_somebody_else_did_first_is_superseded_and_costs_nothing(court: Court) -> None:
    opened = court.open()
    court.anvil.mine(3)
    for each in court.members.values():
        each.draw(opened.id, 1)
    court.pump()
    rows = [each.find(court.network.addresses.disputes, "draw", opened.id + b"\0\1") for each in court.members.values()]
    states = [row.state for row in rows if row]
    assert states.count(State.CONFIRMED) == 1 and states.count(State.SUPERSEDED) == 4
    assert [row.nonce is None for row in rows if row and row.state is State.SUPERSEDED] == [True] * 4


def test_a_draw_waits_for_its_seed_and_a_lost_seed_is_armed_again(court: Court) -> None:
    opened = court.open()
    court.challenger.draw(opened.id, 1)
    assert court.challenger.pump() == 1, "too early: it waits"
    court.anvil.rpc("anvil_mine", hex(300))
    court.pump()
    row = court.challenger.find(court.network.addresses.disputes, "draw", opened.id + b"\0\1")
    assert row and row.state is State.EXPIRED
    court.challenger.rearm(opened.id, 1)
    court.challenger.rearm(opened.id, 1)
    court.pump()
    assert court.dispute().seed_block > opened.seed_block


def test_audit_results_are_posted_once(court: Court) -> None:
    who = signer(3)
    result = AuditResult(word("receipt"), who.address, U8(AuditOutcome.MISMATCH), word("commitment"), U64(7))
    signature = who.sign(typed_digest(court.network.disputes_domain, result))
    court.members[who.address].post_audit(result, signature)
    court.members[who.address].post_audit(result, signature)
    court.challenger.post_audit(result, signature)
    court.pump()
    assert court.reader.audits(0, court.reader.head()) == ((result, signature),)


def test_a_challenge_after_the_window_is_never_signed(court: Court) -> None:
    court.anvil.pass_time(DEVNET["window"] + 1)
    before = court.reader.head()
    entry = court.batch.entries[0]
    bond = court.reader.params(before).required_bond_wei
    court.challenger.open_dispute(entry.receipt, entry.signature, 0, court.batch.proofs[0], bond)
    court.pump()
    (row,) = court.challenger.transactions.outbox.all()
    assert (row.state, row.nonce) == (State.EXPIRED, None) and "WindowClosed" in row.detail
    assert court.reader.snapshot(signer(8).address, court.reader.head()).dispute_count == 0


def test_two_receipts_with_one_number_are_punished_without_a_committee(court: Court) -> None:
    first = court.batch.entries[0]
    second = dataclasses.replace(first.receipt, out_hash=word("another"))
    signature = signer(1).sign(typed_digest(court.network.anchor_domain, second))
    court.challenger.report_equivocation(first.receipt, first.signature, second, signature)
    court.pump()
    head = court.reader.head()
    assert court.reader.stake(signer(1).address, head) == 24 * 10**18 and court.reader.money(head).sums


def _revealed(vote: Vote, dispute: Dispute) -> RevealedVote:
    return RevealedVote(
        vote.voter, vote.seat_mask.bit_count(), vote.outcome, vote.code, vote.tokens_hash, vote.trace_root, vote.round_digest
    )
