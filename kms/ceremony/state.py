"""The state of a ceremony as its log tells it, and how a seat leaves it."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import decode_point, encode_point
from bytewise.crypto.shares import lagrange, verification_key
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import CeremonyFailed, CeremonyRefused, NoProgress
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.jobs import HybridKeys
from bytewise.protocol.keys.ceremony import CeremonyPlan, CeremonyPurpose, CeremonySeat
from bytewise.protocol.keys.ceremony_log import Deal, Message, RepairValue
from bytewise.protocol.records.statements import Shares, holders_digest
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import U32, Blob, Digest
from kms.ceremony.deals import weighted_sum

# What a ceremony fixed when its judgements ended: the commitments of the new shares, and the transcript that shards sign.


class Result(NamedTuple):
    """The outcome of the judgements."""

    qualified: tuple[int, ...]
    """Dealers whose polynomials are in the sum, ascending."""
    dealt: tuple[Blob, ...]
    """Commitments of the polynomial that was dealt: of a repair, the one whose value at 0 is the lost share."""
    commitments: tuple[Blob, ...]
    """Commitments of the epoch's shares afterwards; the first is the public key."""
    transcript: Digest
    """What is signed: plan and log up to here, these commitments, and in a hybrid epoch its keys."""
    hybrid: HybridKeys | None
    """The keys of a hybrid epoch."""

    @property
    def public_key(self) -> Blob:
        """The epoch's public key."""
        return self.commitments[0]

    def verification_key(self, index: int) -> EccPoint:
        """Share `index` of the epoch times G."""
        return verification_key(index, [decode_point(each) for each in self.commitments])


def signed_shares(plan: CeremonyPlan, result: Result) -> Digest:
    """What is signed for the new shares, by who has one and who had one before: EIP-712 `Shares` under the plan's `KeyEpochs`."""
    commitments = digests.keccak256(b"".join(result.commitments))
    holders = holders_digest(seat.address for seat in plan.receivers)
    shares = Shares(plan.epoch, U32(plan.version), commitments, holders, result.transcript)
    return typed_digest(Domain(plan.chain_id, plan.key_epochs), shares)


def weights(plan: CeremonyPlan, qualified: tuple[int, ...]) -> Mapping[int, int]:
    """What each dealer's polynomial counts: 1 for a new key, else what interpolates the old shares at 0, or at the heir."""
    if plan.source is None:
        return dict.fromkeys(qualified, 1)
    at = 0 if plan.heir is None else plan.heir.index
    return {index: lagrange(index, qualified, at) for index in qualified}


def result_of(
    plan: CeremonyPlan, head: Digest, polynomials: Mapping[int, tuple[EccPoint, ...]], kem_keys: Mapping[int, Blob]
) -> Result:
    """The result of these polynomials; `CeremonyFailed` if they do not make one."""
    qualified = tuple(sorted(polynomials))
    try:
        dealt = weighted_sum(weights(plan, qualified), polynomials)
    except MalformedValue as error:
        raise CeremonyFailed(plan.digest.hex()[:16], str(error)) from None
    commitments = plan.source.commitments if plan.source is not None and plan.purpose is CeremonyPurpose.REPAIR else dealt
    transcript = digests.labelled(Label.CEREMONY_TRANSCRIPT, head, *dealt, *commitments)
    hybrid = HybridKeys(transcript, tuple(kem_keys[seat.index] for seat in plan.receivers)) if plan.hybrid else None
    result = Result(qualified, dealt, commitments, hybrid.digest if hybrid else transcript, hybrid)
    _verify_key_kept(plan, result)
    return result


def _verify_key_kept(plan: CeremonyPlan, result: Result) -> Result:
    # Follows from each dealer's own constant having been checked; if it fails, nothing of this may be used.
    if plan.source is not None:
        old = [decode_point(each) for each in plan.source.commitments]
        want = verification_key(plan.heir.index, old) if plan.heir is not None else old[0]
        if result.dealt[0] != encode_point(want):
            raise CeremonyFailed(plan.digest.hex()[:16], "the sum is of another key")
    return result


class Phase(enum.IntEnum):
    """Where a ceremony stands."""

    JOINING = 1
    DEALING = 2
    JUDGING = 3
    HANDING = 4
    CONFIRMING = 5
    DONE = 6
    FAILED = 7


