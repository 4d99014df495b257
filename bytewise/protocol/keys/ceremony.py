"""The plan of a key ceremony: what is agreed before shards generate, renew or repair shares (design section 8)."""

import enum
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import CeremonyRefused
from bytewise.protocol.signing import Signer, verify_signature
from bytewise.protocol.suites import SUITE_HYBRID, suite_of
from bytewise.protocol.units import U64, U256, Address, Blob, Digest

MAX_SEATS = 64
"""`KeyEpochs` takes no more shards than this; bounds the work that a plan can cause."""


class CeremonyPurpose(enum.Enum):
    """What a ceremony makes."""

    GENERATE = "generate"
    """A new key that nobody ever holds."""
    RESHARE = "reshare"
    """New shares of the same key: for the same shards, which makes stolen old shares worthless, or for others."""
    REPAIR = "repair"
    """The share that one shard lost, from those of others."""


@dataclass(frozen=True, slots=True)
class ShardContact:
    """What a shard tells those who plan a ceremony."""

    address: Address
    """Account that signs its messages and its release records."""
    url: str
    """HTTPS base address under which it serves."""
    channel: str
    """`host:port` of its attested channels."""
    certificate: str
    """Its TLS certificate, PEM."""


@dataclass(frozen=True, slots=True)
class CeremonySeat:
    """One shard's place in a ceremony."""

    index: int
    """Evaluation point of its share."""
    address: Address
    """Account that signs its messages."""
    url: str
    """HTTPS base address under which it serves."""
    channel: str
    """`host:port` of its attested channels."""
    certificate: str
    """Its TLS certificate, PEM; clients pin it."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """A shard's word that it has no other share of an epoch than the one in force, or none.

    Nobody can check it; it can be held to it.
    """

    chain_id: U256
    """EIP-155 chain id."""
    key_epochs: Address
    """The `KeyEpochs` contract of the epoch."""
    epoch: U64
    """Key epoch."""
    version: int
    """Version of the shares that were in force then."""
    kept: Digest
    """keccak256 of the commitments of these shares, one after the other; zero if the shard has none of the epoch any more."""
    erased: int
    """Files that were overwritten and removed, under the statement that this one takes the place of among them. At least so many:
    what a run erased that was killed before it said so is not counted."""
    at: U64
    """Unix seconds, the shard's clock."""


@dataclass(frozen=True, slots=True)
class SignedErasure:
    """An erasure statement."""

    statement: Erasure
    """What is said."""
    shard: Address
    """By whom."""
    signature: Blob
    """Over the labelled hash of the statement."""


@dataclass(frozen=True, slots=True)
class SharesSource:
    """The shares that a ceremony starts from."""

    version: int
    """Version of these shares within their epoch; 0 is what key generation made."""
    commitments: tuple[Blob, ...]
    """Their Feldman commitments, 65 bytes each: as many as their threshold; the first is the public key."""


