"""Messages of a key ceremony, the log that holds them, and proofs that a coordinator signed two logs (design section 8).

Every message is signed over the ceremony's id, its kind and its body. All messages are in one log, whose heads the coordinator
signs. The result of a ceremony is a function of its plan and log (`kms.ceremony.state`), so anybody that has both can recompute
it. Two logs of one ceremony by one coordinator are a fork, which two of its signatures prove to anybody (ADR-034).
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
from bytewise.protocol.signing import LocalSigner, verify_signature
from bytewise.protocol.units import Address, Blob, Digest

MAX_MESSAGE_BYTES = 128 * 1024
"""Largest message. A deal to 64 receivers has about 40 KB, twice that in hex."""

MAX_EXCHANGE_BYTES = 8 * 2**20
"""Largest exchange in either direction."""

PAGE_BYTES = 2 * 2**20
"""Bytes of messages in one exchange. The plan is sent with them, with certificates of at most `MAX_SEATS` seats, twice."""

MAX_EXCHANGE_MARKS = 2**14
"""Most brackets and commas of an exchange: some 20 for a seat and 8 for a message, whose body is hex."""

MAX_BODY_MARKS = 640
"""Most brackets and commas of a body (`encoding.MAX_MARKS`). A deal of 64 commitments to 64 receivers has about 520."""


@dataclass(frozen=True, slots=True)
class Join:
    """A receiver takes part in the ceremony."""

    deal_key: Blob
    """Fresh 65-byte point to which its deals are sealed. The receiver erases the secret when the ceremony ends."""


@dataclass(frozen=True, slots=True)
class KemKey:
    """In a hybrid epoch, a receiver's own ML-KEM key. No other shard has its secret."""

    key: Blob
    """ML-KEM-768 encapsulation key, 1,184 bytes."""


@dataclass(frozen=True, slots=True)
class DealCommit:
    """A dealer commits to its polynomial before it sees another dealer's."""

    digest: Digest
    """Labelled hash of ceremony, dealer, commitments and proof."""


@dataclass(frozen=True, slots=True)
class SealedDeal:
    """One receiver's value of a dealer's polynomial, sealed with HPKE. Proofs about it use both points."""

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
    """Head of the log at the beginning of the phase. In another log of this ceremony the message is invalid (ADR-034)."""
    commitments: tuple[Blob, ...]
    """Feldman commitments of its polynomial, 65 bytes each."""
    e: Blob
    """Challenge of the proof that the dealer knows the polynomial's value at 0, 32 bytes."""
    f: Blob
    """Its response, 32 bytes."""
    sealed: tuple[SealedDeal, ...]
    """One sealed value for each receiver that joined, ascending."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """A receiver opens a deal in public, so that everybody sees what the dealer sealed to it."""

    dealer: int
    """Index of the accused dealer."""
    point: Blob
    """Deal key times the sealed deal's ephemeral point, 65 bytes."""
    e: Blob
    """Challenge of the proof that the point is that product, 32 bytes."""
    f: Blob
    """Its response, 32 bytes."""


@dataclass(frozen=True, slots=True)
class DealReview:
    """A receiver's review of all deals at once. Without a complaint, it states that every deal opens and fits."""

    begun: Digest
    """As in `Deal`."""
    complaints: tuple[Complaint, ...]
    """Ascending by dealer."""


@dataclass(frozen=True, slots=True)
class RepairValue:
    """In a repair, a helper's value for the shard under repair: of the polynomial whose value at 0 is the lost share."""

    begun: Digest
    """As in `Deal`."""
    sealed: SealedDeal
    """The value, sealed to the shard under repair."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """A receiver with a new share signs the transcript, and proves the share on the canary."""

    transcript: Digest
    """Digest of the log up to the end of the reviews, and of the result."""
    partial: Partial
    """Its partial decapsulation of the canary, with proof."""
    signature: Blob
    """Signature of `Shares` under `KeyEpochs`. With enough of them the chain accepts the epoch."""


@dataclass(frozen=True, slots=True)
class Consent:
    """A holder of the previous shares signs that the new ones follow them. Without enough consents no curator can move a key."""

    transcript: Digest
    """As in `Confirm`."""
    signature: Blob
    """Signature of the same `Shares` under `KeyEpochs`."""


@dataclass(frozen=True, slots=True)
class Close:
    """The coordinator ends a phase. A shard that sent nothing in it is silent."""

    phase: int
    """The phase that ends."""
    head: Digest
    """Head of the log before this message. Two different heads for one phase convict the coordinator."""


Body = Join | KemKey | DealCommit | Deal | DealReview | RepairValue | Confirm | Consent | Close

KINDS: Mapping[str, type[Any]] = {
    "join": Join, "kem": KemKey, "commit": DealCommit, "deal": Deal, "judgement": DealReview, "hand": RepairValue, "confirm":
    Confirm, "consent": Consent, "close": Close,
}  # fmt: skip
"""Kinds of messages, and the record class of each kind's body."""

