"""Acts on disputes: opening, seeds, draws, votes, certificates, counting, ending, paying."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from bytewise.protocol import digests, merkle
from bytewise.protocol.ballots import Commit
from bytewise.protocol.errors import MalformedValue, SecondVote
from bytewise.protocol.messages import Finding, Vote
from bytewise.protocol.receipt import Receipt, receipt_id
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.storage.outbox import Item
from chain.acts import Acts
from chain.artifacts import interface
from chain.bls import PublicKey, words
from chain.certificates import CertificateProof
from chain.headers import header_rlp

COMMITS_PER_CALL = 200
"""Relayed commitments that one transaction has gas for: 14.0 of 16.7 million (`commits_200_relayed` of `make bench-chain`)."""


class SignedCommit(NamedTuple):
    """A member's commitment for somebody else to bring to the chain."""

    commit: Commit
    voter: Address
    signature: Blob


class DisputeActs(Acts):
    """What a challenger, a member or any helper does."""

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
        """Questions a receipt with a bond; `alt_commit` as `protocol.ballots` makes it, `within_s` as in `Sender`."""
        subject = receipt_id(self._network.anchor_domain, receipt)
        arguments = (struct_values(receipt), signature, batch_id, proof, alt_commit)
        self._act("Disputes", "open", subject, arguments, value_wei=bond_wei, within_s=within_s)

    def prove_seed(self, block: int) -> None:
        """Shows the header of a seed block, while the chain still knows its hash."""
        header = header_rlp(self.transactions.client, block)
        self._act("RandaoSource", "prove", block.to_bytes(8, "big"), (block, header))

    def draw(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        """Draws some seats from the first one that is not drawn."""
        seed: int = self._view(dispute)["round"]["seedBlock"]
        # Seats that a lost seed drew are drawn again by another.
        more = first.to_bytes(2, "big") + seed.to_bytes(8, "big")
        self._step("draw", dispute, round_number, (dispute, count), more)

    def rearm(self, dispute: Digest, round_number: int) -> None:
        """Names a new seed block. Each lost one is an act of its own: a round can be armed again three times."""
        lost: int = self._view(dispute)["round"]["seedBlock"]
        self._step("rearm", dispute, round_number, (dispute,), lost.to_bytes(8, "big"))

    def commit(self, dispute: Digest, round_number: int, seat_mask: int, commitment: Digest) -> None:
        """Commits to a vote while the round takes commitments. `SecondVote` if another one of this round was ever planned."""
        until: int = self._view(dispute)["round"]["commitEnd"]
        self._vote("commit", dispute, round_number, (dispute, seat_mask, commitment), until)

    def commit_for(self, commits: Sequence[SignedCommit], most: int = COMMITS_PER_CALL) -> None:
        """Brings others' commitments of one round, `most` in each transaction; who has committed already is passed over.

        `MalformedValue` if they are of several rounds, or two are of one voter.
        """
        for part in parts_of(commits, most):
            first = part[0].commit
            until: int = self._view(first.dispute)["round"]["commitEnd"]
            arguments = (
                [struct_values(each.commit) for each in part],
                [each.voter for each in part],
                [each.signature for each in part],
            )
            # Which parts they come in may differ the next time; an act is known by who is in it.
            voters = digests.keccak256(bytes.fromhex("".join(each.voter[2:] for each in part)))
            self._step("commitFor", first.dispute, first.round, arguments, voters, deadline=until)

    def post_commit_root(self, dispute: Digest, round_number: int, root: Digest) -> None:
        """Says, as a drawn member, that commitments of this root existed before anybody revealed."""
        until: int = self._view(dispute)["round"]["commitEnd"]
        self._step("postCommitRoot", dispute, round_number, (dispute, root), root, deadline=until)

    def form_committee(self, dispute: Digest, round_number: int, seated: int, keys: Sequence[PublicKey]) -> None:
        """Adds the keys of the members in the mask `seated`, lowest first."""
        points = [words(key) for key in keys]
        self._step("formCommittee", dispute, round_number, (dispute, seated, points))

    def certify(self, finding: Finding, commit_root: Digest, proof: CertificateProof) -> None:
        """Brings one signature of members whose seats make a quorum."""
        until: int = self._view(finding.dispute)["round"]["revealEnd"]
        arguments = (struct_values(finding), commit_root, proof.argument)
        self._step("certify", finding.dispute, finding.round, arguments, deadline=until)

    def reveal(self, vote: Vote, quote: Blob) -> None:
        """Opens a vote with its quote while the round takes them. `SecondVote` if another vote of it was ever planned."""
        until: int = self._view(vote.dispute)["round"]["revealEnd"]
        self._vote("reveal", vote.dispute, vote.round, (struct_values(vote), quote), until)

    def reveal_under_root(self, vote: Vote, quote: Blob, proof: Sequence[Digest]) -> None:
        """Opens the sender's own vote under the first commit root of the round; `proof` is that of `merkle.commit_proof`.

        `MalformedValue` if it is none; `SecondVote` if another vote of the round was ever planned so.
        """
        if len(proof) != merkle.COMMIT_DEPTH:
            raise MalformedValue("proof of a commitment", f"{len(proof)} siblings instead of {merkle.COMMIT_DEPTH}")
        until: int = self._view(vote.dispute)["round"]["revealEnd"]
        arguments = (struct_values(vote), quote, list(proof))
        self._vote("revealUnderRoot", vote.dispute, vote.round, arguments, until)

    def settle(self, dispute: Digest, round_number: int) -> None:
        """Counts a round."""
        self._step("settle", dispute, round_number, (dispute,))

    def appeal(self, dispute: Digest, bond_wei: int) -> None:
        """Asks for the next level, once, for the loser."""
        until: int = self._view(dispute)["dispute"]["appealEnd"]
        self._act("Disputes", "appeal", dispute, (dispute,), value_wei=bond_wei, deadline=until)

    def open_alt(self, dispute: Digest, salt: Digest) -> None:
        """Shows that the challenger knew what the verdict says, before the airgap ends."""
        until: int = self._view(dispute)["dispute"]["airgapEnd"]
        self._act("Disputes", "openAlt", dispute, (dispute, salt), deadline=until)

    def finalize(self, dispute: Digest) -> None:
        """Ends a dispute whose airgap is over."""
        self._act("Disputes", "finalize", dispute, (dispute,))

    def pay_out(self, dispute: Digest) -> None:
        """Pays everybody but the seats, once slashed stake has arrived."""
        self._act("Settlement", "payOut", dispute, (dispute,))

    def settle_seats(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        """Pays or charges some seats from the first one that is not settled."""
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
    ) -> Item:
        return self._act("Disputes", function, step_subject(dispute, round_number) + more, arguments, deadline=deadline)

    def _vote(self, function: str, dispute: Digest, round_number: int, arguments: tuple[Any, ...], deadline: int) -> None:
        item = self._step(function, dispute, round_number, arguments, deadline=deadline)
        if item.intent.calldata != interface("Disputes").call(function, *arguments):
            raise SecondVote(dispute.hex(), round_number, item.id)


def parts_of(commits: Sequence[SignedCommit], most: int) -> list[Sequence[SignedCommit]]:
    """As few parts as `most` in each allow, of equal size but for one: a full transaction waits longest for its block."""
    if len({(each.commit.dispute, each.commit.round) for each in commits}) > 1:
        raise MalformedValue("commitments", "are of several rounds")
    if len({each.voter for each in commits}) < len(commits):
        raise MalformedValue("commitments", "two are of one voter")
    count = -(-len(commits) // most)
    size = -(-len(commits) // count) if count else 1
    return [commits[start : start + size] for start in range(0, len(commits), size)]


def step_subject(dispute: Digest, round_number: int) -> bytes:
    """How the subject of a step begins: `answers.check_round` reads it again."""
    return dispute + round_number.to_bytes(2, "big")
