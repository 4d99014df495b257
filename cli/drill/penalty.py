"""Plays the penalty of a verifier on a fork: the verifier is drawn for a dispute and fails in its seats. The verifier's key signs
nothing, because the fork needs no signatures."""

import enum
import secrets
from collections.abc import Sequence

from bytewise.protocol import digests, merkle
from bytewise.protocol.court.commitments import dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Dispute, Seat
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.receipt import BatchHeader, ClientMode, Mode, Receipt, SignedReceipt, batch_leaves, receipt_id
from bytewise.protocol.records.statements import Outcome, Vote
from bytewise.protocol.signing import LocalSigner, struct_values, typed_digest
from bytewise.protocol.units import U8, U16, U32, U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Address, Blob, Digest
from chain.client.blocks import header_rlp
from chain.deployment.calls import ContractCall
from cli.drill.fork import ForkedChain
from cli.drill.session import DrillReport, DrillSession, ShowProgress
from cli.drill.slash import post_of

STEPS, TRIES, SEATS_PER_CALL, MOST_MOVES = 9, 8, 8, 200
"""Number of steps for the progress bar; most disputes until the verifier must have a seat; most seats that one call draws or
pays; most moves until a dispute must be in the awaited phase."""
QUOTE = Blob(b"drill")
TRUE, FALSE = (Digest(b"\x01" * 32), Digest(b"\x02" * 32)), (Digest(b"\x03" * 32), Digest(b"\x04" * 32))
"""Two pairs of a tokens hash and a trace root. The receipt and right votes have the first pair, a wrong vote has the second."""


class SeatFault(enum.StrEnum):
    """Way in which the verifier fails in its seats. `ABSENT`: it does not commit. `NOT_REVEALED`: it commits and does not reveal.
    `WRONG`: it votes for a wrong answer."""

    ABSENT = "absent"
    NOT_REVEALED = "not-revealed"
    WRONG = "wrong"


