"""Plays the penalty of a verifier on a fork: the verifier is drawn for a dispute and fails in its seats. Its key signs
nothing."""

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
from cli.drill.play import DrillPlay, DrillReport, Tell
from cli.drill.slash import post_of

STEPS, TRIES, SEATS_PER_CALL, MOST_MOVES = 9, 8, 8, 200
QUOTE = Blob(b"drill")
TRUE, FALSE = (Digest(b"\x01" * 32), Digest(b"\x02" * 32)), (Digest(b"\x03" * 32), Digest(b"\x04" * 32))
"""Two pairs of a tokens hash and a trace root: those of the receipt and of right votes, and those of a wrong vote."""


class SeatFault(enum.StrEnum):
    """Way in which the verifier fails in its seats: it does not commit, it commits and does not reveal, or it votes wrongly."""

    ABSENT = "absent"
    NOT_REVEALED = "not-revealed"
    WRONG = "wrong"


class PenaltyDrill:
    """Plays the penalty of one verifier on one fork. Receipts of an operator that exists on the fork only are disputed, one after
    the other, until the verifier is drawn into a committee."""

    def __init__(self, fork: ForkedChain, account: Address, fault: SeatFault, tell: Tell) -> None:
        self._play, self._fault = DrillPlay(fork, account, tell, STEPS), fault
        self._operator, self._tower = LocalSigner(secrets.token_bytes(32)), fork.new_account()

    def play(self) -> DrillReport:
        """Plays the penalty and returns the report. Raises `ConfigurationError` if the account has nothing to lose on this
        network, or is never drawn."""
        play, me = self._play, self._play.snapshot.me
        if me.pool == ZERO_DIGEST:
            raise ConfigurationError("account", f"{play.account} is in no pool: it is drawn for no dispute")
        if play.reader.record_life(play.first) is not None:
            raise ConfigurationError("network", "its stake is at EigenLayer: this drill needs stake in the network's own vault")
        if me.stake_wei == 0:
            raise ConfigurationError("account", f"{play.account} has no stake: there is nothing to charge")
        before = play.amounts(self._tower)
        entries, proofs, batch_id = self._anchored()
        case = self._drawn(entries, proofs, batch_id)
        mine = case.seat_of(play.account)
        assert mine is not None, "the loop ends with a seat"
        seats = mine.seat_mask.bit_count()
        play.note(f"You are drawn for {seats} of {case.seats} seats", play.account, "", f"{case.quorum} equal seats decide")
        self._vote(case, mine)
        self._end(case)
        return play.report(before, play.amounts(self._tower), list(play.stake_choices()))

    def _anchored(self) -> tuple[list[SignedReceipt], Sequence[tuple[Digest, ...]], int]:
        """Anchors a batch of an operator that exists on the fork only. Returns its receipts, their Merkle proofs and the batch's
        id."""
        play, who, money = self._play, self._operator, self._play.params.money
        like = self._example()
        play.fork.fund(who.address)
        stake = money.min_operator_stake + (TRIES + 1) * money.slash_amount
        play.fork.send(who.address, ContractCall("StakeVault", "deposit", (), stake))
        play.fork.send(who.address, ContractCall("Registry", "registerOperator", ("https://drill.invalid",)))
        domain, now = play.fork.network.anchor_domain, play.fork.client.head().timestamp
        receipts = [self._receipt(like, number, now) for number in range(1, TRIES + 1)]
        entries = [SignedReceipt(each, who.sign(receipt_id(domain, each)), "drill") for each in receipts]
        leaves = batch_leaves(domain, entries)
        header = BatchHeader(
            batch_id=0, operator=who.address, first_seq=U64(1), count=U32(TRIES), root=merkle.batch_root(leaves),
            list_hash=Digest(secrets.token_bytes(32)), environment=like.environment, model_id=like.model_id,
            key_epoch=U64(play.snapshot.active_epoch), locator="drill", anchored_at=U64(0), block=U64(0),
        )  # fmt: skip
        play.do(
            "An operator anchors receipts", who.address, post_of(header, 10 * TRIES * play.snapshot.price_wei), "on the fork only"
        )
        count = play.reader.snapshot(play.account, play.reader.head()).batch_count
        return entries, merkle.batch_tree(leaves).proofs, count - 1

    def _example(self) -> BatchHeader:
        """Returns the newest batch whose environment belongs to the account's pool. Its environment and model are used again."""
        play = self._play
        for each in reversed(play.reader.batches(int(play.fork.network.deploy_block), play.first)):
            if play.reader.pool_of(each.environment, play.first) == play.snapshot.me.pool:
                return each
        raise ConfigurationError("network", "no batch of your pool was ever anchored: there is no environment to name")

    def _receipt(self, like: BatchHeader, number: int, now: int) -> Receipt:
        return Receipt(
            operator=self._operator.address, seq=U64(number), req_hash=Digest(secrets.token_bytes(32)), tokens_hash=TRUE[0],
            out_hash=digests.out_hash(*TRUE), model_id=like.model_id, environment=like.environment, gpu_arch=ZERO_DIGEST,
            key_epoch=U64(self._play.snapshot.active_epoch), envelope_hash=Digest(secrets.token_bytes(32)), issued_at=U64(now),
            anchor_by=U64(now + 600), mode=U8(Mode.PLAIN), client_mode=U8(ClientMode.DELEGATED), enclave_key=ZERO_ADDRESS,
            chain_id=U256(self._play.fork.network.chain_id),
        )  # fmt: skip

    def _drawn(self, entries: Sequence[SignedReceipt], proofs: Sequence[tuple[Digest, ...]], batch_id: int) -> Dispute:
        """Opens disputes until the account has a seat in one, and the other members have enough seats for a quorum. Returns that
        dispute in its commit phase."""
        play, bond = self._play, self._play.params.required_bond
        for entry, proof in zip(entries, proofs, strict=True):
            arguments = (struct_values(entry.receipt), entry.signature, batch_id, proof, Digest(secrets.token_bytes(32)))
            play.tell("a committee is drawn")
            play.fork.send(self._tower, ContractCall("Disputes", "open", arguments, bond))
            id_ = dispute_id(play.fork.network.disputes_domain, receipt_id(play.fork.network.anchor_domain, entry.receipt))
            case = self._until(id_, Phase.COMMIT)
            mine = case.seat_of(play.account)
            # If the account had more seats, the others would be no quorum. Then a larger round would begin, and nobody would be
            # charged yet.
            if mine is not None and case.seats - mine.seat_mask.bit_count() >= case.quorum:
                play.note("A watchtower disputes a receipt", self._tower, "Disputes.open", f"bond {bond} wei")
                return case
        told = f"in none of {TRIES} committees it has a seat, and so few that the others are a quorum"
        raise ConfigurationError("account", f"{play.account}: {told}")

    def _until(self, id_: Digest, phase: Phase) -> Dispute:
        """Makes the calls that anybody may make, and mines blocks, until the dispute is in a phase. Returns the dispute."""
        play, client = self._play, self._play.fork.client
        for _ in range(MOST_MOVES):
            case = self._case(id_)
            if case.phase is phase:
                return case
            if case.phase in (Phase.SEED, Phase.DRAWING) and client.head().number > case.seed.block:
                count = min(SEATS_PER_CALL, case.seats - case.drawn)
                call = ContractCall("Disputes", "draw", (id_, count, header_rlp(client, case.seed.block)))
                play.fork.send(self._tower, call)
            elif case.phase is Phase.REVEAL and case.settleable:
                play.do("Anybody counts the seats", self._tower, ContractCall("Disputes", "settle", (id_,)), "")
            else:
                play.fork.mine()
        raise ConfigurationError("network", f"the dispute never reaches phase {phase.name.lower()} on the fork")

    def _case(self, id_: Digest) -> Dispute:
        found = self._play.reader.dispute(id_, self._play.reader.head())
        assert found is not None, "it was opened"
        return found

    def _vote(self, case: Dispute, mine: Seat) -> None:
        """Makes all other members commit and reveal the same vote, and lets the account fail as chosen."""
        play = self._play
        votes = [_vote_of(case, each, TRUE) for each in case.members if each.voter != mine.voter]
        own = _vote_of(case, mine, FALSE if self._fault is SeatFault.WRONG else TRUE)
        committed = votes if self._fault is SeatFault.ABSENT else [*votes, own]
        for vote in committed:
            commitment = typed_digest(play.fork.network.disputes_domain, vote)
            play.fork.send(vote.voter, ContractCall("Rounds", "commit", (vote.dispute, vote.seat_mask, commitment)))
        play.note(f"{len(committed)} of {len(case.members)} members commit", self._tower, "Rounds.commit", f"you: {self._fault}")
        if self._case(case.id).phase is Phase.COMMIT:  # it ends early if every seat has committed
            play.fork.pass_time(play.params.times.commit_time + 1)
        for vote in [*votes, own] if self._fault is SeatFault.WRONG else votes:
            play.fork.send(vote.voter, ContractCall("Rounds", "reveal", (struct_values(vote), QUOTE)))
        play.note("Members reveal the same answer", self._tower, "Rounds.reveal", f"you: {self._fault}")

    def _end(self, case: Dispute) -> None:
        """Counts the votes, waits for appeal and airgap, ends the dispute, and pays or charges every seat."""
        play, times = self._play, self._play.params.times
        play.fork.pass_time(times.reveal_time + 1)
        play.do("Anybody counts the seats", self._tower, ContractCall("Disputes", "settle", (case.id,)), "")
        play.fork.pass_time(times.appeal_time + times.airgap + 2)
        after = self._case(case.id)
        end, waited = ContractCall("Disputes", "finalize", (case.id,)), times.appeal_time + times.airgap
        play.do(f"The dispute ends {after.verdict.name}", self._tower, end, f"after {waited} s of appeal and airgap")
        for start in range(0, case.seats, SEATS_PER_CALL):
            count = min(SEATS_PER_CALL, case.seats - start)
            play.fork.send(self._tower, ContractCall("Settlement", "settleSeats", (case.id, case.round, count)))
        play.note("Seats are paid or charged", self._tower, "Settlement.settleSeats", f"{self._fault}: charged for each seat")


def _vote_of(case: Dispute, seat: Seat, found: tuple[Digest, Digest]) -> Vote:
    return Vote(
        dispute=case.id, round=U16(case.round), voter=seat.voter, seat_mask=U256(seat.seat_mask), outcome=U8(Outcome.EXECUTED),
        code=U8(0), tokens_hash=found[0], trace_root=found[1], round_digest=Digest(b"\x05" * 32),
        quote_hash=digests.keccak256(QUOTE), salt=digests.keccak256(seat.voter.encode()),
    )  # fmt: skip
