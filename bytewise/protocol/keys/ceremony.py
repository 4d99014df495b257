"""The plan of a key ceremony: all values that are fixed before shards generate, reshare or repair shares (design section 8).

Two field names of the signed plan are older than the terms of the documentation: `scribe` is the account of the coordinator, and
`heir` is the shard whose share is repaired.
"""

import enum
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import CeremonyRefused
from bytewise.protocol.signing import LocalSigner, verify_signature
from bytewise.protocol.suites import SUITE_HYBRID, suite_of
from bytewise.protocol.units import U64, U256, Address, Blob, Digest

MAX_SEATS = 64
"""Most shards that `KeyEpochs` accepts. It also limits the work that a plan can cause."""


class CeremonyPurpose(enum.Enum):
    """Purpose of a ceremony."""

    GENERATE = "generate"
    """Generation of a new key, which no party ever has as a whole."""
    RESHARE = "reshare"
    """Dealing of new shares of the same key, to the same shards or to others. Old shares, even if stolen, become worthless."""
    REPAIR = "repair"
    """Repair of the share that one shard lost, from the shares of other shards."""


@dataclass(frozen=True, slots=True)
class ShardContact:
    """Contact data of a shard for planning a ceremony."""

    address: Address
    """Account that signs the shard's messages and its release records."""
    url: str
    """HTTPS base address of the shard."""
    channel: str
    """Host and port (`host:port`) of the shard's attested channels."""
    certificate: str
    """TLS certificate of the shard, PEM."""


@dataclass(frozen=True, slots=True)
class CeremonySeat:
    """One shard in a ceremony, with its index and contact data."""

    index: int
    """Number of the shard. Its share is the polynomial's value at this point."""
    address: Address
    """Account that signs the shard's messages."""
    url: str
    """HTTPS base address of the shard."""
    channel: str
    """Host and port (`host:port`) of the shard's attested channels."""
    certificate: str
    """TLS certificate of the shard, PEM; clients pin it."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """A shard's statement that it has no share of an epoch except the one in force, or no share at all.

    Nobody can check the statement, but the shard's signature makes the shard accountable for it.
    """

    chain_id: U256
    """EIP-155 chain id."""
    key_epochs: Address
    """The `KeyEpochs` contract of the epoch."""
    epoch: U64
    """Number of the key epoch."""
    version: int
    """Version of the shares that were in force when the shard erased."""
    kept: Digest
    """keccak256 of the concatenated commitments of these shares; zero if the shard has no share of the epoch left."""
    erased: int
    """Least number of files that were overwritten and removed, including those of the statement that this one replaces. Files
    that a run erased before it was killed without signing are not counted."""
    at: U64
    """Unix seconds by the shard's clock."""


@dataclass(frozen=True, slots=True)
class SignedErasure:
    """An erasure statement with its signature."""

    statement: Erasure
    """The shard's statement."""
    shard: Address
    """Shard that makes the statement."""
    signature: Blob
    """Signature over the labelled hash of the statement."""


@dataclass(frozen=True, slots=True)
class SharesSource:
    """The shares from which a ceremony starts."""

    version: int
    """Version of these shares in their epoch; 0 is the result of key generation."""
    commitments: tuple[Blob, ...]
    """Feldman commitments of these shares, 65 bytes each. Their number is the threshold, and the first one is the public key."""