class PenaltyDrill:
    """Plays the penalty of one verifier on one fork. An operator that exists on the fork only anchors receipts. A watchtower
    disputes one receipt after the other until the verifier is drawn into a committee."""

    def __init__(self, fork: ForkedChain, account: Address, fault: SeatFault, show_progress: ShowProgress) -> None:
        self._session, self._fault = DrillSession(fork, account, show_progress, STEPS), fault
        self._operator, self._tower = LocalSigner(secrets.token_bytes(32)), fork.new_account()

    def run(self) -> DrillReport:
        """Plays the penalty and returns the report. Raises `ConfigurationError` if the account has nothing to lose on this
        network, or if none of the disputes can charge the account."""
        session, me = self._session, self._session.snapshot.me
        if me.pool == ZERO_DIGEST:
            raise ConfigurationError("account", f"{session.account} is in no pool: it is drawn for no dispute")
        if session.reader.record_life(session.first) is not None:
            raise ConfigurationError("network", "its stake is at EigenLayer: this drill needs stake in the network's own vault")
        if me.stake_wei == 0:
            raise ConfigurationError("account", f"{session.account} has no stake: there is nothing to charge")
        before = session.amounts(self._tower)
        entries, proofs, batch_id = self._anchor_batch()
        dispute = self._open_until_drawn(entries, proofs, batch_id)
        mine = dispute.seat_of(session.account)
        assert mine is not None, "the loop ends with a seat"
        seats = mine.seat_mask.bit_count()
        session.add_step(
            f"You are drawn for {seats} of {dispute.seats} seats", session.account, "", f"{dispute.quorum} equal seats decide"
        )
        self._vote(dispute, mine)
        self._finish(dispute)
        return session.report(before, session.amounts(self._tower), list(session.stake_choices()))

    def _anchor_batch(self) -> tuple[list[SignedReceipt], Sequence[tuple[Digest, ...]], int]:
        """Registers an operator that exists on the fork only, and anchors a batch of this operator. Returns the batch's receipts,
        their Merkle proofs and the batch's id."""
        session, who, money = self._session, self._operator, self._session.params.money
        like = self._example()
        session.fork.fund(who.address)
        stake = money.min_operator_stake + (TRIES + 1) * money.slash_amount
        session.fork.send(who.address, ContractCall("StakeVault", "deposit", (), stake))
        session.fork.send(who.address, ContractCall("Registry", "registerOperator", ("https://drill.invalid",)))
        domain, now = session.fork.network.anchor_domain, session.fork.client.head().timestamp
        receipts = [self._receipt(like, number, now) for number in range(1, TRIES + 1)]
        entries = [SignedReceipt(each, who.sign(receipt_id(domain, each)), "drill") for each in receipts]
        leaves = batch_leaves(domain, entries)
        header = BatchHeader(
            batch_id=0, operator=who.address, first_seq=U64(1), count=U32(TRIES), root=merkle.batch_root(leaves),
            list_hash=Digest(secrets.token_bytes(32)), environment=like.environment, model_id=like.model_id,
            key_epoch=U64(session.snapshot.active_epoch), locator="drill", anchored_at=U64(0), block=U64(0),
        )  # fmt: skip
        session.do(
            "An operator anchors receipts",
            who.address,
            post_of(header, 10 * TRIES * session.snapshot.price_wei),
            "on the fork only",
        )
        count = session.reader.snapshot(session.account, session.reader.head()).batch_count
        return entries, merkle.batch_tree(leaves).proofs, count - 1

    def _example(self) -> BatchHeader:
        """Returns the newest batch whose environment belongs to the account's pool. The drill's batch gets the same environment
        and model."""
        session = self._session
        for each in reversed(session.reader.batches(int(session.fork.network.deploy_block), session.first)):
            if session.reader.pool_of(each.environment, session.first) == session.snapshot.me.pool:
                return each
        raise ConfigurationError("network", "no batch of your pool was ever anchored: there is no environment to name")

    def _receipt(self, like: BatchHeader, number: int, now: int) -> Receipt:
        return Receipt(
            operator=self._operator.address, seq=U64(number), req_hash=Digest(secrets.token_bytes(32)), tokens_hash=TRUE[0],
            out_hash=digests.out_hash(*TRUE), model_id=like.model_id, environment=like.environment, gpu_arch=ZERO_DIGEST,
            key_epoch=U64(self._session.snapshot.active_epoch), envelope_hash=Digest(secrets.token_bytes(32)), issued_at=U64(now),
            anchor_by=U64(now + 600), mode=U8(Mode.PLAIN), client_mode=U8(ClientMode.DELEGATED), enclave_key=ZERO_ADDRESS,
            chain_id=U256(self._session.fork.network.chain_id),
        )  # fmt: skip

    def _open_until_drawn(self, entries: Sequence[SignedReceipt], proofs: Sequence[tuple[Digest, ...]], batch_id: int) -> Dispute:
        """Opens disputes until the account has a seat in one, and the other members have enough seats for a quorum. Returns that
        dispute in its commit phase."""
        session, bond = self._session, self._session.params.required_bond
        for entry, proof in zip(entries, proofs, strict=True):
            arguments = (struct_values(entry.receipt), entry.signature, batch_id, proof, Digest(secrets.token_bytes(32)))
            session.show_progress("a committee is drawn")
            session.fork.send(self._tower, ContractCall("Disputes", "open", arguments, bond))
            id_ = dispute_id(session.fork.network.disputes_domain, receipt_id(session.fork.network.anchor_domain, entry.receipt))
            dispute = self._advance_to(id_, Phase.COMMIT)
            mine = dispute.seat_of(session.account)
            # If the account had more seats, the other seats would be no quorum. Then a larger round would begin, and the contract
            # would charge nobody yet.
            if mine is not None and dispute.seats - mine.seat_mask.bit_count() >= dispute.quorum:
                session.add_step("A watchtower disputes a receipt", self._tower, "Disputes.open", f"bond {bond} wei")
                return dispute
        told = f"in none of {TRIES} committees it has a seat, and so few that the others are a quorum"
        raise ConfigurationError("account", f"{session.account}: {told}")

    def _advance_to(self, id_: Digest, phase: Phase) -> Dispute:
        """Makes the calls that any account may make, and mines blocks, until the dispute is in this phase. Returns the
        dispute."""
        session, client = self._session, self._session.fork.client
        for _ in range(MOST_MOVES):
            dispute = self._read_dispute(id_)
            if dispute.phase is phase:
                return dispute
            if dispute.phase in (Phase.SEED, Phase.DRAWING) and client.head().number > dispute.seed.block:
                count = min(SEATS_PER_CALL, dispute.seats - dispute.drawn)
                call = ContractCall("Disputes", "draw", (id_, count, header_rlp(client, dispute.seed.block)))
                session.fork.send(self._tower, call)
            elif dispute.phase is Phase.REVEAL and dispute.settleable:
                session.do("Anybody counts the seats", self._tower, ContractCall("Disputes", "settle", (id_,)), "")
            else:
                session.fork.mine()
        raise ConfigurationError("network", f"the dispute never reaches phase {phase.name.lower()} on the fork")

    def _read_dispute(self, id_: Digest) -> Dispute:
        found = self._session.reader.dispute(id_, self._session.reader.head())
        assert found is not None, "it was opened"
        return found

    def _vote(self, dispute: Dispute, mine: Seat) -> None:
        """Makes all other members commit and reveal the same vote, and makes the account fail as the user chose."""
        session = self._session
        votes = [_vote_of(dispute, each, TRUE) for each in dispute.members if each.voter != mine.voter]
        own = _vote_of(dispute, mine, FALSE if self._fault is SeatFault.WRONG else TRUE)
        committed = votes if self._fault is SeatFault.ABSENT else [*votes, own]
        for vote in committed:
            commitment = typed_digest(session.fork.network.disputes_domain, vote)
            session.fork.send(vote.voter, ContractCall("Rounds", "commit", (vote.dispute, vote.seat_mask, commitment)))
        session.add_step(
            f"{len(committed)} of {len(dispute.members)} members commit", self._tower, "Rounds.commit", f"you: {self._fault}"
        )
        if self._read_dispute(dispute.id).phase is Phase.COMMIT:  # The phase ends early if every seat has committed.
            session.fork.pass_time(session.params.times.commit_time + 1)
        for vote in [*votes, own] if self._fault is SeatFault.WRONG else votes:
            session.fork.send(vote.voter, ContractCall("Rounds", "reveal", (struct_values(vote), QUOTE)))
        session.add_step("Members reveal the same answer", self._tower, "Rounds.reveal", f"you: {self._fault}")

    def _finish(self, dispute: Dispute) -> None:
        """Counts the votes, waits for appeal and airgap, ends the dispute, and pays or charges every seat."""
        session, times = self._session, self._session.params.times
        session.fork.pass_time(times.reveal_time + 1)
        session.do("Anybody counts the seats", self._tower, ContractCall("Disputes", "settle", (dispute.id,)), "")
        session.fork.pass_time(times.appeal_time + times.airgap + 2)
        after = self._read_dispute(dispute.id)
        end, waited = ContractCall("Disputes", "finalize", (dispute.id,)), times.appeal_time + times.airgap
        session.do(f"The dispute ends {after.verdict.name}", self._tower, end, f"after {waited} s of appeal and airgap")
        for start in range(0, dispute.seats, SEATS_PER_CALL):
            count = min(SEATS_PER_CALL, dispute.seats - start)
            session.fork.send(self._tower, ContractCall("Settlement", "settleSeats", (dispute.id, dispute.round, count)))
        session.add_step(
            "Seats are paid or charged", self._tower, "Settlement.settleSeats", f"{self._fault}: charged for each seat"
        )


def _vote_of(dispute: Dispute, seat: Seat, found: tuple[Digest, Digest]) -> Vote:
    """Returns the vote of a member. `found` has the tokens hash and the trace root for which the member votes."""
    return Vote(
        dispute=dispute.id, round=U16(dispute.round), voter=seat.voter, seat_mask=U256(seat.seat_mask),
        outcome=U8(Outcome.EXECUTED), code=U8(0), tokens_hash=found[0], trace_root=found[1], round_digest=Digest(b"\x05" * 32),
        quote_hash=digests.keccak256(QUOTE), salt=digests.keccak256(seat.voter.encode()),
    )  # fmt: skip
