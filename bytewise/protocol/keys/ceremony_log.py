"""What shards say to each other in a ceremony (`bytewise.protocol.keys.ceremony`), and the log that holds it (design section 8).

Every message is signed over the ceremony's id, its kind and its body, and stands in one log, of which its scribe signs the heads.
What a ceremony did is a function of its plan and its log alone (`kms/dkg`), so whoever has both recomputes it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any, NamedTuple

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import CeremonyRefused
from bytewise.protocol.keys.ceremony import CeremonyPlan, SignedPlan, verify_plan
from bytewise.protocol.keys.epochs import Partial
from bytewise.protocol.signing import Signer, verify_signature
from bytewise.protocol.units import Address, Blob, Digest

MAX_MESSAGE_BYTES = 128 * 1024
"""Largest message: a deal to 64 receivers has about 40 KB, twice in hex."""

MAX_EXCHANGE_BYTES = 8 * 2**20
"""Largest exchange, either way."""

PAGE_BYTES = 2 * 2**20
"""Messages of one exchange; the plan beside them has certificates of at most `MAX_SEATS` seats, twice."""

MAX_EXCHANGE_MARKS = 2**14
"""Most brackets and commas of an exchange: some 20 for a seat and 8 for a message, whose body is hex."""

MAX_BODY_MARKS = 640
"""Most brackets and commas of a body (`encoding.MAX_MARKS`): a deal of 64 commitments to 64 receivers has 520 or so."""


@dataclass(frozen=True, slots=True)
class Join:
    """A receiver takes part."""

    deal_key: Blob
    """Fresh 65-byte point to which its deals are sealed; its secret is erased when the ceremony has ended."""


@dataclass(frozen=True, slots=True)
class KemKey:
    """In a hybrid epoch, a receiver's own key of the second half, which it alone ever has."""

    key: Blob
    """ML-KEM-768 encapsulation key, 1,184 bytes."""


@dataclass(frozen=True, slots=True)
class DealCommit:
    """A dealer fixes its polynomial before it sees another's."""

    digest: Digest
    """Labelled hash of ceremony, dealer, commitments and proof."""


@dataclass(frozen=True, slots=True)
class SealedDeal:
    """One receiver's value of a dealer's polynomial, under HPKE with both points at hand."""

    receiver: int
    """Index of the receiver."""
    enc: Blob
    """Ephemeral 65-byte point."""
    ciphertext: Blob
    """Sealed 32-byte scalar."""
    e: Blob
    """Challenge of the proof that the sealer knows the logarithm of `enc`, 32 bytes."""
    f: Blob
    """Its response, 32 bytes."""


@dataclass(frozen=True, slots=True)
class Deal:
    """A dealer opens its commitment and gives every receiver its value."""

    begun: Digest
    """Head of the log with which its phase began: in another log of this ceremony the word means nothing (ADR-034)."""
    commitments: tuple[Blob, ...]
    """Feldman commitments of its polynomial, 65 bytes each."""
    e: Blob
    """Challenge of the proof that the dealer knows the polynomial's value at 0, 32 bytes."""
    f: Blob
    """Its response, 32 bytes."""
    sealed: tuple[SealedDeal, ...]
    """One for each receiver that joined, ascending."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """A receiver opens a deal in public, so that everybody sees what its dealer sealed to it."""

    dealer: int
    """Index of the accused."""
    point: Blob
    """Deal key times the sealed deal's ephemeral point, 65 bytes."""
    e: Blob
    """Challenge of the proof that the point is that, 32 bytes."""
    f: Blob
    """Response, 32 bytes."""


@dataclass(frozen=True, slots=True)
class DealReview:
    """What a receiver says of all deals at once; no complaint means that every one opened and fits."""

    begun: Digest
    """As in `Deal`."""
    complaints: tuple[Complaint, ...]
    """Ascending by dealer."""


@dataclass(frozen=True, slots=True)
class RepairValue:
    """In a repair, what a helper gives to the heir: its value of the polynomial whose value at 0 is the lost share."""

    begun: Digest
    """As in `Deal`."""
    sealed: SealedDeal
    """For the heir."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Who has a new share signs the transcript, and proves the share on the canary."""

    transcript: Digest
    """Of the log up to the end of the judgements, and of the result."""
    partial: Partial
    """Its partial decapsulation of the canary, with proof."""
    signature: Blob
    """Of `Shares` under `KeyEpochs`: enough of these let the epoch into force on the chain."""


@dataclass(frozen=True, slots=True)
class Consent:
    """Who had a share until now signs that the new ones follow on it: without enough of these no curator can move a key."""

    transcript: Digest
    """As in `Confirm`."""
    signature: Blob
    """Of the same `Shares` under `KeyEpochs`."""


