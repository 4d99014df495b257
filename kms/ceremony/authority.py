"""Decides which ceremonies a shard joins.

The decision depends on the coordinator of the plan, on the chain and on the shard's settings. A ceremony for a new key endangers
no existing key, but a reshare to other shards gives them an existing key. A shard therefore deals again to the same shards, or
helps to repair a share, only if the chain names these shards and the threshold stays the same. Any other plan for an existing key
must be in `approved_plans` of each shard that takes part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.errors.actors import CeremonyRefused
from bytewise.protocol.keys.ceremony import CeremonyPlan, CeremonyPurpose
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import Address, Blob, Digest


class CeremonyView(Protocol):
    """The part of the chain that a shard reads before a ceremony."""

    def key_epoch(self, epoch: int) -> EpochOnChain:
        """Returns the key epoch at the newest block of the configured finality. Raises `Unavailable` if the chain cannot be
        read."""
        ...

    def is_open_for_disputes(self, epoch: int) -> bool:
        """Returns whether a dispute may still need the key of the epoch, at the newest block of the configured finality. Raises
        `Unavailable` if the chain cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class TrustSettings:
    """Settings of a shard that say which ceremonies it may join."""

    chain_id: int
    key_epochs: Address
    coordinator: Address
    """Account of the coordinator. The shard considers plans of no other account."""
    approved_plans: frozenset[Digest]
    """Digests of the plans that may give shares of an existing key to other shards, or change its threshold."""
    simulated: bool
    """Whether this shard joins ceremonies for keys that simulated enclaves may use."""
    release_shares: bool = False
    """Whether this shard joins ceremonies for keys that enclaves rebuild (ADR-040)."""


def verify_authority(plan: CeremonyPlan, trust: TrustSettings, own: Address, view: CeremonyView) -> CeremonyPlan:
    """Returns the plan if this shard, with account `own`, may take part in it. Raises `CeremonyRefused` otherwise."""
    seats = (*plan.dealers, *plan.receivers, *((plan.repair_target,) if plan.repair_target else ()))
    for wrong, why in (
        ((plan.chain_id, plan.key_epochs) != (trust.chain_id, trust.key_epochs), "is of another network"),
        (
            plan.coordinator != trust.coordinator,
            f"names coordinator {plan.coordinator}, and the shard's settings name {trust.coordinator}",
        ),
        (plan.assurance not in (HARDWARE, *((SIMULATED,) if trust.simulated else ())), f"is {plan.assurance[:20]}"),
        (
            is_rebuilt(plan.epoch) and not trust.release_shares,
            "is for a key that enclaves rebuild, and release_shares is not set",
        ),
        (own not in {seat.address for seat in seats}, "has no seat for this shard"),
    ):
        if wrong:
            raise CeremonyRefused(plan.digest.hex()[:16], f"the plan {why}")
    return _verify_chain(plan, trust, view.key_epoch(plan.epoch))


def _verify_chain(plan: CeremonyPlan, trust: TrustSettings, epoch: EpochOnChain) -> CeremonyPlan:
    name = plan.digest.hex()[:16]
    if plan.source is None:
        if epoch.state is not EpochState.NONE:
            raise CeremonyRefused(name, f"key epoch {plan.epoch} exists already")
        return plan
    if epoch.state not in (EpochState.PENDING, EpochState.ACTIVE, EpochState.DRAINING):
        raise CeremonyRefused(name, f"key epoch {plan.epoch} is {epoch.state.name}")
    if (plan.source.version, b"".join(plan.source.commitments)) != (epoch.version, epoch.commitments):
        raise CeremonyRefused(name, f"the source is not what the chain has of key epoch {plan.epoch}")
    if not _are_holders(plan, epoch):
        raise CeremonyRefused(name, "its dealers are not the holders that the chain names")
    if not _changes_nothing(plan, epoch) and plan.digest not in trust.approved_plans:
        raise CeremonyRefused(name, "it changes the holders or the threshold, and approved_plans of this shard does not list it")
    return plan


def is_wanted(plan: CeremonyPlan, commitments: Sequence[Blob], epoch: EpochOnChain) -> bool:
    """Returns whether a shard should store the new shares of the plan's ceremony, which have these commitments. That is so in
    three cases: the chain has these shares in force, it still has the shares from which the ceremony started, or it does not have
    the new epoch yet.

    Returns False for a retired epoch, and once the chain names any other shares. A shard that erased such a share must not make
    it again.
    """
    if epoch.state is EpochState.NONE:
        return plan.source is None
    if epoch.state is EpochState.RETIRED:
        return False
    before = plan.source.commitments if plan.source is not None else ()
    return epoch.commitments in (b"".join(commitments), b"".join(before))


def is_epoch_over(view: CeremonyView, epoch: int, on_chain: EpochOnChain) -> bool:
    """Returns whether no shard needs its share of the epoch any more. That is so if the epoch is retired, or if it is compromised
    and no dispute needs it."""
    if on_chain.state is EpochState.COMPROMISED:
        return not view.is_open_for_disputes(epoch)
    return on_chain.state is EpochState.RETIRED


def _are_holders(plan: CeremonyPlan, epoch: EpochOnChain) -> bool:
    return all(epoch.shards[seat.index - 1 : seat.index] == (seat.address,) for seat in plan.dealers)


def _changes_nothing(plan: CeremonyPlan, epoch: EpochOnChain) -> bool:
    """Returns whether the plan keeps the threshold and the shards that the chain names."""
    if plan.threshold != epoch.threshold:
        return False
    if plan.purpose is CeremonyPurpose.REPAIR and plan.repair_target is not None:
        return epoch.shards[plan.repair_target.index - 1 : plan.repair_target.index] == (plan.repair_target.address,)
    return tuple(seat.address for seat in plan.receivers) == epoch.shards
