"""Messages of a key ceremony, the log that contains them, and proofs that a coordinator signed two logs (design section 8).

The sender signs every message over the ceremony's id, the kind and the body. All messages are in one hash-chained log. The head
of the log is the hash that covers all its messages, and the coordinator signs it. The result of a ceremony is a function of its
plan and log (`kms.ceremony.state`), so anybody that has both can compute it again. A coordinator that signs two different logs
of one ceremony forks the log. Two of its signatures prove the fork to anybody (ADR-038).
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
"""Size of the largest message. A deal to 64 receivers has about 40 KB, and twice that in hex."""

MAX_EXCHANGE_BYTES = 8 * 2**20
"""Size of the largest request or answer of an exchange."""

PAGE_BYTES = 2 * 2**20
"""Bytes of messages in one exchange. The exchange also contains the plan, which lists at most `MAX_SEATS` shards with
certificates, twice."""

MAX_EXCHANGE_MARKS = 2**14
"""Most brackets and commas of an exchange: some 20 for each seat, and 8 for each message, whose body is hex."""

MAX_BODY_MARKS = 640
"""Most brackets and commas of a message body (`encoding.MAX_MARKS`). A deal of 64 commitments to 64 receivers has about 520."""


@dataclass(frozen=True, slots=True)
class Join:
    """Body of a message by which a receiver takes part in the ceremony."""

    deal_key: Blob
    """Fresh 65-byte point to which deals for this receiver are sealed. The receiver erases its secret when the ceremony ends."""


@dataclass(frozen=True, slots=True)
class KemKey:
    """Body of a message with a receiver's ML-KEM key, in a hybrid epoch. No other shard has the secret of this key."""

    key: Blob
    """ML-KEM-768 encapsulation key, 1,184 bytes."""


@dataclass(frozen=True, slots=True)
class DealCommit:
    """Body of a message by which a dealer commits to its polynomial before it sees the polynomial of another dealer."""

    digest: Digest
    """Labelled hash of ceremony, dealer, commitments and proof."""


@dataclass(frozen=True, slots=True)
class SealedDeal:
    """The value of a dealer's polynomial for one receiver, sealed with HPKE.

    A complaint about the value is proven against two public points: `enc` and the receiver's deal key.
    """

    receiver: int
    """Index of the receiver."""
    enc: Blob
    """Ephemeral 65-byte point."""
    ciphertext: Blob
    """Sealed 32-byte scalar."""
    e: Blob
    """Challenge of the proof that the sealer knows the logarithm of `enc`, 32 bytes."""
    f: Blob
    """Response of this proof, 32 bytes."""


@dataclass(frozen=True, slots=True)
class Deal:
    """Body of a message in which a dealer opens its commitment and sends every receiver the sealed value for that receiver."""

    begun: Digest
    """Head of the log at the beginning of the phase. The message is invalid in another log of this ceremony (ADR-038)."""
    commitments: tuple[Blob, ...]
    """Feldman commitments of the dealer's polynomial, 65 bytes each."""
    e: Blob
    """Challenge of the proof that the dealer knows the polynomial's value at 0, 32 bytes."""
    f: Blob
    """Response of this proof, 32 bytes."""
    sealed: tuple[SealedDeal, ...]
    """One sealed value for each receiver that joined, ascending by receiver."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """A receiver's complaint. It opens the deal in public, so that everybody sees the value that the dealer sealed."""

    dealer: int
    """Index of the accused dealer."""
    point: Blob
    """The sealed deal's ephemeral point `enc` times the secret of the receiver's deal key (a Diffie-Hellman point), 65 bytes."""
    e: Blob
    """Challenge of the proof that `point` is correct, 32 bytes."""
    f: Blob
    """Response of this proof, 32 bytes."""


@dataclass(frozen=True, slots=True)
class DealReview:
    """Body of a message with a receiver's complaints after it checked all deals.

    The receiver confirms every other deal: the deal opens and fits the dealer's commitments.
    """

    begun: Digest
    """Head of the log at the beginning of the phase, as in `Deal`."""
    complaints: tuple[Complaint, ...]
    """Complaints, ascending by dealer."""


@dataclass(frozen=True, slots=True)
class RepairValue:
    """Body of a message with a helper's value for the shard under repair.

    It is a value of the polynomial whose value at 0 is the lost share.
    """

    begun: Digest
    """Head of the log at the beginning of the phase, as in `Deal`."""
    sealed: SealedDeal
    """The value, sealed to the deal key of the shard under repair."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Body of a message in which a receiver with a new share signs the transcript. It proves its share by opening the canary."""

    transcript: Digest
    """Digest of the log up to the end of the reviews, and of the ceremony's result."""
    partial: Partial
    """Partial decapsulation of the canary by the receiver, with proof."""
    signature: Blob
    """Signature of the statement `Shares` under `KeyEpochs`. The chain accepts the shares with enough such signatures."""


