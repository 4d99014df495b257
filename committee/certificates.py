"""The part of a member that makes verdict certificates together with other members (ADR-031).

`decide_certificate` decides each step. This module checks the messages of other members, stores what they state, signs, and
sends. A commit root is the Merkle root of the commitments of several members. The member stores the commitments under a root in
the database before it relies on the root, because it needs them to reveal its vote. A restart loses everything else.
"""

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bytewise.crypto.bls import BlsSignature, BlsSigner, PublicKey, certificate, is_signed, is_signed_by_all
from bytewise.ports import CertificateSender, CertificateView, GossipPort
from bytewise.protocol import merkle
from bytewise.protocol.court.commitments import certified_digest, sealed
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action, CertifyRound, PostCommitRoot, RevealUnderRoot
from bytewise.protocol.decisions.certificates import (
    ALONE,
    ATTEMPTS,
    CertificateMessage,
    CertificatePlan,
    CertificateShare,
    OpenedVote,
    RootMembers,
    RoundBoard,
    SharedCommitment,
    SignedMessage,
    decide_certificate,
    finding_of,
    leaves_of,
    message_of,
    round_of,
    signed_body,
)
from bytewise.protocol.decisions.disputes import Round
from bytewise.protocol.decisions.snapshot import Dispute, Seat, Snapshot
from bytewise.protocol.errors.branches import BytewiseError, Fault, Unavailable
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Finding, Vote
from bytewise.protocol.signing import Domain, Signer, typed_digest
from bytewise.protocol.units import U256, Address, Blob, Digest
from bytewise.service import metrics, telemetry
from bytewise.storage.protection import Protection, ReliedRoots

TOPIC = "root"
"""Gossip topic of messages about certificates."""
SENT_BEFORE_REVEAL = frozenset({"commitment", "root"})
"""Names of the messages that may be sent in the commit phase. All others show the vote."""
MAX_WAITING, PER_VOTER = 512, 8
"""Most messages that wait, in total and of one voter. A message waits if its round has not begun at this node's block, or if the
commitment that it opens has not arrived."""
CHECKS_PER_TICK = 64
"""Most checks of BLS signatures after one tick, over all disputes. One check takes about 2 ms of processor time. So one tick
checks a round of 31 seats even if some of its signatures are wrong."""


@dataclass(slots=True)
class RoundNotes:
    """The facts about one round that this member knows from messages and from the chain. An `int` key is a bit mask of seats."""

    commitments: dict[Address, SharedCommitment] = field(default_factory=dict)
    """The first commitment that each member shared."""
    doubled: dict[Address, SharedCommitment] = field(default_factory=dict)
    """The second commitment of each member that signed two different commitments. A commit root that this member makes contains
    neither of the two commitments. A commit root of another member may contain one of them."""
    roots: dict[Address, int] = field(default_factory=dict)
    """A bit mask of seats for each member that posted a commit root. The seats' commitments are under the root, as that member
    states."""
    opened: dict[Address, Finding] = field(default_factory=dict)
    """The finding of each member, from the vote that the member opened to the other members."""
    shares: dict[int, dict[Address, BlsSignature]] = field(default_factory=dict)
    """The BLS signatures for a set of seats, by member."""
    liars: set[Address] = field(default_factory=set)
    """Members that sent a wrong signature."""
    doubtful: set[int] = field(default_factory=set)
    """Sets of seats for which the sum of the signatures was wrong."""
    right: set[tuple[int, Address]] = field(default_factory=set)
    """Signatures that were checked alone and are right: the set of seats and the member."""
    complete: set[int] = field(default_factory=set)
    """Sets of seats for which every signature is there and the sum is right."""
    signed: tuple[int, ...] = ()
    """Sets of seats for which this member signed, oldest first."""
    sent: set[str] = field(default_factory=set)
    """Names of the messages that this member made already."""
    unsent: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Messages that the gossip process has not accepted yet, by name. The next tick sends them again."""
    keys: dict[Address, PublicKey] = field(default_factory=dict)
    """Registered BLS keys of the round's members."""
    members: tuple[Seat, ...] = ()
    """The seats of the round."""
    root: Digest | None = None
    """The first commit root of this round on the chain, or None."""