def _empty() -> Mapping[int, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ceremony:
    """What a log has said so far. Maps are by index: `said` by (who, kind) holds bodies as they were said."""

    plan: CeremonyPlan
    id: Digest
    head: Digest
    begun: Digest
    """Head of the log with which the phase began."""
    length: int = 0
    phase: Phase = Phase.JOINING
    keys: Mapping[int, Blob] = field(default_factory=_empty)
    """Deal keys of receivers that joined and were not found lying."""
    heir_key: Blob | None = None
    kem_keys: Mapping[int, Blob] = field(default_factory=_empty)
    """ML-KEM-768 keys of the receivers of a hybrid epoch."""
    commits: Mapping[int, Digest] = field(default_factory=_empty)
    deals: Mapping[int, Deal] = field(default_factory=_empty)
    polynomials: Mapping[int, tuple[EccPoint, ...]] = field(default_factory=_empty)
    """Commitments of the deals that are good so far, by dealer."""
    said: Mapping[tuple[str, str], Blob] = field(default_factory=lambda: MappingProxyType({}))
    """Body of each message by (sender, kind)."""
    lies: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Who was found lying, and what about, by address."""
    revealed: frozenset[int] = frozenset()
    """Receivers that made a value of a good deal public by a false complaint."""
    hands: Mapping[int, RepairValue] = field(default_factory=_empty)
    partials: Mapping[int, EccPoint] = field(default_factory=_empty)
    """Proven partials of the canary, by index of the new share."""
    signatures: Mapping[int, Blob] = field(default_factory=_empty)
    """Signatures for the new shares, for the chain, of the same seats."""
    consents: Mapping[int, Blob] = field(default_factory=_empty)
    """Signatures for the new shares, for the chain, of those who had the old ones, by index of the old share."""
    result: Result | None = None
    reason: str = ""
    """Why it failed."""


def seat_of(state: Ceremony, seats: tuple[CeremonySeat, ...], message: Message) -> CeremonySeat:
    """The sender's seat among these; `CeremonyRefused` if it has none, or lied before."""
    seat = next((each for each in seats if each.address == message.sender), None)
    if seat is None or message.sender in state.lies:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.kind} of {message.sender}, who has no seat for it")
    return seat


def verify_begun(state: Ceremony, message: Message, begun: Digest) -> Digest:
    """The head for which a word of this phase was said, if it is this log's; else `CeremonyRefused`.

    A scribe may have it from a log that it showed to its author alone, where the word is true: no lie, so nobody is out.
    """
    if begun != state.begun:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.kind} of {message.sender} is of another log")
    return begun


def second(state: Ceremony, message: Message) -> Ceremony | None:
    """The state after a second message of one kind, which is a lie if it differs; None for a first."""
    before = state.said.get((message.sender, message.kind))
    if before is None:
        return None
    if before == message.body:
        raise NoProgress(f"ceremony {state.id.hex()[:16]}", f"{message.kind} of {message.sender} is in the log")
    return out(state, message.sender, f"said two different things as its {message.kind}")


def out(state: Ceremony, address: str, why: str) -> Ceremony:
    """A liar is out in every role; what it gave counts no longer."""
    dealers = {seat.index for seat in state.plan.dealers if seat.address == address}
    receivers = {seat.index for seat in newcomers(state.plan) if seat.address == address}
    fixed = state.phase > Phase.JUDGING
    return replace(
        state,
        lies={**state.lies, address: why},
        # Once the result is fixed a dealer's polynomial is part of it, whatever its author does as a receiver.
        polynomials=state.polynomials if fixed else _without(state.polynomials, dealers),
        commits=state.commits if fixed else _without(state.commits, dealers),
        keys=state.keys if state.phase is not Phase.JOINING else _without(state.keys, receivers),
        kem_keys=state.kem_keys if state.phase is not Phase.JOINING else _without(state.kem_keys, receivers),
        hands=_without(state.hands, receivers),
        partials=_without(state.partials, receivers),
        signatures=_without(state.signatures, receivers),
        consents=_without(state.consents, dealers),
    )


def _without(entries: Mapping[int, Any], indices: set[int]) -> dict[int, Any]:
    return {index: value for index, value in entries.items() if index not in indices}


def newcomers(plan: CeremonyPlan) -> tuple[CeremonySeat, ...]:
    """Who joins with a deal key."""
    return plan.receivers if plan.heir is None else (*plan.receivers, plan.heir)


def getting(plan: CeremonyPlan) -> tuple[CeremonySeat, ...]:
    """Who gets a share to keep."""
    return plan.receivers if plan.heir is None else (plan.heir,)


def failed(state: Ceremony, reason: str) -> Ceremony:
    """The ceremony without a result."""
    return replace(state, phase=Phase.FAILED, reason=reason, result=None)