@dataclass(frozen=True, slots=True)
class Consent:
    """Body of a message in which a shard with a previous share signs that the new shares replace the previous ones.

    Without enough consents no curator can move a key to other shards.
    """

    transcript: Digest
    """Digest as in `Confirm`."""
    signature: Blob
    """Signature of the same statement `Shares` as in `Confirm`."""


@dataclass(frozen=True, slots=True)
class Close:
    """Body of a message in which the coordinator ends a phase. A shard that sent nothing in the phase is silent."""

    phase: int
    """The phase that ends."""
    head: Digest
    """Head of the log before this message. Two different heads for one phase prove that the coordinator forked the log."""


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
    """Kind of the body, a key of `KINDS`."""
    body: Blob
    """Canonical bytes of the body."""
    signature: Blob
    """Signature of the sender over `digest`."""

    @property
    def digest(self) -> Digest:
        """The digest that the sender signs."""
        return digests.labelled(Label.CEREMONY_MESSAGE, self.ceremony, self.kind.encode(), self.body)


@dataclass(frozen=True, slots=True)
class SignedHead:
    """The coordinator's signed statement of the log's head after some number of messages."""

    length: int
    """Number of messages."""
    head: Digest
    """Head of the log after these messages."""
    signature: Blob
    """Signature of the coordinator over ceremony, length and head. Two different heads for one length prove a fork."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Body of `POST /v1/ceremony`: the coordinator sends a page of the log and asks for the shard's messages."""

    plan: SignedPlan
    """Plan of the ceremony."""
    before: SignedHead
    """Signed head of the log before the messages below. Its length is the number of messages that the shard stated in its last
    answer."""
    messages: tuple[Message, ...]
    """A bounded page of the messages that follow in the log."""
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
    """Messages of this shard. It stores them and sends the same ones in every answer."""


def sign_message(signer: LocalSigner, ceremony: Digest, body: Body) -> Message:
    """Signs a message with this body. Signatures are deterministic, so the same body gives the same message."""
    draft = Message(ceremony, signer.address, _NAMES[type(body)], Blob(encode(body)), Blob(b""))
    return Message(draft.ceremony, draft.sender, draft.kind, draft.body, signer.sign(draft.digest))


def read_message(message: Message) -> Body:
    """Returns the body of a message after checking the sender's signature.

    Raises `CeremonyRefused` for an unknown kind or a body above `MAX_MESSAGE_BYTES`, `BadSignature` for a wrong signature, or an
    error of `decode`.
    """
    cls = KINDS.get(message.kind)
    if cls is None or len(message.body) > MAX_MESSAGE_BYTES:
        raise CeremonyRefused(message.ceremony.hex()[:16], f"message of kind {message.kind[:20]}, {len(message.body)} bytes")
    verify_signature(f"{message.kind} of {message.sender}", message.digest, message.signature, message.sender)
    body: Body = decode(cls, message.body, MAX_BODY_MARKS)
    return body


def make_exchange(
    coordinator: LocalSigner, plan: SignedPlan, first: int, messages: tuple[Message, ...], before: Digest
) -> Exchange:
    """Returns the exchange in which the coordinator sends these messages. Signs the heads of the log before and after them.

    `first` is the number of messages before them, and `before` the head of the log after those `first` messages.
    """
    after = sign_head(coordinator, plan, first + len(messages), head_after(before, messages))
    return Exchange(plan, sign_head(coordinator, plan, first, before), messages, after)


def sign_head(coordinator: LocalSigner, plan: SignedPlan, length: int, head: Digest) -> SignedHead:
    """Signs the head of the coordinator's log.

    Store the log durably first: two heads of one length prove a fork by the signer.
    """
    return SignedHead(length, head, coordinator.sign(_head_digest(plan, length, head)))


def verify_head(plan: SignedPlan, signed: SignedHead) -> SignedHead:
    """Returns the head if the coordinator of the plan signed it for this ceremony. Otherwise raises `BadSignature`.

    Raises `CeremonyRefused` for a negative length.
    """
    if signed.length < 0:
        raise CeremonyRefused(plan.plan.digest.hex()[:16], f"a log of {signed.length} messages")
    verify_signature("log of a ceremony", _head_digest(plan, signed.length, signed.head), signed.signature, plan.plan.coordinator)
    return signed


def verify_exchange(exchange: Exchange) -> Exchange:
    """Returns the exchange if its coordinator signed both heads, and the messages lead from the first head to the second.

    Otherwise raises `BadSignature` or `CeremonyRefused`. A failure does not convict the coordinator, because anybody can put
    wrong messages between two of its heads.
    """
    before, after = (verify_head(exchange.plan, each) for each in (exchange.before, exchange.after))
    verify_log_end(exchange.plan, before.head, exchange.messages, after, before.length)
    return exchange


