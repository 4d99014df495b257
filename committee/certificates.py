"""Verdict certificates of a member: collects messages of other members, checks them, and makes certificates with them (ADR-077).

`decide_certificate` decides; this module checks messages, keeps what they say, signs, and sends. At a restart it loses everything
but the commitments under a root on which the member relies: with those alone it can still reveal its vote.
"""

import contextlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from bytewise.crypto.bls import BlsSignature, BlsSigner, PublicKey
from bytewise.crypto.certificates import certificate, wrong_signers
from bytewise.ports import CertificateSender, CertificateView, GossipPort
from bytewise.protocol import merkle
from bytewise.protocol.court.commitments import certified_digest, sealed
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.actions import CertifyRound, PostCommitRoot, RevealUnderRoot
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
MAX_WAITING = 512
"""Most messages that wait for the block in which their round begins, or for the commitment that they open."""


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
    complete: set[int] = field(default_factory=set)
    signed: tuple[int, ...] = ()
    sent: set[str] = field(default_factory=set)
    keys: dict[Address, PublicKey] = field(default_factory=dict)
    members: tuple[Seat, ...] = ()


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
        waiting, self._waiting = list(self._waiting), deque(maxlen=MAX_WAITING)
        for signed in (*waiting, *self._arrived()):
            message = signed.message
            dispute = current.get((message.dispute, message.round))
            if dispute is None:
                # This node may be a block behind its sender.
                if any(each.id == message.dispute for each in snapshot.disputes):
                    self._waiting.append(signed)
                continue
            try:
                if dispute.seat_of(message.voter) is None:
                    raise MalformedValue("message", f"{message.voter} has no seat in this round")
                signed.verify(self._domain)
                if not self._note(self._notes_of(dispute), dispute, message):
                    self._waiting.append(signed)
            except Fault as error:
                metrics.GOSSIP_REFUSED.labels(error=type(error).__name__).inc()
                telemetry.log_error("certificate.message_refused", error, dispute=message.dispute, member=message.voter)

    def plan(self, snapshot: Snapshot, dispute: Dispute, vote: Vote) -> CertificatePlan:
        """What to do about an own round with a protected vote. Sends what other members must know. Without chain or messages the
        member acts alone."""
        notes = self._notes_of(dispute)
        try:
            board = self._board(snapshot, dispute, notes)
            leaf = sealed(typed_digest(self._domain, vote), vote.voter, vote.seat_mask)
            plan = decide_certificate(snapshot.clock, dispute, self._signer.address, vote, leaf, board)
            self._speak(plan, dispute, vote, notes, board)
        except Unavailable as error:
            telemetry.log_error("certificate.postponed", error, dispute=dispute.id)
            return ALONE if dispute.phase is Phase.COMMIT else CertificatePlan()
        return plan

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

    def _arrived(self) -> list[SignedMessage]:
        found: list[SignedMessage] = []
        try:
            taken = self._gossip.take(TOPIC)
        except Unavailable as error:
            telemetry.log_error("gossip.away", error)
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
            known = self._chain.keys_at(key_block, snapshot.number)
            notes.keys = {each.voter: known[each.voter] for each in dispute.members if each.voter in known}
        own = notes.keys.get(self._signer.address) == self._bls.public_key
        root = self._chain.first_root(dispute.id, dispute.round, dispute.seed.block, snapshot.number)
        leaves = {who: leaf for who, leaf in _sealed(notes.commitments).items() if who not in notes.doubled}
        self._check_shares(dispute, notes, root)
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
            for mask in notes.roots.values():
                found = leaves_of(dispute, _sealed(shared), mask)
                if merkle.commit_root(found) == root:
                    self._relied.keep(dispute.id, dispute.round, root, found)
                    return found
        return None

    def _check_shares(self, dispute: Dispute, notes: RoundNotes, root: Digest | None) -> None:
        """Checks the signatures of each set of seats that is whole, once. A wrong one leaves the set incomplete."""
        mine = notes.opened.get(self._signer.address)
        for mask in notes.signed:
            shares, members = notes.shares.get(mask, {}), [each for each in dispute.members if each.seat_mask & mask]
            whole = all(each.voter in shares and each.voter in notes.keys for each in members)
            if root is None or mine is None or mask in notes.complete or not whole:
                continue
            message = certified_digest(self._domain, mine, root, mask)
            wrong = wrong_signers(members, notes.keys, message, shares)
            notes.liars |= wrong
            for who in wrong:
                telemetry.log("certificate.wrong_signature", dispute=dispute.id, member=who)
                del shares[who]
            if not wrong:
                notes.complete.add(mask)

    # --- what is said ---

    def _speak(self, plan: CertificatePlan, dispute: Dispute, vote: Vote, notes: RoundNotes, board: RoundBoard) -> None:
        where = *round_of(dispute), vote.voter
        if plan.shares_commitment:
            statement = SharedCommitment(*where, vote.seat_mask, typed_digest(self._domain, vote))
            self._send("commitment", notes, dispute, statement)
        if any(isinstance(each, PostCommitRoot) for each in plan.actions):
            members = sum(each.seat_mask for each in dispute.members if each.voter in board.leaves and not each.committed)
            self._send("root", notes, dispute, RootMembers(*where, U256(members)))
        if plan.opens_vote:
            self._send("vote", notes, dispute, OpenedVote(*where, vote))
        if plan.signs and board.root is not None and len(notes.signed) < ATTEMPTS:
            notes.signed += (plan.signs,)
            signature = Blob(self._bls.sign(certified_digest(self._domain, finding_of(vote), board.root, plan.signs)))
            self._send(f"share {plan.signs}", notes, dispute, CertificateShare(*where, U256(plan.signs), signature))

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
