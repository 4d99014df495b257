"""The state of a ceremony, computed from its log, and the rule by which a shard is excluded from it."""

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


class CeremonyResult(NamedTuple):
    """The result of a ceremony, which is fixed at the end of phase JUDGING: the commitments of the new shares, and the transcript
    that shards sign."""

    qualified: tuple[int, ...]
    """Indices of the dealers whose polynomials are in the sum, in ascending order."""
    dealt: tuple[Blob, ...]
    """Commitments of the polynomial that was dealt. In a repair, its value at 0 is the lost share."""
    commitments: tuple[Blob, ...]
    """Commitments of the epoch's shares after the ceremony. The first one is the public key."""
    transcript: Digest
    """Digest that the shards sign. It covers the plan, the log so far and these commitments, and in a hybrid epoch also its
    ML-KEM keys."""
    hybrid: HybridKeys | None
    """ML-KEM keys of a hybrid epoch, or None for other epochs."""

    @property
    def public_key(self) -> Blob:
        """The epoch's public key."""
        return self.commitments[0]

    def verification_key(self, index: int) -> EccPoint:
        """Returns the verification key of share `index`: the share times the base point G."""
        return verification_key(index, [decode_point(each) for each in self.commitments])


def shares_digest(plan: CeremonyPlan, result: CeremonyResult) -> Digest:
    """Returns the digest that old and new holders sign for the new shares: EIP-712 `Shares` under the plan's contract
    `KeyEpochs`."""
    commitments = digests.keccak256(b"".join(result.commitments))
    holders = holders_digest(seat.address for seat in plan.receivers)
    shares = Shares(plan.epoch, U32(plan.version), commitments, holders, result.transcript)
    return typed_digest(Domain(plan.chain_id, plan.key_epochs), shares)


def dealer_weights(plan: CeremonyPlan, qualified: tuple[int, ...]) -> Mapping[int, int]:
    """Returns each dealer's weight in the sum. For a new key it is 1. Otherwise it is the coefficient that interpolates the old
    shares at 0, or in a repair at the repair target."""
    if plan.source is None:
        return dict.fromkeys(qualified, 1)
    at = 0 if plan.repair_target is None else plan.repair_target.index
    return {index: lagrange(index, qualified, at) for index in qualified}


def result_of(
    plan: CeremonyPlan, head: Digest, polynomials: Mapping[int, tuple[EccPoint, ...]], kem_keys: Mapping[int, Blob]
) -> CeremonyResult:
    """Computes the result of a ceremony: the commitments of the new shares, and the transcript. `polynomials` has the commitments
    of the dealers that count, and `head` is the head of the log. Raises `CeremonyFailed` if the sum of the dealers' commitments
    is not valid or belongs to another key."""
    qualified = tuple(sorted(polynomials))
    try:
        dealt = weighted_sum(dealer_weights(plan, qualified), polynomials)
    except MalformedValue as error:
        raise CeremonyFailed(plan.digest.hex()[:16], str(error)) from None
    commitments = plan.source.commitments if plan.source is not None and plan.purpose is CeremonyPurpose.REPAIR else dealt
    transcript = digests.labelled(Label.CEREMONY_TRANSCRIPT, head, *dealt, *commitments)
    hybrid = HybridKeys(transcript, tuple(kem_keys[seat.index] for seat in plan.receivers)) if plan.hybrid else None
    result = CeremonyResult(qualified, dealt, commitments, hybrid.digest if hybrid else transcript, hybrid)
    _verify_key_kept(plan, result)
    return result


def _verify_key_kept(plan: CeremonyPlan, result: CeremonyResult) -> CeremonyResult:
    # The check of each dealer's constant implies this equality. If it fails, no part of the result may be used.
    if plan.source is not None:
        old = [decode_point(each) for each in plan.source.commitments]
        want = verification_key(plan.repair_target.index, old) if plan.repair_target is not None else old[0]
        if result.dealt[0] != encode_point(want):
            raise CeremonyFailed(plan.digest.hex()[:16], "the sum is of another key")
    return result


class CeremonyPhase(enum.IntEnum):
    """Phases of a ceremony."""

    JOINING = 1
    DEALING = 2
    JUDGING = 3
    REPAIRING = 4
    CONFIRMING = 5
    DONE = 6
    FAILED = 7


