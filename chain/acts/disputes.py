"""Transactions about disputes: opening, draws, votes, verdict certificates, counting, ending, paying."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from bytewise.crypto.bls import BlsCertificate, point_words
from bytewise.protocol import digests, merkle
from bytewise.protocol.court.commitments import Commit
from bytewise.protocol.errors.actors import SecondVote
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.receipt import Receipt, receipt_id
from bytewise.protocol.records.statements import Finding, Vote
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.storage.outbox import OutboxItem, OutboxState
from chain.acts.planner import NetworkPlanner
from chain.client.artifacts import interface
from chain.client.blocks import header_rlp

ROUND_FUNCTIONS = frozenset({"commit", "commitFor", "postCommitRoot", "certify", "reveal", "revealMany", "revealUnderRoot"})
"""Functions of the contract `Rounds` that these transactions call. Every other step of a round is a function of `Disputes`."""

SEATS_PER_END = 64
"""Largest number of seats that are paid or charged in the transaction that ends their dispute. More seats could need more gas
than one transaction may have: 85 absent ones take 13.1 of 16.7 million (`settle_85_seats_of_absent` of `make bench-chain`)."""

COMMITS_PER_CALL = 200
"""Largest number of other members' commitments in one transaction: 200 take 14.0 of 16.7 million gas (`commits_200_relayed` of
`make bench-chain`)."""


class CourtCall(NamedTuple):
    """One of several contract calls that are made in one transaction."""

    contract: str
    """Name of the contract."""
    function: str
    """Name of the function."""
    arguments: tuple[Any, ...]
    """Arguments in the order of the contract's ABI."""


class SignedCommit(NamedTuple):
    """A member's signed commitment, which another account may send."""

    commit: Commit
    """The commitment, as the member signed it."""
    voter: Address
    """Account of the member."""
    signature: Blob
    """The member's signature."""


