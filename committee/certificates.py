"""Verdict certificates of a member: collects messages of other members, checks them, and makes certificates with them (ADR-077).

`decide_certificate` decides; this module checks messages, keeps what they say, signs, and sends. At a restart it loses everything
but the commitments under a root on which the member relies: with those alone it can still reveal its vote.
"""

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bytewise.crypto.bls import BlsSignature, BlsSigner, PublicKey
from bytewise.crypto.certificates import certificate, is_signed, is_signed_by_all
from bytewise.ports import CertificateSender, CertificateView, GossipPort
from bytewise.protocol import merkle
from bytewise.protocol.court.commitments import certified_digest, sealed
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import Action, CertifyRound, PostCommitRoot, RevealUnderRoot
from bytewise.protocol.decisions.certificates import (
    ALONE,
    ATTEMPTS,
    CertificatePlan,
    RoundBoard,
    decide_certificate,
    finding_of,
    leaves_of,
    round_of,
)
from bytewise.protocol.decisions.disputes import Round
from bytewise.protocol.decisions.snapshot import Dispute, Seat, Snapshot
from bytewise.protocol.errors.branches import BytewiseError, Fault, Unavailable
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.certificate_messages import (
    CertificateMessage,
    CertificateShare,
    OpenedVote,
    RootMembers,
    SharedCommitment,
    SignedMessage,
    message_of,
    signed_body,
)
from bytewise.protocol.records.statements import Finding, Vote
from bytewise.protocol.signing import Domain, Signer, typed_digest
from bytewise.protocol.units import U256, Address, Blob, Digest
from bytewise.service import metrics, telemetry
from bytewise.storage.protection import Protection, ReliedRoots

TOPIC = "root"
"""Topic of messages about certificates."""
MAX_WAITING, PER_VOTER = 512, 8
"""Most messages, in all and of one voter, that wait for the block in which their round begins, or for the commitment that they
open."""
CHECKS_PER_TICK = 4
"""Most checks of signatures after one tick, over all disputes. Each takes some 0.6 s of a processor; the check of a sum takes
0.06 s more for each signature in it."""


@dataclass(slots=True)
class RoundNotes:
    """What this member heard of a round."""

    commitments: dict[Address, SharedCommitment] = field(default_factory=dict)
    doubled: dict[Address, SharedCommitment] = field(default_factory=dict)
    """The second commitment of members that signed two. A root of ours has neither; a root of others may have one."""
    roots: dict[Address, int] = field(default_factory=dict)
    """Whose commitments each member says that its root has."""
    opened: dict[Address, Finding] = field(default_factory=dict)
    shares: dict[int, dict[Address, BlsSignature]] = field(default_factory=dict)
    liars: set[Address] = field(default_factory=set)
    """Members whose signature was wrong."""
    doubtful: set[int] = field(default_factory=set)
    """Sets of seats of which the sum of the signatures is wrong."""
    right: set[tuple[int, Address]] = field(default_factory=set)
    """Set of seats and member of each signature that was checked alone."""
    complete: set[int] = field(default_factory=set)
    signed: tuple[int, ...] = ()
    sent: set[str] = field(default_factory=set)
    keys: dict[Address, PublicKey] = field(default_factory=dict)
    members: tuple[Seat, ...] = ()
    root: Digest | None = None
    """First root on the chain."""


class Certificates:
    """The certificates of one account."""

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
        """Takes the messages that arrived, and forgets rounds that are over. Never raises for a message."""
        current = {(each.id, each.round): each for each in snapshot.disputes if each.phase in (Phase.COMMIT, Phase.REVEAL)}
        self._notes = {key: kept for key, kept in self._notes.items() if key in current}
        # This node may be a block behind its sender.
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
        """What to do about an own round with a protected vote. Sends what other members must know. The member acts alone if the
        chain does not answer, or says what cannot be; other disputes go on.

        For a declined dispute the member commits to nothing more. It still keeps a root that has its commitment, which it shared
        before, and reveals its vote under it.
        """
        notes = self._notes_of(dispute)
        try:
            # A restart forgets the own commitment, which may be under the root, and no message brings it back.
            self._note(notes, dispute, self._commitment_of(dispute, vote))
            board = self._board(snapshot, dispute, notes)
            if is_declined and dispute.phase is Phase.COMMIT:
                return ALONE
            leaf = sealed(typed_digest(self._domain, vote), vote.voter, vote.seat_mask)
            plan = decide_certificate(snapshot.clock, dispute, self._signer.address, vote, leaf, board)
            self._speak(plan, dispute, vote, notes, board)
        except (Fault, Unavailable) as error:
            metrics.PART_FAILURES.labels(part="certificate", error=type(error).__name__).inc()
            telemetry.log_error("certificate.postponed", error, dispute=dispute.id)
            return ALONE
        return plan

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Checks signatures that arrived, those of the dispute first that ends first. Decides nothing: the next tick does.

        The node runs this part after it sent the actions of the tick. At most `CHECKS_PER_TICK` checks are made, none twice.
        """
        left = CHECKS_PER_TICK
        for dispute in sorted(snapshot.disputes, key=lambda each: each.reveal_end):
            notes = self._notes.get((dispute.id, dispute.round))
            if notes is not None and dispute.phase is Phase.REVEAL:
                left -= self._check_shares(dispute, notes, left)
        return ()

    def collect(self, action: PostCommitRoot | CertifyRound | RevealUnderRoot, sender: CertificateSender) -> None:
        """Sends the transaction of a plan."""
        match action:
            case PostCommitRoot():
                sender.post_commit_root(action.dispute, action.round, action.root)
            case RevealUnderRoot():
                vote = action.vote
                stored = self._protection.require(vote.dispute, vote.round, vote.voter)
                sender.reveal_under_root(stored.vote, stored.quote, action.proof)
            case CertifyRound():
                self._certify(action, sender)

    # --- what was heard ---

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
        """Notes what a message says; False if it must wait for the commitment that it opens."""
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
        """The commitments under the chain's root, which are kept before anything relies on them."""
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
        """Checks the signatures of each set of seats that is whole: first their sum, and each one only if that is wrong. A wrong
        one leaves the set incomplete. Returns the checks that were made, at most `most`."""
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

    # --- what is said ---

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
        """Sends a message once, and notes it as the others will."""
        if name not in notes.sent:
            notes.sent.add(name)
            self._note(notes, dispute, message)
            body = signed_body(self._domain, self._signer, message)
            try:
                self._gossip.publish(TOPIC, body)
            except Unavailable as error:
                telemetry.log_error("certificate.message_unsent", error, dispute=dispute.id)

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
    """Seats whose commitments were known after each message. Whoever posted a root and restarted hears all messages again but its
    own, which said of what its root was made: of what it had heard by then."""
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