_NAMES = {cls: name for name, cls in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a ceremony's log."""

    ceremony: Digest
    """Id of the ceremony."""
    sender: Address
    """Account of the sender."""
    kind: str
    """One of `KINDS`."""
    body: Blob
    """Canonical bytes of the body."""
    signature: Blob
    """Signature of the sender."""

    @property
    def digest(self) -> Digest:
        """The digest that the sender signs."""
        return digests.labelled(Label.CEREMONY_MESSAGE, self.ceremony, self.kind.encode(), self.body)


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A coordinator's signed statement of its log, up to a number of messages."""

    length: int
    """Number of messages."""
    head: Digest
    """Head of the log after them."""
    signature: Blob
    """Signature of the coordinator over ceremony, number and head. Two that differ for one number are a fork."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Body of `POST /v1/ceremony`: the coordinator sends a page of the log and asks for the shard's messages."""

    plan: SignedPlan
    """Plan of the ceremony."""
    before: SignedHead
    """Signed head of the log before the messages below. Its length is the number of messages that the shard has, according to its
    last answer."""
    messages: tuple[Message, ...]
    """The following messages of the log, a bounded page."""
    after: SignedHead
    """Signed head of the log after these messages."""


@dataclass(frozen=True, slots=True)
class ExchangeAnswer:
    """Answer to `POST /v1/ceremony`."""

    length: int
    """Number of messages of the log that this shard has stored."""
    head: Digest
    """Head of that log."""
    phase: int
    """Phase of the ceremony, as this shard sees it."""
    messages: tuple[Message, ...]
    """Messages of this shard. They are stored, and the same for every request."""


def sign_message(signer: LocalSigner, ceremony: Digest, body: Body) -> Message:
    """The signed message with this body. Signatures are deterministic: the same body gives the same message."""
    draft = Message(ceremony, signer.address, _NAMES[type(body)], Blob(encode(body)), Blob(b""))
    return Message(draft.ceremony, draft.sender, draft.kind, draft.body, signer.sign(draft.digest))


def read_message(message: Message) -> Body:
    """The body of a message with a valid signature. `CeremonyRefused` for an unknown kind, or an error of `decode`."""
    cls = KINDS.get(message.kind)
    if cls is None or len(message.body) > MAX_MESSAGE_BYTES:
        raise CeremonyRefused(message.ceremony.hex()[:16], f"message of kind {message.kind[:20]}, {len(message.body)} bytes")
    verify_signature(f"{message.kind} of {message.sender}", message.digest, message.signature, message.sender)
    body: Body = decode(cls, message.body, MAX_BODY_MARKS)
    return body


def make_exchange(
    coordinator: LocalSigner, plan: SignedPlan, first: int, messages: tuple[Message, ...], before: Digest
) -> Exchange:
    """The exchange with these messages. `before` is the head of the log before them."""
    after = sign_head(coordinator, plan, first + len(messages), head_after(before, messages))
    return Exchange(plan, sign_head(coordinator, plan, first, before), messages, after)


def sign_head(coordinator: LocalSigner, plan: SignedPlan, length: int, head: Digest) -> SignedHead:
    """The coordinator's signed head of its log. Make the log durable first: two heads of one length convict their signer."""
    return SignedHead(length, head, coordinator.sign(_head_digest(plan, length, head)))


def verify_head(plan: SignedPlan, signed: SignedHead) -> SignedHead:
    """The head, if the coordinator of the plan signed it for this ceremony; else `BadSignature`, or `CeremonyRefused` for a
    negative length."""
    if signed.length < 0:
        raise CeremonyRefused(plan.plan.digest.hex()[:16], f"a log of {signed.length} messages")
    verify_signature("log of a ceremony", _head_digest(plan, signed.length, signed.head), signed.signature, plan.plan.coordinator)
    return signed


def verify_exchange(exchange: Exchange) -> Exchange:
    """The exchange, if its coordinator signed both heads and the messages lead from the first to the second.

    Otherwise `BadSignature` or `CeremonyRefused`: anybody can put wrong messages between two heads of an honest coordinator.
    """
    before, after = (verify_head(exchange.plan, each) for each in (exchange.before, exchange.after))
    verify_log_end(exchange.plan, before.head, exchange.messages, after, before.length)
    return exchange


def verify_log_end(plan: SignedPlan, head: Digest, messages: tuple[Message, ...], end: SignedHead, first: int) -> SignedHead:
    """Returns `end` if these messages lead to it from this head after `first` messages; else raises `CeremonyRefused`."""
    if first + len(messages) != end.length or head_after(head, messages) != end.head:
        raise CeremonyRefused(plan.plan.digest.hex()[:16], f"messages that do not lead to the signed head of {end.length}")
    return end


def _head_digest(plan: SignedPlan, length: int, head: Digest) -> Digest:
    return digests.labelled(Label.CEREMONY_HEAD, plan.plan.digest, length, head)


def head_after(head: Digest, messages: Iterable[Message]) -> Digest:
    """Head of a log after more messages."""
    return reduce(next_head, messages, head)


def next_head(head: Digest, message: Message) -> Digest:
    """Head of a log after one more message. The first head is the ceremony's id."""
    return digests.labelled(Label.CEREMONY_LOG, head, encode(message))


MAX_COPY_MARKS = 2**16
"""Most brackets and commas of a copy of a log: some 20 for a seat and 8 for a message, in two logs."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Proof that a coordinator signed two logs of one ceremony. A verifier needs only it and the coordinator's address."""

    plan: SignedPlan
    """The ceremony, as the coordinator announced it."""
    shorter: SignedHead
    """Signed head of one log."""
    longer: SignedHead
    """Signed head of the other log, with as many messages or more."""
    at: Digest
    """Head of the other log at the length of the shorter one."""
    between: tuple[Message, ...]
    """Messages of the other log from there to its end. They show that its signed head implies `at`."""


@dataclass(frozen=True, slots=True)
class CeremonyLogCopy:
    """One shard's copy of a ceremony's log. All of it is public."""

    plan: SignedPlan
    """Plan of the ceremony."""
    messages: tuple[Message, ...]
    """The log from its first message on."""
    end: SignedHead
    """The coordinator's signed head of this log."""
    fork: Fork | None
    """The first other log that the coordinator showed to this shard, or None."""


class LogSegment(NamedTuple):
    """A part of a log. Its end is signed, and so is its beginning unless that is the beginning of the ceremony."""

    before: SignedHead
    messages: tuple[Message, ...]
    after: SignedHead


def segment_of(exchange: Exchange) -> LogSegment:
    """The part of a log that an exchange shows."""
    return LogSegment(exchange.before, exchange.messages, exchange.after)


def find_fork(plan: SignedPlan, log: tuple[Message, ...], end: SignedHead, other: LogSegment) -> Fork | None:
    """The fork between a log and a segment of another; None if they agree, or the segment begins after the log's end.

    Both must have been verified: `end` is the log's signed head, and the segment leads from its first head to its second.
    """
    heads = list(accumulate(log, next_head, initial=plan.plan.digest))
    first, signed = other.before.length, other.after
    if first > len(log):
        return None
    if heads[first] != other.before.head:
        return Fork(plan, other.before, end, heads[first], log[first:])
    if signed.length <= len(log):
        return (
            None if heads[signed.length] == signed.head else Fork(plan, signed, end, heads[signed.length], log[signed.length :])
        )
    shared = len(log) - first
    at = head_after(other.before.head, other.messages[:shared])
    return None if at == heads[-1] else Fork(plan, end, signed, at, other.messages[shared:])


def verify_fork(fork: Fork) -> CeremonyPlan:
    """The plan whose coordinator is convicted. `BadSignature` or `CeremonyRefused` if the fork convicts nobody."""
    plan = verify_plan(fork.plan)
    shorter, longer = (verify_head(fork.plan, each) for each in (fork.shorter, fork.longer))
    verify_log_end(fork.plan, fork.at, fork.between, longer, shorter.length)
    if fork.at == shorter.head:
        raise CeremonyRefused(plan.digest.hex()[:16], f"both heads are of one log at {shorter.length} messages: this is no fork")
    return plan


def read_copy(data: bytes) -> CeremonyLogCopy:
    """A copy of a log that its coordinator signed, with a convicting fork or none. A `Fault` for anything else."""
    copy = decode(CeremonyLogCopy, data, MAX_COPY_MARKS)
    plan = verify_plan(copy.plan)
    verify_log_end(copy.plan, plan.digest, copy.messages, verify_head(copy.plan, copy.end), 0)
    if copy.fork is not None and verify_fork(copy.fork) != plan:
        raise CeremonyRefused(plan.digest.hex()[:16], "the fork is of another ceremony")
    return copy


def fork_of_copies(one: CeremonyLogCopy, other: CeremonyLogCopy) -> Fork | None:
    """The fork between two copies of one ceremony's log; None if one begins the other, or the ceremonies differ."""
    if one.plan.plan != other.plan.plan:
        return None
    begun = SignedHead(0, one.plan.plan.digest, Blob(b""))
    return find_fork(one.plan, one.messages, one.end, LogSegment(begun, other.messages, other.end))