def _empty() -> Mapping[int, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CeremonyState:
    """The state of a ceremony after a log. Maps are by seat index unless their description says otherwise."""

    plan: CeremonyPlan
    id: Digest
    head: Digest
    phase_head: Digest
    """Head of the log with which the present phase began."""
    length: int = 0
    phase: CeremonyPhase = CeremonyPhase.JOINING
    keys: Mapping[int, Blob] = field(default_factory=_empty)
    """Deal keys of the receivers that joined. Of excluded receivers, only those excluded in phase JOINING are left out."""
    repair_key: Blob | None = None
    """Deal key of the repair target. None before it joined, and after its exclusion in phase JOINING."""
    kem_keys: Mapping[int, Blob] = field(default_factory=_empty)
    """ML-KEM-768 keys of the receivers of a hybrid epoch."""
    commits: Mapping[int, Digest] = field(default_factory=_empty)
    deals: Mapping[int, Deal] = field(default_factory=_empty)
    polynomials: Mapping[int, tuple[EccPoint, ...]] = field(default_factory=_empty)
    """Commitments of the deals that are good so far, by dealer."""
    bodies: Mapping[tuple[str, str], Blob] = field(default_factory=lambda: MappingProxyType({}))
    """Body of each message, by sender and kind."""
    faults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Reason why a shard was excluded, by its address."""
    revealed: frozenset[int] = frozenset()
    """Receivers that complained about a good deal and so published its value."""
    repair_values: Mapping[int, RepairValue] = field(default_factory=_empty)
    """Values of the helpers for the repair target, in a repair."""
    partials: Mapping[int, EccPoint] = field(default_factory=_empty)
    """Proven partials of the canary, by index of the new share."""
    signatures: Mapping[int, Blob] = field(default_factory=_empty)
    """Signatures for the new shares by the seats in `partials`, by index of the new share. The chain requires them."""
    consents: Mapping[int, Blob] = field(default_factory=_empty)
    """Signatures of the old holders for the new shares, by index of the old share. The chain requires them."""
    result: CeremonyResult | None = None
    reason: str = ""
    """Reason why the ceremony failed, or an empty text."""


def seat_of(state: CeremonyState, seats: tuple[CeremonySeat, ...], message: Message) -> CeremonySeat:
    """Returns the sender's seat among these seats. Raises `CeremonyRefused` if the sender has no such seat or is excluded."""
    seat = next((each for each in seats if each.address == message.sender), None)
    if seat is None or message.sender in state.faults:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.kind} of {message.sender}, which has no seat for it")
    return seat


def verify_phase_head(state: CeremonyState, message: Message, phase_head: Digest) -> Digest:
    """Returns the log head that a message names, if it is the head with which the present phase of this log began. Raises
    `CeremonyRefused` otherwise.

    The refusal accuses nobody and excludes no seat, because the coordinator may have shown another log to the message's author.
    """
    if phase_head != state.phase_head:
        raise CeremonyRefused(state.id.hex()[:16], f"{message.kind} of {message.sender} is of another log")
    return phase_head


def repeat_of(state: CeremonyState, message: Message) -> CeremonyState | None:
    """Checks whether a sender repeats itself. Returns None if this is its first message of this kind. Raises `NoProgress` if the
    same message is already in the log. If the log has a different message of this kind, returns the state in which the sender is
    excluded."""
    before = state.bodies.get((message.sender, message.kind))
    if before is None:
        return None
    if before == message.body:
        raise NoProgress(f"ceremony {state.id.hex()[:16]}", f"{message.kind} of {message.sender} is in the log")
    return exclude(state, message.sender, f"sent two different messages of kind {message.kind}")


def exclude(state: CeremonyState, address: str, why: str) -> CeremonyState:
    """Excludes a shard that lied from all its roles, and returns the new state. The shard's deal no longer counts, unless the
    result of the ceremony is already fixed and contains it."""
    # In a repair, a helper may have the same index as the repair target, so each map drops the indices of its own seats only.
    plan, joining = state.plan, state.phase is CeremonyPhase.JOINING
    dealers, receivers, holders = (
        {seat.index for seat in seats if seat.address == address}
        for seats in (plan.dealers, plan.receivers, receiving_seats(plan))
    )
    is_target = plan.repair_target is not None and plan.repair_target.address == address
    fixed = state.phase > CeremonyPhase.JUDGING
    return replace(
        state,
        faults={**state.faults, address: why},
        # Once the result is fixed, a dealer's polynomial is part of it, whatever the dealer does as a receiver.
        polynomials=state.polynomials if fixed else _drop_entries(state.polynomials, dealers),
        commits=state.commits if fixed else _drop_entries(state.commits, dealers),
        keys=_drop_entries(state.keys, receivers) if joining else state.keys,
        repair_key=None if joining and is_target else state.repair_key,
        kem_keys=_drop_entries(state.kem_keys, receivers) if joining else state.kem_keys,
        repair_values=_drop_entries(state.repair_values, receivers),
        partials=_drop_entries(state.partials, holders),
        signatures=_drop_entries(state.signatures, holders),
        consents=_drop_entries(state.consents, dealers),
    )


def _drop_entries(entries: Mapping[int, Any], indices: set[int]) -> dict[int, Any]:
    return {index: value for index, value in entries.items() if index not in indices}


def joining_seats(plan: CeremonyPlan) -> tuple[CeremonySeat, ...]:
    """Returns the seats that join with a deal key."""
    return plan.receivers if plan.repair_target is None else (*plan.receivers, plan.repair_target)


def receiving_seats(plan: CeremonyPlan) -> tuple[CeremonySeat, ...]:
    """Returns the seats that get a share to keep."""
    return plan.receivers if plan.repair_target is None else (plan.repair_target,)


def fail_ceremony(state: CeremonyState, reason: str) -> CeremonyState:
    """Returns the state of a ceremony that failed for this reason, without a result."""
    return replace(state, phase=CeremonyPhase.FAILED, reason=reason, result=None)