@dataclass(frozen=True, slots=True)
class CeremonyPlan:
    """Everything that is fixed before a ceremony. Its digest identifies the ceremony.

    Its construction raises `CeremonyRefused` for an impossible plan.
    """

    purpose: CeremonyPurpose
    """Purpose of the ceremony."""
    chain_id: U256
    """EIP-155 chain id."""
    key_epochs: Address
    """The `KeyEpochs` contract of the epoch."""
    epoch: U64
    """Number of the key epoch."""
    attempt: Digest
    """Random value of this attempt. A second attempt is another ceremony, in which messages of the first are invalid."""
    scribe: Address
    """Account of the coordinator, which keeps the log and closes its phases. It can delay or end a ceremony and leave shards out.
    It learns no secret and cannot forge a message."""
    dealers: tuple[CeremonySeat, ...]
    """Dealers, ascending by index. For a new key the dealers are all receivers. Otherwise they are shards that have the source's
    shares."""
    receivers: tuple[CeremonySeat, ...]
    """Receivers of a share, with indices 1 to n in order. In a repair they are the helpers again, which pass values on to the
    shard under repair."""
    heir: CeremonySeat | None
    """Shard that lost its share, in a repair; otherwise None."""
    threshold: int
    """Number of the new shares that open an envelope."""
    quorum: int
    """Number of receivers that must prove their share before the result counts. For a new key it is also the least number of
    dealers."""
    reveal_budget: int
    """Most receivers whose dealt values may become public through false complaints. With more, the ceremony fails."""
    source: SharesSource | None
    """The shares of the key that is dealt again; None for a new key."""
    assurance: str
    """Label of the epoch: `simulated` or `hardware`."""

    def __post_init__(self) -> None:
        _verify_seats("dealers", self.dealers)
        _verify_seats("receivers", self.receivers)
        count = len(self.receivers)
        if [seat.index for seat in self.receivers] != list(range(1, count + 1)):
            raise CeremonyRefused("plan", "receivers are not numbered from 1")
        # With a threshold of one, a share would be the key itself.
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
    def coordinator(self) -> Address:
        """Account of the coordinator (field `scribe`)."""
        return self.scribe

    @property
    def repair_target(self) -> CeremonySeat | None:
        """Shard that lost its share, in a repair; otherwise None (field `heir`)."""
        return self.heir

    @property
    def hybrid(self) -> bool:
        """Whether the epoch is hybrid, so its shards also have ML-KEM keys. The epoch's number says so."""
        return suite_of(self.epoch) == SUITE_HYBRID

    @property
    def fewest_dealers(self) -> int:
        """Least number of valid deals with which the ceremony has a result."""
        return self.quorum if self.source is None else len(self.source.commitments)

    @property
    def version(self) -> int:
        """Version of the shares that the ceremony makes. A repair keeps the version."""
        if self.source is None:
            return 0
        return self.source.version + (self.purpose is not CeremonyPurpose.REPAIR)

    @property
    def digest(self) -> Digest:
        """Digest that identifies the ceremony."""
        return digests.labelled(Label.CEREMONY, encode(self))


@dataclass(frozen=True, slots=True)
class SignedPlan:
    """A plan with the coordinator's signature."""

    plan: CeremonyPlan
    """The announced plan."""
    signature: Blob
    """Signature of the coordinator over the plan's digest."""


def erasure_digest(statement: Erasure) -> Digest:
    """Returns the digest that a shard signs after it erased shares."""
    return digests.labelled(Label.ERASURE, encode(statement))


def verify_erasure(signed: SignedErasure) -> Erasure:
    """Returns the statement if the shard that it names signed it. Otherwise raises `BadSignature`."""
    verify_signature("erasure statement", erasure_digest(signed.statement), signed.signature, signed.shard)
    return signed.statement


def signers_needed(count: int, threshold: int) -> int:
    """Returns how many of `count` shards must sign for their shares, as the contract `KeyEpochs` computes it.

    The number is halfway between threshold and `count`, rounded down.
    """
    return threshold + (count - threshold) // 2


def sign_plan(signer: LocalSigner, plan: CeremonyPlan) -> SignedPlan:
    """Signs a plan as its coordinator."""
    return SignedPlan(plan, signer.sign(plan.digest))


def verify_plan(signed: SignedPlan) -> CeremonyPlan:
    """Returns the plan if its coordinator signed it. Otherwise raises `BadSignature`."""
    verify_signature("ceremony plan", signed.plan.digest, signed.signature, signed.plan.coordinator)
    return signed.plan


def _verify_seats(what: str, seats: tuple[CeremonySeat, ...]) -> None:
    indices = [seat.index for seat in seats]
    if not 0 < len(seats) <= MAX_SEATS or indices != sorted(set(indices)) or not 0 < indices[0] <= indices[-1] <= MAX_SEATS:
        raise CeremonyRefused("plan", f"{what} {indices[:8]}")
    if len({seat.address for seat in seats}) != len(seats):
        raise CeremonyRefused("plan", f"{what} sit twice")