@dataclass(frozen=True, slots=True)
class CeremonyPlan:
    """Everything that is agreed before a ceremony; its digest names the ceremony."""

    purpose: CeremonyPurpose
    """What is made."""
    chain_id: U256
    """EIP-155 chain id."""
    key_epochs: Address
    """The `KeyEpochs` contract of the epoch."""
    epoch: U64
    """Key epoch."""
    attempt: Digest
    """Random; a second attempt is another ceremony, and no message of the first means anything in it."""
    scribe: Address
    """Who keeps the log and closes its phases. It can delay and end a ceremony and leave shards out; it learns no secret, and
    forges nobody's word."""
    dealers: tuple[CeremonySeat, ...]
    """Who deals: all receivers of a new key, the holders of the source's shares otherwise. Ascending by index."""
    receivers: tuple[CeremonySeat, ...]
    """Who gets a share, indices 1 to n in order. In a repair the helpers again, who hand what they get to the heir."""
    heir: CeremonySeat | None
    """In a repair, the shard that lost its share."""
    threshold: int
    """Shares that open, afterwards."""
    quorum: int
    """Receivers that must prove their share before the result counts; of a new key also the fewest dealers."""
    reveal_budget: int
    """Most receivers whose values false complaints may make public before the ceremony fails."""
    source: SharesSource | None
    """What is dealt again; null for a new key."""
    assurance: str
    """`simulated` or `hardware`."""

    def __post_init__(self) -> None:
        _verify_seats("dealers", self.dealers)
        _verify_seats("receivers", self.receivers)
        count = len(self.receivers)
        if [seat.index for seat in self.receivers] != list(range(1, count + 1)):
            raise CeremonyRefused("plan", "receivers are not numbered from 1")
        # One share of one would be the key itself.
        if not 2 <= self.threshold <= self.quorum <= count:
            raise CeremonyRefused("plan", f"threshold {self.threshold}, quorum {self.quorum} of {count}")
        if not 0 <= self.reveal_budget < self.threshold:
            raise CeremonyRefused("plan", f"reveal budget {self.reveal_budget} of threshold {self.threshold}")
        if self.purpose is not CeremonyPurpose.REPAIR and self.quorum < signers_needed(count, self.threshold):
            raise CeremonyRefused("plan", f"quorum {self.quorum}: the chain asks {signers_needed(count, self.threshold)} to sign")
        self._verify_purpose()
        if not 2 <= self.fewest_dealers <= len(self.dealers):
            raise CeremonyRefused("plan", f"{len(self.dealers)} dealers, at least {self.fewest_dealers}")

    def _verify_purpose(self) -> None:
        if (self.source is None) != (self.purpose is CeremonyPurpose.GENERATE) or (self.heir is None) == (
            self.purpose is CeremonyPurpose.REPAIR
        ):
            raise CeremonyRefused("plan", f"source and heir do not fit purpose {self.purpose.value}")
        if self.hybrid and self.source is not None:
            raise CeremonyRefused(
                "plan", "envelopes of a hybrid epoch open with the ML-KEM keys of its first shards: make a new epoch"
            )
        if self.hybrid and len(self.receivers) < 2 * self.threshold - 1:
            raise CeremonyRefused("plan", f"a hybrid epoch of threshold {self.threshold} needs {2 * self.threshold - 1} shards")
        if self.source is None and self.dealers != self.receivers:
            raise CeremonyRefused("plan", "a new key is dealt by those who get its shares")
        if self.heir is not None and self.source is not None:
            self._verify_repair(self.heir, self.source)

    def _verify_repair(self, heir: CeremonySeat, source: SharesSource) -> None:
        helpers = {seat.address for seat in self.dealers}
        if helpers != {seat.address for seat in self.receivers} or self.threshold != len(source.commitments):
            raise CeremonyRefused("plan", "helpers deal to each other, under the threshold of the share")
        if heir.address in helpers or heir.index in {seat.index for seat in self.dealers} or not 0 < heir.index <= MAX_SEATS:
            raise CeremonyRefused("plan", f"shard {heir.index} cannot help to repair its own share")

    @property
    def hybrid(self) -> bool:
        """Whether the epoch's number says that its shards have ML-KEM keys too."""
        return suite_of(self.epoch) == SUITE_HYBRID

    @property
    def fewest_dealers(self) -> int:
        """With fewer valid deals than this there is no result."""
        return self.quorum if self.source is None else len(self.source.commitments)

    @property
    def version(self) -> int:
        """Version of the shares that the ceremony makes. A repair makes no new ones."""
        if self.source is None:
            return 0
        return self.source.version + (self.purpose is not CeremonyPurpose.REPAIR)

    @property
    def digest(self) -> Digest:
        """The ceremony's id."""
        return digests.labelled(Label.CEREMONY, encode(self))


@dataclass(frozen=True, slots=True)
class SignedPlan:
    """A plan as the scribe announces it."""

    plan: CeremonyPlan
    """The plan."""
    signature: Blob
    """The scribe's, over the plan's digest."""


def erasure_digest(statement: Erasure) -> Digest:
    """What a shard signs when it has erased."""
    return digests.labelled(Label.ERASURE, encode(statement))


def verify_erasure(signed: SignedErasure) -> Erasure:
    """The statement, if the shard that it names signed it; else `BadSignature`."""
    verify_signature("erasure statement", erasure_digest(signed.statement), signed.signature, signed.shard)
    return signed.statement


def signers_needed(count: int, threshold: int) -> int:
    """How many of `count` shards must sign for their shares, as `KeyEpochs` counts: half way from the threshold, rounded down."""
    return threshold + (count - threshold) // 2


def sign_plan(signer: Signer, plan: CeremonyPlan) -> SignedPlan:
    """The plan, signed by its scribe."""
    return SignedPlan(plan, signer.sign(plan.digest))


def verify_plan(signed: SignedPlan) -> CeremonyPlan:
    """The plan, if its scribe signed it; else `BadSignature`."""
    verify_signature("ceremony plan", signed.plan.digest, signed.signature, signed.plan.scribe)
    return signed.plan


def _verify_seats(what: str, seats: tuple[CeremonySeat, ...]) -> None:
    indices = [seat.index for seat in seats]
    if not 0 < len(seats) <= MAX_SEATS or indices != sorted(set(indices)) or not 0 < indices[0] <= indices[-1] <= MAX_SEATS:
        raise CeremonyRefused("plan", f"{what} {indices[:8]}")
    if len({seat.address for seat in seats}) != len(seats):
        raise CeremonyRefused("plan", f"{what} sit twice")
