"""Acts on disputes: opening, draws, votes, certificates, counting, ending, paying."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.crypto.bls import BlsSignature, PublicKey, aggregate, words
from bytewise.protocol import digests, merkle
from bytewise.protocol.court.commitments import Commit
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.errors.actors import SecondVote
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.receipt import Receipt, receipt_id
from bytewise.protocol.records.statements import Finding, Vote
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import Address, Blob, Digest
from bytewise.storage.outbox import Item, State
from chain.acts.base import NetworkPlanner
from chain.client.artifacts import interface
from chain.client.blocks import header_rlp

# Verdict certificates: the keys of all who signed and their one signature (`Rounds.certify`).


class BlsCertificate(NamedTuple):
    """An aggregate signature and the keys that made it."""

    signers: int
    """Mask of the seats that signed."""
    keys: tuple[PublicKey, ...]
    """One for each of those seats, lowest seat first; the same again for each further seat of a member."""
    signature: BlsSignature


def signing_mask(members: Sequence[Seat], keys: Mapping[Address, PublicKey], willing: Collection[Address]) -> int:
    """Mask of the seats that everybody is to sign for (`ballots.certified_digest`): of those who are willing, whose
    commitments under the root were seen opened, who have a key and did not commit on the chain."""
    return sum(each.seat_mask for each in members if each.voter in willing and each.voter in keys and not each.committed)


def certificate(
    members: Sequence[Seat], keys: Mapping[Address, PublicKey], signatures: Mapping[Address, BlsSignature]
) -> BlsCertificate:
    """The certificate of all who signed; `MalformedValue` if nobody did, or somebody who may not: without a key or seat, or
    committed on the chain. Each must have signed for the seats of all of these (`signing_mask`).

    Signatures are taken as they are: check each before (`bls.check_signature`), for one bad one spoils the sum.
    """
    strangers = signatures.keys() - {each.voter for each in members if each.voter in keys and not each.committed}
    if not signatures or strangers:
        raise MalformedValue("certificate", f"signed by {len(signatures)}, of whom may not: {sorted(strangers)}")
    signing_members = [each for each in members if each.voter in signatures]
    key_of = {seat: keys[each.voter] for each in signing_members for seat in _seats_in(each.seat_mask)}
    return BlsCertificate(
        signers=sum(each.seat_mask for each in signing_members),
        keys=tuple(key_of[seat] for seat in sorted(key_of)),
        signature=aggregate((signatures[each.voter], each.seat_mask.bit_count()) for each in signing_members),
    )


def _seats_in(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


ROUND_FUNCTIONS = frozenset({"commit", "commitFor", "postCommitRoot", "certify", "reveal", "revealMany", "revealUnderRoot"})
"""What `Rounds` takes; every other step of a round is of `Disputes`."""

SEATS_PER_END = 64
"""Seats that are paid in the transaction that ends their dispute: more would make it dear to include."""

COMMITS_PER_CALL = 200
"""Relayed commitments that one transaction has gas for: 14.0 of 16.7 million (`commits_200_relayed` of `make bench-chain`)."""


class CourtCall(NamedTuple):
    """One call of several that are made together."""

    contract: str
    function: str
    arguments: tuple[Any, ...]


class SignedCommit(NamedTuple):
    """A member's commitment for somebody else to bring to the chain."""

    commit: Commit
    voter: Address
    signature: Blob


class DisputeTransactions(NetworkPlanner):
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

    def draw(self, dispute: Digest, round_number: int, first: int, count: int) -> None:
        """Draws some seats from the first one that is not drawn, and shows the seed block's header.

        `TryAgain` if the node does not have that block.
        """
        seed: int = self._view(dispute)["round"]["seedBlock"]
        header = header_rlp(self.transactions.client, seed)
        # Seats that a lost seed drew are drawn again by another, and by another header after a reorganisation.
        more = first.to_bytes(2, "big") + seed.to_bytes(8, "big") + digests.keccak256(header)
        self._step("draw", dispute, round_number, (dispute, count, header), more)

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

    def certify(self, finding: Finding, commit_root: Digest, certificate: BlsCertificate, settles: bool = False) -> None:
        """Brings one signature of members whose seats make a quorum; with `settles` also counts the round in one transaction, or
        brings the certificate alone once the contracts refused both together."""
        until: int = self._view(finding.dispute)["round"]["revealEnd"]
        keys = [words(key) for key in certificate.keys]
        arguments = (struct_values(finding), commit_root, certificate.signers, keys, words(certificate.signature))
        steps = CourtCall("Rounds", "certify", arguments), CourtCall("Disputes", "settle", (finding.dispute,))
        if not (settles and self._together(finding.dispute, steps, until)):
            self._step("certify", finding.dispute, finding.round, arguments, deadline=until)

    def reveal(self, vote: Vote, quote: Blob) -> None:
        """Opens a vote with its quote while the round takes them. `SecondVote` if another vote of it was ever planned."""
        until: int = self._view(vote.dispute)["round"]["revealEnd"]
        self._vote("reveal", vote.dispute, vote.round, (struct_values(vote), quote), until)

    def reveal_many(self, opened: Sequence[tuple[Vote, Blob]]) -> None:
        """Opens votes of one round with their quotes, whoever cast them; one that is open already is passed over.

        `MalformedValue` if they are of several rounds, or there are none.
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
        """Ends a dispute whose airgap is over, and pays or charges its first seats in one transaction; the end alone once the
        contracts refused both together: slashed stake may not have arrived."""
        steps, room = [CourtCall("Disputes", "finalize", (dispute,))], SEATS_PER_END
        for number, each in enumerate(self._view(dispute)["rounds"], start=1):
            if count := min(each["seats"], room):
                steps.append(CourtCall("Settlement", "settleSeats", (dispute, number, count)))
                room -= count
        if not self._together(dispute, steps):
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
        contract = "Rounds" if function in ROUND_FUNCTIONS else "Disputes"
        return self._act(contract, function, step_subject(dispute, round_number) + more, arguments, deadline=deadline)

    def _together(self, dispute: Digest, steps: Sequence[CourtCall], deadline: int = 0) -> bool:
        """Plans steps of one moment as one transaction; False if the contracts have refused exactly these together."""
        calls = [(self._at(each.contract), interface(each.contract).call(each.function, *each.arguments)) for each in steps]
        # Other seats, or another certificate, are another act.
        subject = dispute + digests.keccak256(interface("Keeper").call("run", calls))
        earlier = self.find(self._at("Keeper"), "run", subject)
        if earlier is not None and earlier.state is State.REVERTED:
            return False
        self._act("Keeper", "run", subject, (calls,), deadline=deadline)
        return True

    def _vote(self, function: str, dispute: Digest, round_number: int, arguments: tuple[Any, ...], deadline: int) -> None:
        item = self._step(function, dispute, round_number, arguments, deadline=deadline)
        if item.intent.calldata != interface("Rounds").call(function, *arguments):
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
