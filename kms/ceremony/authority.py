"""Which ceremonies a shard takes part in: who may ask, and what the chain and its operator must have said before.

A new key endangers nobody. Dealing again an existing one to others gives it to them: the same shards may get new shares, and a
shard its own, because the chain names them and how many open. Anything else needs the word of each dealer's operator.
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
    """What a shard asks the chain before a ceremony."""

    def key_epoch(self, epoch: int) -> EpochOnChain:
        """The epoch at the newest block of the configured finality; `Unavailable` if the chain cannot be read."""
        ...

    def is_open_for_disputes(self, epoch: int) -> bool:
        """Whether a dispute may still need the key of the epoch, at that block; `Unavailable` if the chain cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class Trust:
    """What a shard's operator has set."""

    chain_id: int
    key_epochs: Address
    scribe: Address
    """The only account whose plans are looked at."""
    approved: frozenset[Digest]
    """Plans, by digest, that may give shares of an existing key to other shards."""
    simulated: bool
    """Whether this shard has a part in keys of simulated assurance."""
    release_shares: bool = False
    """Whether it has a part in keys that enclaves rebuild."""


def verify_authority(plan: CeremonyPlan, trust: Trust, own: Address, view: CeremonyView) -> CeremonyPlan:
    """The plan, if this shard may take part in it; else `CeremonyRefused`."""
    seats = (*plan.dealers, *plan.receivers, *((plan.heir,) if plan.heir else ()))
    for wrong, why in (
        ((plan.chain_id, plan.key_epochs) != (trust.chain_id, trust.key_epochs), "is of another network"),
        (plan.scribe != trust.scribe, f"is kept by {plan.scribe}, not by the scribe of our settings"),
        (plan.assurance not in (HARDWARE, *((SIMULATED,) if trust.simulated else ())), f"is {plan.assurance[:20]}"),
        (
            is_rebuilt(plan.epoch) and not trust.release_shares,
            "is for a key that enclaves rebuild, and release_shares is not set",
        ),
        (own not in {seat.address for seat in seats}, "has no seat for us"),
    ):
        if wrong:
            raise CeremonyRefused(plan.digest.hex()[:16], f"the plan {why}")
    return _verify_chain(plan, trust, view.key_epoch(plan.epoch))


def _verify_chain(plan: CeremonyPlan, trust: Trust, epoch: EpochOnChain) -> CeremonyPlan:
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
        raise CeremonyRefused(name, "its dealers are not those whom the chain names, whose word it asks")
    if not _changes_nothing(plan, epoch) and plan.digest not in trust.approved:
        raise CeremonyRefused(name, "it changes who opens, or how many, and our operator did not approve that")
    return plan


def is_wanted(plan: CeremonyPlan, commitments: Sequence[Blob], epoch: EpochOnChain) -> bool:
    """Whether the chain has a use, or may yet have, for shares of these commitments that the plan's ceremony made.

    Not of a retired epoch, and not once it means others: a shard that erased such shares must not make them again.
    """
    if epoch.state is EpochState.NONE:
        return plan.source is None
    if epoch.state is EpochState.RETIRED:
        return False
    before = plan.source.commitments if plan.source is not None else ()
    return epoch.commitments in (b"".join(commitments), b"".join(before))


def is_over(view: CeremonyView, epoch: int, on_chain: EpochOnChain) -> bool:
    """Whether nobody can need shares of the epoch any more: it is retired, or compromised and the time of disputes is over."""
    if on_chain.state is EpochState.COMPROMISED:
        return not view.is_open_for_disputes(epoch)
    return on_chain.state is EpochState.RETIRED


def _are_holders(plan: CeremonyPlan, epoch: EpochOnChain) -> bool:
    return all(epoch.shards[seat.index - 1 : seat.index] == (seat.address,) for seat in plan.dealers)


def _changes_nothing(plan: CeremonyPlan, epoch: EpochOnChain) -> bool:
    """Whether afterwards as many of the same shards open as before."""
    if plan.threshold != epoch.threshold:
        return False
    if plan.purpose is CeremonyPurpose.REPAIR and plan.heir is not None:
        return epoch.shards[plan.heir.index - 1 : plan.heir.index] == (plan.heir.address,)
    return tuple(seat.address for seat in plan.receivers) == epoch.shards