class DisputeTransactions(NetworkPlanner):
    """Transactions in a dispute. A challenger, a committee member or any other account sends them."""

    def open_dispute(
        self,
        receipt: Receipt,
        signature: Blob,
        batch_id: int,
        proof: tuple[Digest, ...],
        alt_commit: Digest,
        bond_wei: int,
        within_s: int = 0,
    ) -> None:
        """Disputes a receipt with a bond. `alt_commit` is the challenger's commitment to the answer that it expects
        (`commitments.alt_commit` makes it). `bytewise.ports` explains `within_s`."""
        subject = receipt_id(self._network.anchor_domain, receipt)
        arguments = (struct_values(receipt), signature, batch_id, proof, alt_commit)
        self._act("Disputes", "open", subject, arguments, value_wei=bond_wei, within_s=within_s)

    def draw(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        """Draws `count` seats, from the first undrawn seat on, with the header of the seed block. `first` is the number of that
        seat, so that each part is a separate transaction.

        Raises `TryAgain` if the node does not have that block.
        """
        seed: int = self._view(dispute)["round"]["seedBlock"]
        header = header_rlp(self.transactions.client, seed)
        # Seats that a lost seed drew are drawn again by another seed, and by another header after a reorganisation.
        more = first.to_bytes(2, "big") + seed.to_bytes(8, "big") + digests.keccak256(header)
        self._step("draw", dispute, round_number, (dispute, count, header), more)

    def rearm(self, dispute: Digest, round_number: int) -> None:
        """Makes the contract name a new seed block in place of a lost one. A round can get a new seed three times, so each lost
        seed is a separate transaction. The fourth time, the contract names no seed block: the verdict of an earlier round stands,
        or the verdict is DRAW."""
        lost: int = self._view(dispute)["round"]["seedBlock"]
        self._step("rearm", dispute, round_number, (dispute,), lost.to_bytes(8, "big"))

    def commit(self, dispute: Digest, round_number: int, seat_mask: int, commitment: Digest) -> None:
        """Commits to a vote before the end of the commit phase. Raises `SecondVote` if another commitment of this account was
        ever planned for this round."""
        until: int = self._view(dispute)["round"]["commitEnd"]
        self._vote("commit", dispute, round_number, (dispute, seat_mask, commitment), until)

    def commit_for(self, commits: Sequence[SignedCommit], most: int = COMMITS_PER_CALL) -> None:
        """Sends other members' commitments of one round, at most `most` in each transaction. The contract skips voters that have
        committed already.

        Raises `MalformedValue` if the commitments are of several rounds, or two are of one voter.
        """
        for part in parts_of(commits, most):
            first = part[0].commit
            until: int = self._view(first.dispute)["round"]["commitEnd"]
            arguments = (
                [struct_values(each.commit) for each in part],
                [each.voter for each in part],
                [each.signature for each in part],
            )
            # The parts may differ the next time, so a transaction is identified by the voters in it.
            voters = digests.keccak256(bytes.fromhex("".join(each.voter[2:] for each in part)))
            self._step("commitFor", first.dispute, first.round, arguments, voters, deadline=until)

    def post_commit_root(self, dispute: Digest, round_number: int, root: Digest) -> None:
        """States, as a drawn member, that the commitments under the Merkle root `root` existed before the first reveal."""
        until: int = self._view(dispute)["round"]["commitEnd"]
        self._step("postCommitRoot", dispute, round_number, (dispute, root), root, deadline=until)

    def certify(self, finding: Finding, commit_root: Digest, certificate: BlsCertificate, settles: bool = False) -> None:
        """Sends a verdict certificate: one signature of members whose seats make a quorum.

        If `settles` is true, the same transaction also counts the round. If that combined transaction has reverted before, the
        certificate is sent alone.
        """
        until: int = self._view(finding.dispute)["round"]["revealEnd"]
        keys = [point_words(key) for key in certificate.keys]
        arguments = (struct_values(finding), commit_root, certificate.signers, keys, point_words(certificate.signature))
        steps = CourtCall("Rounds", "certify", arguments), CourtCall("Disputes", "settle", (finding.dispute,))
        if not (settles and self._together(finding.dispute, steps, until)):
            self._step("certify", finding.dispute, finding.round, arguments, deadline=until)

    def reveal(self, vote: Vote, quote: Blob) -> None:
        """Reveals a vote with its quote before the end of the reveal phase. Raises `SecondVote` if another vote of this account
        was ever planned for this round."""
        until: int = self._view(vote.dispute)["round"]["revealEnd"]
        self._vote("reveal", vote.dispute, vote.round, (struct_values(vote), quote), until)

    def reveal_many(self, opened: Sequence[tuple[Vote, Blob]]) -> None:
        """Reveals votes of one round with their quotes, of any voters. The contract skips votes that are revealed already.

        Raises `MalformedValue` if the votes are of several rounds, or if there are none.
        """
        votes = [vote for vote, _ in opened]
        if len({(each.dispute, each.round) for each in votes}) != 1:
            raise MalformedValue("votes", "are not of one round")
        first = votes[0]
        until: int = self._view(first.dispute)["round"]["revealEnd"]
        voters = digests.keccak256(bytes.fromhex("".join(each.voter[2:] for each in votes)))
        arguments = ([struct_values(vote) for vote, _ in opened], [quote for _, quote in opened])
        self._step("revealMany", first.dispute, first.round, arguments, voters, deadline=until)

    def reveal_under_root(self, vote: Vote, quote: Blob, proof: Sequence[Digest]) -> None:
        """Reveals the sender's own vote under the first commit root of the round. `merkle.commit_proof` makes `proof`.

        Raises `MalformedValue` if the proof has the wrong length. Raises `SecondVote` if this method has ever planned
        another vote of this account for this round.
        """
        if len(proof) != merkle.COMMIT_DEPTH:
            raise MalformedValue("proof of a commitment", f"{len(proof)} siblings instead of {merkle.COMMIT_DEPTH}")
        until: int = self._view(vote.dispute)["round"]["revealEnd"]
        arguments = (struct_values(vote), quote, list(proof))
        self._vote("revealUnderRoot", vote.dispute, vote.round, arguments, until)

    def settle(self, dispute: Digest, round_number: int) -> None:
        """Counts the votes of a round, which ends the round."""
        self._step("settle", dispute, round_number, (dispute,))

    def appeal(self, dispute: Digest, bond_wei: int) -> None:
        """Appeals the verdict with a bond. A dispute can be appealed once."""
        until: int = self._view(dispute)["dispute"]["appealEnd"]
        self._act("Disputes", "appeal", dispute, (dispute,), value_wei=bond_wei, deadline=until)

    def open_alt(self, dispute: Digest, salt: Digest) -> None:
        """Opens the challenger's commitment before the end of the airgap. It shows that the challenger knew the winning answer
        when it opened the dispute."""
        until: int = self._view(dispute)["dispute"]["airgapEnd"]
        self._act("Disputes", "openAlt", dispute, (dispute, salt), deadline=until)

    def finalize(self, dispute: Digest) -> None:
        """Ends a dispute whose airgap is over. The same transaction pays or charges up to `SEATS_PER_END` seats.

        If that combined transaction has reverted before, for example because slashed stake had not arrived, this method sends
        only the call that ends the dispute.
        """
        steps, room = [CourtCall("Disputes", "finalize", (dispute,))], SEATS_PER_END
        for number, each in enumerate(self._view(dispute)["rounds"], start=1):
            if count := min(each["seats"], room):
                steps.append(CourtCall("Settlement", "settleSeats", (dispute, number, count)))
                room -= count
        if not self._together(dispute, steps):
            self._act("Disputes", "finalize", dispute, (dispute,))

    def pay_out(self, dispute: Digest) -> None:
        """Pays all parties of an ended dispute except the seats, once slashed stake has arrived."""
        self._act("Settlement", "payOut", dispute, (dispute,))

    def settle_seats(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        """Pays or charges `count` seats of a round, from the first unsettled seat on. `first` is the number of that seat, so
        that each part is a separate transaction."""
        subject = dispute + round_number.to_bytes(2, "big") + first.to_bytes(2, "big")
        self._act("Settlement", "settleSeats", subject, (dispute, round_number, count))

    def _step(
        self,
        function: str,
        dispute: Digest,
        round_number: int,
        arguments: tuple[Any, ...],
        more: bytes = b"",
        deadline: int = 0,
    ) -> OutboxItem:
        contract = "Rounds" if function in ROUND_FUNCTIONS else "Disputes"
        return self._act(contract, function, step_subject(dispute, round_number) + more, arguments, deadline=deadline)

    def _together(self, dispute: Digest, steps: Sequence[CourtCall], deadline: int = 0) -> bool:
        """Plans several calls as one transaction. Returns False, and plans nothing, if the contracts have refused exactly these
        calls together."""
        calls = [(self._at(each.contract), interface(each.contract).call(each.function, *each.arguments)) for each in steps]
        # Calls with other seats or another certificate are another transaction.
        subject = dispute + digests.keccak256(interface("Keeper").call("run", calls))
        earlier = self.find(self._at("Keeper"), "run", subject)
        if earlier is not None and earlier.state is OutboxState.REVERTED:
            return False
        self._act("Keeper", "run", subject, (calls,), deadline=deadline)
        return True

    def _vote(self, function: str, dispute: Digest, round_number: int, arguments: tuple[Any, ...], deadline: int) -> None:
        item = self._step(function, dispute, round_number, arguments, deadline=deadline)
        if item.intent.calldata != interface("Rounds").call(function, *arguments):
            raise SecondVote(dispute.hex(), round_number, item.id)


def parts_of(commits: Sequence[SignedCommit], most: int) -> list[Sequence[SignedCommit]]:
    """Splits commitments of one round into the fewest parts of at most `most` each.

    All parts except the last have one size, so that no part is larger than needed: the largest transaction waits longest for a
    block. Raises `MalformedValue` if the commitments are of several rounds, or two are of one voter.
    """
    if len({(each.commit.dispute, each.commit.round) for each in commits}) > 1:
        raise MalformedValue("commitments", "are of several rounds")
    if len({each.voter for each in commits}) < len(commits):
        raise MalformedValue("commitments", "two are of one voter")
    count = -(-len(commits) // most)
    size = -(-len(commits) // count) if count else 1
    return [commits[start : start + size] for start in range(0, len(commits), size)]


def step_subject(dispute: Digest, round_number: int) -> bytes:
    """Returns the first bytes of a step's subject: dispute and round. `state_check.check_round` reads them."""
    return dispute + round_number.to_bytes(2, "big")