def verify_log_end(plan: SignedPlan, head: Digest, messages: tuple[Message, ...], end: SignedHead, first: int) -> SignedHead:
    """Returns `end` if these messages lead to it from `head`, the head after `first` messages.

    Otherwise raises `CeremonyRefused`.
    """
    if first + len(messages) != end.length or head_after(head, messages) != end.head:
        raise CeremonyRefused(plan.plan.digest.hex()[:16], f"messages that do not lead to the signed head of {end.length}")
    return end


def _head_digest(plan: SignedPlan, length: int, head: Digest) -> Digest:
    return digests.labelled(Label.CEREMONY_HEAD, plan.plan.digest, length, head)


def head_after(head: Digest, messages: Iterable[Message]) -> Digest:
    """Returns the head of a log after more messages."""
    return reduce(next_head, messages, head)


def next_head(head: Digest, message: Message) -> Digest:
    """Returns the head of a log after one more message. The first head is the ceremony's id."""
    return digests.labelled(Label.CEREMONY_LOG, head, encode(message))


MAX_COPY_MARKS = 2**16
"""Most brackets and commas in the copy of a log: some 20 for each seat and 8 for each message, in two logs."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Proof that a coordinator signed two logs of one ceremony. To verify it, only the coordinator's address is needed."""

    plan: SignedPlan
    """Plan of the ceremony, signed by the coordinator."""
    shorter: SignedHead
    """Signed head of one log."""
    longer: SignedHead
    """Signed head of the other log, which has at least as many messages."""
    at: Digest
    """Head of the other log at the length of the shorter one."""
    between: tuple[Message, ...]
    """Messages of the other log from that length to its end. They prove that its signed head implies the head `at`."""


@dataclass(frozen=True, slots=True)
class CeremonyLogCopy:
    """One shard's copy of the log of a ceremony. All of it is public."""

    plan: SignedPlan
    """Plan of the ceremony."""
    messages: tuple[Message, ...]
    """The log from its first message on."""
    end: SignedHead
    """The coordinator's signed head of this log."""
    fork: Fork | None
    """The first fork of the log that the coordinator showed to this shard, or None."""


class LogSegment(NamedTuple):
    """Consecutive messages of a ceremony log, with the coordinator's signed head of the log before and after them. If they are
    the first messages of the ceremony, the head before them needs no signature."""

    before: SignedHead
    messages: tuple[Message, ...]
    after: SignedHead


def segment_of(exchange: Exchange) -> LogSegment:
    """Returns the part of a log that an exchange contains."""
    return LogSegment(exchange.before, exchange.messages, exchange.after)


def find_fork(plan: SignedPlan, log: tuple[Message, ...], end: SignedHead, other: LogSegment) -> Fork | None:
    """Returns the fork between a log and a segment of another log.

    Returns None if they agree, or if the segment begins after the log's end. The caller must have verified both: `end` is the
    signed head of `log`, and the segment's messages lead from its first head to its second.
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
    """Returns the plan whose coordinator is proven to have forked its log.

    Raises `BadSignature` or `CeremonyRefused` if the fork proves nothing.
    """
    plan = verify_plan(fork.plan)
    shorter, longer = (verify_head(fork.plan, each) for each in (fork.shorter, fork.longer))
    verify_log_end(fork.plan, fork.at, fork.between, longer, shorter.length)
    if fork.at == shorter.head:
        raise CeremonyRefused(plan.digest.hex()[:16], f"both heads are of one log at {shorter.length} messages: this is no fork")
    return plan


def read_copy(data: bytes) -> CeremonyLogCopy:
    """Reads a shard's copy of a log. Verifies the coordinator's signatures, and the fork if the copy contains one.

    Raises a `Fault` if the data is no copy or a check fails.
    """
    copy = decode(CeremonyLogCopy, data, MAX_COPY_MARKS)
    plan = verify_plan(copy.plan)
    verify_log_end(copy.plan, plan.digest, copy.messages, verify_head(copy.plan, copy.end), 0)
    if copy.fork is not None and verify_fork(copy.fork) != plan:
        raise CeremonyRefused(plan.digest.hex()[:16], "the fork is of another ceremony")
    return copy


def fork_of_copies(one: CeremonyLogCopy, other: CeremonyLogCopy) -> Fork | None:
    """Returns the fork between two copies of one ceremony's log.

    Returns None if one copy is the beginning of the other, or if the ceremonies differ.
    """
    if one.plan.plan != other.plan.plan:
        return None
    begun = SignedHead(0, one.plan.plan.digest, Blob(b""))
    return find_fork(one.plan, one.messages, one.end, LogSegment(begun, other.messages, other.end))
