"""One anchored batch, a sender for everybody, and somebody who makes the moves that are anybody's: disputes from end to end."""

from collections.abc import Iterable
from pathlib import Path

from bytewise.protocol import digests
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.commitments import alt_commit, dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.disputes import Alternative, MovePolicy, decide_challenger, decide_moves
from bytewise.protocol.decisions.snapshot import Case, Docket
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import Outcome, Vote
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.units import U8, U16, U256, Address, Blob, Digest
from chain.acts.actor import ContractSender
from chain.deployment.params import DEVNET
from chain.reads.history import CourtHistory
from chain.reads.reader import DocketReader
from tests.anvil import Anvil
from tests.devnet import CHALLENGER, OPERATORS, VERIFIERS, Batch, batch, deployed, mine, sender, word
from verifier.executor import Move, make_move

QUOTE = Blob(b"quote")
EAGER = MovePolicy(turns=1, overdue=0, seats_per_draw=8, seats_per_settlement=8)
TRUE = (word("true tokens"), word("true trace"))


class Court:
    """A network with one anchored batch, a sender for everybody, and somebody who makes the moves that are anybody's."""

    def __init__(
        self, anvil: Anvil, folder: Path, at_eigenlayer: bool = False, network: Network | None = None, **times: int
    ) -> None:
        """`times` are those that differ from `DEVNET`: anvil's clock is the wall's, and a busy machine is slow.

        `network` is one that the chain has already.
        """
        self.anvil = anvil
        self.network = network or deployed(anvil, DEVNET, at_eigenlayer, **times)
        self.reader = DocketReader(anvil.client, self.network)
        self.senders = {each.address: sender(anvil, self.network, each, folder) for each in (*OPERATORS, *VERIFIERS, CHALLENGER)}
        self.domain = self.network.disputes_domain
        self.batch: Batch = batch(self.network, OPERATORS[0], 1, 3, anvil.client.head().timestamp)
        price = self.reader.docket(OPERATORS[0].address, self.reader.head()).price_wei
        self.of(OPERATORS[0]).anchor(self.batch.header, 3 * price)
        self.pump()

    def of(self, who: LocalSigner) -> ContractSender:
        return self.senders[who.address]

    def pump(self) -> None:
        while sum(each.pump() for each in self.senders.values()):
            self.anvil.mine()

    def open(self, index: int, expected: Digest) -> Alternative:
        """The challenger questions a receipt and commits to the key that it expects."""
        entry, salt = self.batch.entries[index], word("salt", index)
        self.dispute = dispute_id(self.domain, receipt_id(self.network.anchor_domain, entry.receipt))
        commitment = alt_commit(self.domain, self.dispute, CHALLENGER.address, expected, salt)
        proof, bond = self.batch.proofs[index], DEVNET.required_bond
        self.of(CHALLENGER).open_dispute(entry.receipt, entry.signature, 0, proof, commitment, bond)
        self.pump()
        return Alternative(expected, salt)

    def docket(self) -> Docket:
        """What the challenger sees, with all disputes."""
        head = self.reader.head()
        return self.reader.docket(CHALLENGER.address, head, self.reader.opened(0, head))

    def case(self) -> Case:
        found = self.reader.case(self.dispute, self.reader.head())
        assert found is not None
        return found

    def step(self, known: Alternative | None = None) -> None:
        """One tick of whoever makes moves; a block where there is nothing to do."""
        docket = self.docket()
        alternatives = {} if known is None else {self.dispute: known}
        actions: tuple[Action, ...] = decide_moves(docket, EAGER)
        if known is not None:
            actions += decide_challenger(docket, CHALLENGER.address, alternatives)
        self.moves(actions)
        while actions and self.of(CHALLENGER).pump():
            self.anvil.mine()
        mine(self.anvil, 1 if actions else 4)

    def moves(self, actions: Iterable[Action]) -> None:
        """The challenger sends moves that are anybody's."""
        for action in actions:
            assert isinstance(action, Move)
            make_move(self.of(CHALLENGER), action)

    def until(self, phase: Phase, known: Alternative | None = None) -> Case:
        for _ in range(200):
            if self.case().phase is phase:
                return self.case()
            self.step(known)
        raise AssertionError(f"{self.case().phase} instead of {phase}")

    def vote(self, case: Case, voter: Address, words: tuple[Digest, Digest]) -> Vote:
        seat = case.seat_of(voter)
        assert seat is not None
        return Vote(
            dispute=case.id, round=U16(case.round), voter=voter, seat_mask=U256(seat.seat_mask), outcome=U8(Outcome.EXECUTED),
            code=U8(0), tokens_hash=words[0], trace_root=words[1], round_digest=word("round"),
            quote_hash=digests.keccak256(QUOTE), salt=word("salt", voter),
        )  # fmt: skip

    def commit(self, votes: list[Vote]) -> None:
        for vote in votes:
            self.senders[vote.voter].commit(vote.dispute, vote.round, vote.seat_mask, typed_digest(self.domain, vote))
        self.pump()

    def reveal(self, votes: list[Vote]) -> None:
        for vote in votes:
            self.senders[vote.voter].reveal(vote, QUOTE)
        self.pump()

    def settled(self) -> Case:
        """Past the end, until every seat is paid or charged."""
        while any(each.settled < each.seats for each in self.case().rounds) or not self.case().paid:
            self.step()
        return self.case()

    def everything_is_accounted_for(self) -> None:
        """Balances, and each ending, sum to the wei; what the ledger holds is what its events say."""
        money, history = self.reader.money(self.reader.head()), CourtHistory(self.reader)
        head = self.reader.head()
        endings = history.endings(0, head)
        assert money.sums and endings and all(each.sums for each in endings)
        ins = {"Taken", "Funded"}
        moved = [m for m in history.movements(0, head) if m.event in ins | {"Withdrawn"}]
        assert money.ledger_balance == sum(m.values["amount"] * (1 if m.event in ins else -1) for m in moved)
        # What is left in pots is what operators paid for audits.
        assert money.total_pots == money.audit_pool > 0