class Certificates:
    """The part of a member that makes verdict certificates for its account, together with the other members of each round."""

    def __init__(
        self, domain: Domain, chain: CertificateView, gossip: GossipPort, protection: Protection, relied: ReliedRoots,
        signer: Signer, bls: BlsSigner,
    ) -> None:  # fmt: skip
        self._domain = domain
        self._chain = chain
        self._gossip = gossip
        self._protection = protection
        self._relied = relied
        self._signer = signer
        self._bls = bls
        self._notes: dict[Round, RoundNotes] = {}
        self._waiting: deque[SignedMessage] = deque(maxlen=MAX_WAITING)

    def listen(self, snapshot: Snapshot) -> None:
        """Takes the messages that arrived from gossip, and forgets rounds that are over. A malformed message is dropped. A
        message that is wrong for its round is logged and counted. Neither raises an error."""
        current = {(each.id, each.round): each for each in snapshot.disputes if each.phase in (Phase.COMMIT, Phase.REVEAL)}
        self._notes = {key: kept for key, kept in self._notes.items() if key in current}
        # This node may be a block behind the sender of a message, so messages of a round that begins soon must wait.
        soon = {(each.id, each.round + 1) for each in snapshot.disputes}
        soon |= {(each.id, each.round) for each in snapshot.disputes if each.phase < Phase.COMMIT}
        waiting, self._waiting = list(self._waiting), deque(maxlen=MAX_WAITING)
        for signed in (*waiting, *self._arrived()):
            message = signed.message
            key = (message.dispute, int(message.round))
            dispute = current.get(key)
            if dispute is None and key not in soon:
                continue
            try:
                if dispute is not None and dispute.seat_of(message.voter) is None:
                    raise MalformedValue("message", f"{message.voter} has no seat in this round")
                signed.verify(self._domain)
                if dispute is None or not self._note(self._notes_of(dispute), dispute, message):
                    self._wait(signed)
            except Fault as error:
                metrics.GOSSIP_REFUSED.labels(error=type(error).__name__).inc()
                telemetry.log_error("certificate.message_refused", error, dispute=message.dispute, member=message.voter)

    def plan(self, snapshot: Snapshot, dispute: Dispute, vote: Vote, is_declined: bool = False) -> CertificatePlan:
        """Decides the next step of this member in a round for which its vote is stored. Also sends the messages that other
        members need for the round.

        If the chain does not answer or answers something impossible, this method returns the plan `ALONE`. The member then
        commits and reveals its vote without the other members.

        `is_declined` means that a person declined the duty for this dispute. Then the member makes no further commitment. If its
        earlier commitment is under a root, it still stores that root and reveals its vote under it.
        """
        notes = self._notes_of(dispute)
        try:
            # A restart forgets this member's own commitment, which may be under the root, and no other member sends it.
            self._note(notes, dispute, self._commitment_of(dispute, vote))
            board = self._board(snapshot, dispute, notes)
            if is_declined and dispute.phase is Phase.COMMIT:
                return ALONE
            leaf = sealed(typed_digest(self._domain, vote), vote.voter, vote.seat_mask)
            plan = decide_certificate(snapshot.clock, dispute, self._signer.address, vote, leaf, board)
            with contextlib.suppress(Unavailable):
                self._publish(notes, dispute)
            self._speak(plan, dispute, vote, notes, board)
        except (Fault, Unavailable) as error:
            metrics.PART_FAILURES.labels(part="certificate", error=type(error).__name__).inc()
            telemetry.log_error("certificate.postponed", error, dispute=dispute.id)
            return ALONE
        return plan

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Checks the BLS signatures that arrived, at most `CHECKS_PER_TICK` of them. Begins with the dispute whose reveal phase
        ends first. Checks the sum of the signatures first, and single signatures only if the sum is wrong.

        Returns no action, because the next tick decides. The node calls this after it has sent the actions of the tick.
        """
        left = CHECKS_PER_TICK
        for dispute in sorted(snapshot.disputes, key=lambda each: each.reveal_end):
            notes = self._notes.get((dispute.id, dispute.round))
            if notes is not None and dispute.phase is Phase.REVEAL:
                left -= self._check_shares(dispute, notes, left)
        return ()

    def collect(self, action: PostCommitRoot | CertifyRound | RevealUnderRoot, sender: CertificateSender) -> None:
        """Sends the transaction of one action: a commit root, the reveal of a vote under a commit root, or the certificate."""
        match action:
            case PostCommitRoot():
                sender.post_commit_root(action.dispute, action.round, action.root)
            case RevealUnderRoot():
                vote = action.vote
                stored = self._protection.require(vote.dispute, vote.round, vote.voter)
                sender.reveal_under_root(stored.vote, stored.quote, action.proof)
            case CertifyRound():
                self._certify(action, sender)

    # --- received messages ---

    def _wait(self, signed: SignedMessage) -> None:
        if sum(each.message.voter == signed.message.voter for each in self._waiting) < PER_VOTER:
            self._waiting.append(signed)

    def _arrived(self) -> list[SignedMessage]:
        found: list[SignedMessage] = []
        try:
            taken = self._gossip.take(TOPIC)
        except Unavailable:
            return found
        for body in taken:
            with contextlib.suppress(BytewiseError):
                found.append(message_of(body))
        return found

    def _notes_of(self, dispute: Dispute) -> RoundNotes:
        notes = self._notes.setdefault((dispute.id, dispute.round), RoundNotes())
        notes.members = dispute.members
        return notes

    def _note(self, notes: RoundNotes, dispute: Dispute, message: CertificateMessage) -> bool:
        """Stores what a message states. Returns False if the message must wait, because the commitment that it opens is
        missing."""
        match message:
            case SharedCommitment():
                _require_seats(dispute, message.voter, message.seat_mask)
                before = notes.commitments.setdefault(message.voter, message)
                if before.commitment != message.commitment:
                    notes.doubled[message.voter] = message
                    telemetry.log("certificate.double_commitment", dispute=dispute.id, member=message.voter)
            case RootMembers():
                notes.roots[message.voter] = int(message.members)
            case OpenedVote():
                return self._note_vote(notes, dispute, message)
            case CertificateShare():
                _note_share(notes, dispute, message)
        return True

    def _note_vote(self, notes: RoundNotes, dispute: Dispute, message: OpenedVote) -> bool:
        vote, known = message.vote, notes.commitments.get(message.voter)
        if (vote.dispute, vote.round, vote.voter) != (dispute.id, dispute.round, message.voter):
            raise MalformedValue("opened vote", "is of another round or member than its message")
        _require_seats(dispute, vote.voter, vote.seat_mask)
        if known is None:
            return False
        if typed_digest(self._domain, vote) != known.commitment:
            raise MalformedValue("opened vote", f"is not what {vote.voter} committed to")
        notes.opened[vote.voter] = finding_of(vote)
        return True

    def _board(self, snapshot: Snapshot, dispute: Dispute, notes: RoundNotes) -> RoundBoard:
        key_block = dispute.seed.block - 1
        if not notes.keys:
            tree = self._chain.tree_of(dispute.id, snapshot.number)
            known = self._chain.keys_at(tree, key_block, snapshot.number)
            notes.keys = {each.voter: known[each.voter] for each in dispute.members if each.voter in known}
        own = notes.keys.get(self._signer.address) == self._bls.public_key
        root = self._chain.first_root(dispute.id, dispute.round, dispute.seed.block, snapshot.number)
        leaves = {who: leaf for who, leaf in _sealed(notes.commitments).items() if who not in notes.doubled}
        notes.root = root
        return RoundBoard(
            able=frozenset(notes.keys) - notes.liars if own else frozenset(), leaves=leaves, root=root,
            under=self._under(dispute, root, notes), opened=notes.opened, signed=notes.signed,
            shares={mask: found.keys() - notes.liars for mask, found in notes.shares.items()},
            complete=frozenset(notes.complete),
        )  # fmt: skip

    def _under(self, dispute: Dispute, root: Digest | None, notes: RoundNotes) -> dict[int, Digest] | None:
        """Returns the commitments under the root on the chain, by first seat. They are stored in the database before the member
        relies on them. Returns None if there is no root, or if no known commitments hash to it."""
        if root is None:
            return None
        kept = self._relied.known(dispute.id, dispute.round)
        if kept is not None:
            return kept[1] if kept[0] == root else None
        for shared in (notes.commitments, {**notes.commitments, **notes.doubled}):
            for mask in (*notes.roots.values(), *_heard_so_far(dispute, shared)):
                found = leaves_of(dispute, _sealed(shared), mask)
                if merkle.commit_root(found) == root:
                    self._relied.keep(dispute.id, dispute.round, root, found)
                    return found
        return None

    def _check_shares(self, dispute: Dispute, notes: RoundNotes, most: int) -> int:
        """Checks the signatures for each set of seats for which every member signed. It checks the sum first, and each signature
        alone only if the sum is wrong. A wrong signature is removed. Returns the number of checks, at most `most`."""
        mine, made = notes.opened.get(self._signer.address), 0
        for mask in notes.signed:
            shares, members = notes.shares.get(mask, {}), [each for each in dispute.members if each.seat_mask & mask]
            whole = all(each.voter in shares and each.voter in notes.keys for each in members)
            if notes.root is None or mine is None or mask in notes.complete or (not whole and mask not in notes.doubtful):
                continue
            message = certified_digest(self._domain, mine, notes.root, mask)
            if mask not in notes.doubtful and made < most:
                made += 1
                right = is_signed_by_all(members, notes.keys, message, shares)
                (notes.complete if right else notes.doubtful).add(mask)
            unchecked = [who for who in shares if (mask, who) not in notes.right] if mask in notes.doubtful else []
            for who in unchecked[: most - made]:
                made += 1
                if is_signed(notes.keys[who], message, shares[who]):
                    notes.right.add((mask, who))
                    continue
                telemetry.log("certificate.wrong_signature", dispute=dispute.id, member=who)
                notes.liars.add(who)
                del shares[who]
        return made

    # --- sent messages ---

    def _speak(self, plan: CertificatePlan, dispute: Dispute, vote: Vote, notes: RoundNotes, board: RoundBoard) -> None:
        where = *round_of(dispute), vote.voter
        if plan.shares_commitment:
            self._send("commitment", notes, dispute, self._commitment_of(dispute, vote))
        if any(isinstance(each, PostCommitRoot) for each in plan.actions):
            members = sum(each.seat_mask for each in dispute.members if each.voter in board.leaves and not each.committed)
            self._send("root", notes, dispute, RootMembers(*where, U256(members)))
        if plan.opens_vote:
            self._send("vote", notes, dispute, OpenedVote(*where, vote))
        if plan.signs and board.root is not None and len(notes.signed) < ATTEMPTS:
            notes.signed += (plan.signs,)
            signature = Blob(self._bls.sign(certified_digest(self._domain, finding_of(vote), board.root, plan.signs)))
            self._send(f"share {plan.signs}", notes, dispute, CertificateShare(*where, U256(plan.signs), signature))

    def _commitment_of(self, dispute: Dispute, vote: Vote) -> SharedCommitment:
        return SharedCommitment(*round_of(dispute), vote.voter, vote.seat_mask, typed_digest(self._domain, vote))

    def _send(self, name: str, notes: RoundNotes, dispute: Dispute, message: CertificateMessage) -> None:
        """Publishes a message once. It also stores what the message states, as the other members do when they get it. `name`
        identifies the message in its round."""
        if name not in notes.sent:
            notes.sent.add(name)
            self._note(notes, dispute, message)
            notes.unsent[name] = signed_body(self._domain, self._signer, message)
            try:
                self._publish(notes, dispute)
            except Unavailable as error:
                telemetry.log_error("certificate.message_unsent", error, dispute=dispute.id)

    def _publish(self, notes: RoundNotes, dispute: Dispute) -> None:
        """Hands the unsent messages of a round to the gossip process, oldest first. Raises `Unavailable` if that process is
        away; then the rest waits. A message that shows the vote also waits if a reorganisation brought the commit phase back,
        because others could copy the answer."""
        for name, body in list(notes.unsent.items()):
            if dispute.phase is Phase.REVEAL or name in SENT_BEFORE_REVEAL:
                self._gossip.publish(TOPIC, body)
                del notes.unsent[name]

    def _certify(self, action: CertifyRound, sender: CertificateSender) -> None:
        notes = self._notes.get((action.finding.dispute, int(action.finding.round)))
        shares = {} if notes is None else notes.shares.get(action.signers, {})
        if notes is None or not shares or action.signers not in notes.complete:
            return
        made = certificate(notes.members, notes.keys, shares)
        sender.certify(action.finding, action.root, made, action.settles)


def _sealed(shared: Mapping[Address, SharedCommitment]) -> dict[Address, Digest]:
    return {who: sealed(each.commitment, who, each.seat_mask) for who, each in shared.items()}


def _heard_so_far(dispute: Dispute, shared: Mapping[Address, SharedCommitment]) -> Iterator[int]:
    """Yields, for each shared commitment in the order of arrival, the mask of all seats whose commitments are known by then.

    A member that restarts does not receive its own message about the members under its root. It made the root from the
    commitments that it knew at that time, so one of these masks fits the root.
    """
    mask = 0
    for voter in shared:
        seat = dispute.seat_of(voter)
        if seat is not None:
            mask |= seat.seat_mask
            yield mask


def _note_share(notes: RoundNotes, dispute: Dispute, message: CertificateShare) -> None:
    seat = dispute.seat_of(message.voter)
    if seat is None or seat.seat_mask & ~message.signers or message.signers >> dispute.seats:
        raise MalformedValue(
            "certificate share", f"{message.voter} does not sign for its own seats, or signs for none of the round"
        )
    if message.voter in notes.liars or len(message.signature) != 256:
        raise MalformedValue("certificate share", f"{message.voter} signed wrongly")
    own = [mask for mask, found in notes.shares.items() if message.voter in found]
    if message.signers not in own and len(own) < ATTEMPTS:
        notes.shares.setdefault(int(message.signers), {})[message.voter] = BlsSignature(message.signature)


def _require_seats(dispute: Dispute, voter: Address, mask: int) -> None:
    seat = dispute.seat_of(voter)
    if seat is None or seat.seat_mask != mask:
        raise MalformedValue("seats", f"{voter} has other seats in this round than its message says")