@dataclass(frozen=True, slots=True)
class Close:
    """The scribe ends a phase: who has not spoken in it is silent."""

    phase: int
    """The phase that ends."""
    head: Digest
    """Head of the log before this message: two different ones for one phase convict the scribe."""


Body = Join | KemKey | DealCommit | Deal | DealReview | RepairValue | Confirm | Consent | Close

KINDS: Mapping[str, type[Any]] = {
    "join": Join, "kem": KemKey, "commit": DealCommit, "deal": Deal, "judgement": DealReview, "hand": RepairValue, "confirm":
    Confirm, "consent": Consent, "close": Close,
}  # fmt: skip
"""Kinds of messages and the records that are their bodies."""

_NAMES = {cls: name for name, cls in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a ceremony's log."""

    ceremony: Digest
    """Which ceremony."""
    sender: Address
    """Who says it."""
    kind: str
    """One of `KINDS`."""
    body: Blob
    """Canonical bytes of the kind's record."""
    signature: Blob
    """The sender's."""

    @property
    def digest(self) -> Digest:
        """What the sender signs."""
        return digests.labelled(Label.CEREMONY_MESSAGE, self.ceremony, self.kind.encode(), self.body)


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A scribe's word how its log of a ceremony goes, up to a number of messages."""

    length: int
    """How many."""
    head: Digest
    """Head of the log after them."""
    signature: Blob
    """The scribe's, over ceremony, number and head: two of one number that differ are a fork (`ceremony_forks`)."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Body of `POST /v1/ceremony`: the scribe brings the log and asks what the shard has to say."""

    plan: SignedPlan
    """Which ceremony."""
    before: SignedHead
    """The log before the messages below: as many messages as the shard said that it has."""
    messages: tuple[Message, ...]
    """The log from there on, a bounded page of it."""
    after: SignedHead
    """The log with these messages."""


@dataclass(frozen=True, slots=True)
class ExchangeAnswer:
    """Answer of `POST /v1/ceremony`."""

    length: int
    """How many messages of the log this shard has stored now."""
    head: Digest
    """Head of that log."""
    phase: int
    """Where the ceremony stands for it."""
    messages: tuple[Message, ...]
    """What it has to say: stored, and the same whenever it is asked."""


def sign_message(signer: Signer, ceremony: Digest, body: Body) -> Message:
    """The signed message of a body. Signatures are deterministic: the same body gives the same message."""
    draft = Message(ceremony, signer.address, _NAMES[type(body)], Blob(encode(body)), Blob(b""))
    return Message(draft.ceremony, draft.sender, draft.kind, draft.body, signer.sign(draft.digest))


def read_message(message: Message) -> Body:
    """The body of a message whose signature holds; `CeremonyRefused` for an unknown kind, or what `decode` raises."""
    cls = KINDS.get(message.kind)
    if cls is None or len(message.body) > MAX_MESSAGE_BYTES:
        raise CeremonyRefused(message.ceremony.hex()[:16], f"message of kind {message.kind[:20]}, {len(message.body)} bytes")
    verify_signature(f"{message.kind} of {message.sender}", message.digest, message.signature, message.sender)
    body: Body = decode(cls, message.body, MAX_BODY_MARKS)
    return body


def make_exchange(scribe: Signer, plan: SignedPlan, first: int, messages: tuple[Message, ...], before: Digest) -> Exchange:
    """The exchange that brings these messages; `before` is the head of the log before them."""
    after = sign_head(scribe, plan, first + len(messages), head_after(before, messages))
    return Exchange(plan, sign_head(scribe, plan, first, before), messages, after)


def sign_head(scribe: Signer, plan: SignedPlan, length: int, head: Digest) -> SignedHead:
    """The scribe's word for its log. Who signs two heads of one length is convicted by them: the log is durable first."""
    return SignedHead(length, head, scribe.sign(_head_digest(plan, length, head)))


def verify_head(plan: SignedPlan, told: SignedHead) -> SignedHead:
    """The head, if the scribe of the plan signed it for this ceremony; else `BadSignature`, `CeremonyRefused` for no number."""
    if told.length < 0:
        raise CeremonyRefused(plan.plan.digest.hex()[:16], f"a log of {told.length} messages")
    verify_signature("log of a ceremony", _head_digest(plan, told.length, told.head), told.signature, plan.plan.scribe)
    return told


def verify_exchange(asked: Exchange) -> Exchange:
    """The exchange, if its scribe signed both heads and the messages lead from the first to the second.

    Else `BadSignature` or `CeremonyRefused`: anybody can put other messages between two heads of an honest scribe.
    """
    before, after = (verify_head(asked.plan, each) for each in (asked.before, asked.after))
    verify_log_end(asked.plan, before.head, asked.messages, after, before.length)
    return asked


def verify_log_end(plan: SignedPlan, head: Digest, messages: tuple[Message, ...], end: SignedHead, first: int) -> SignedHead:
    """The end, if the log whose head is this after `first` messages ends there with these; else `CeremonyRefused`."""
    if first + len(messages) != end.length or head_after(head, messages) != end.head:
        raise CeremonyRefused(plan.plan.digest.hex()[:16], f"messages that do not lead to the signed head of {end.length}")
    return end


def _head_digest(plan: SignedPlan, length: int, head: Digest) -> Digest:
    return digests.labelled(Label.CEREMONY_HEAD, plan.plan.digest, length, head)


def head_after(head: Digest, messages: Iterable[Message]) -> Digest:
    """Head of a log after more messages."""
    return reduce(next_head, messages, head)


def next_head(head: Digest, message: Message) -> Digest:
    """Head of a log after one more message; the first head is the ceremony's id."""
    return digests.labelled(Label.CEREMONY_LOG, head, encode(message))


# Two logs of one ceremony by one scribe: found where they part, and proven to anybody by two of its signatures (ADR-034).

MAX_COPY_MARKS = 2**16
"""Most brackets and commas of a copy of a log: some 20 for a seat and 8 for a message, in two logs."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Evidence that a scribe signed two logs of one ceremony. It needs nothing beside it but the scribe's address."""

    plan: SignedPlan
    """The ceremony, as the scribe announced it."""
    shorter: SignedHead
    """How one log goes."""
    longer: SignedHead
    """How another goes, as many messages or more."""
    at: Digest
    """Head of the other log where it has as many messages as the first."""
    between: tuple[Message, ...]
    """The other log from there to its end: they show that the head which is signed there means `at`."""


@dataclass(frozen=True, slots=True)
class CeremonyLogCopy:
    """What one shard has of a ceremony's log. All of it is public."""

    plan: SignedPlan
    """The ceremony."""
    messages: tuple[Message, ...]
    """The log, from its first message on."""
    end: SignedHead
    """The scribe's word for it."""
    fork: Fork | None
    """The first other log that the scribe showed to this shard, if any."""


class LogSegment(NamedTuple):
    """A part of a log: signed where it ends, and where it begins unless that is with the ceremony."""

    before: SignedHead
    messages: tuple[Message, ...]
    after: SignedHead


def segment_of(asked: Exchange) -> LogSegment:
    """What an exchange shows of a log."""
    return LogSegment(asked.before, asked.messages, asked.after)


def find_fork(plan: SignedPlan, log: tuple[Message, ...], end: SignedHead, other: LogSegment) -> Fork | None:
    """Where a stretch parts from a log; None if it does not, or begins after its end.

    Both must have been verified: `end` is the log's, and the stretch leads from its first head to its second.
    """
    heads = list(accumulate(log, next_head, initial=plan.plan.digest))
    first, told = other.before.length, other.after
    if first > len(log):
        return None
    if heads[first] != other.before.head:
        return Fork(plan, other.before, end, heads[first], log[first:])
    if told.length <= len(log):
        return None if heads[told.length] == told.head else Fork(plan, told, end, heads[told.length], log[told.length :])
    shared = len(log) - first
    at = head_after(other.before.head, other.messages[:shared])
    return None if at == heads[-1] else Fork(plan, end, told, at, other.messages[shared:])


def verify_fork(fork: Fork) -> CeremonyPlan:
    """The plan whose scribe is convicted; `BadSignature` or `CeremonyRefused` if this convicts nobody."""
    plan = verify_plan(fork.plan)
    shorter, longer = (verify_head(fork.plan, each) for each in (fork.shorter, fork.longer))
    verify_log_end(fork.plan, fork.at, fork.between, longer, shorter.length)
    if fork.at == shorter.head:
        raise CeremonyRefused(plan.digest.hex()[:16], f"both heads are of one log at {shorter.length} messages: this is no fork")
    return plan


def read_copy(data: bytes) -> CeremonyLogCopy:
    """A copy of a log whose scribe signed it, with a fork that convicts it or none; a `Fault` for anything else."""
    copy = decode(CeremonyLogCopy, data, MAX_COPY_MARKS)
    plan = verify_plan(copy.plan)
    verify_log_end(copy.plan, plan.digest, copy.messages, verify_head(copy.plan, copy.end), 0)
    if copy.fork is not None and verify_fork(copy.fork) != plan:
        raise CeremonyRefused(plan.digest.hex()[:16], "the fork is of another ceremony")
    return copy


def fork_of_copies(one: CeremonyLogCopy, other: CeremonyLogCopy) -> Fork | None:
    """Where two shards' copies of one ceremony part; None if one is the beginning of the other, or they are of two ceremonies."""
    if one.plan.plan != other.plan.plan:
        return None
    begun = SignedHead(0, one.plan.plan.digest, Blob(b""))
    return find_fork(one.plan, one.messages, one.end, LogSegment(begun, other.messages, other.end))
