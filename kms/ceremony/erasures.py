"""What erasure statements of several shards add up to. Pure; who collects them asks the chain first.

Of n shares, t of which open, all but t - 1 must be gone before nobody can put the key together from them: n - t + 1 statements.
They are words, which nobody can check. Shares of each version open together, so that of each version so many must be gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.address_book import DealtShares
from bytewise.protocol.errors import ConfigurationError, Fault, TryAgain
from bytewise.protocol.jobs import Contracts
from bytewise.protocol.keys.ceremony import Erasure, SignedErasure, verify_erasure
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState
from bytewise.protocol.units import ZERO_DIGEST, Address


@dataclass(frozen=True, slots=True)
class Wanted:
    """The shares that are to be gone."""

    contracts: Contracts
    """Of which network."""
    epoch: int
    """Of which key epoch."""
    on_chain: EpochOnChain
    """The epoch now."""
    version: int
    """Of these shares."""
    holders: tuple[Address, ...]
    """Who had these shares, by index from 1."""
    threshold: int
    """How many of them open."""

    @property
    def ended(self) -> bool:
        """Whether the epoch has come to its end, so that no share of it may be kept."""
        return self.on_chain.state in (EpochState.RETIRED, EpochState.COMPROMISED)

    @property
    def needed(self) -> int:
        """Statements without which nobody can say that the shares are out of reach."""
        return len(self.holders) - self.threshold + 1


@dataclass(frozen=True, slots=True)
class Counted:
    """One statement, judged."""

    signed: SignedErasure
    """What was said."""
    false: str
    """Why it is not what it says it is; empty if it is."""
    besides: str
    """Why it says nothing about the wanted shares; empty if it does."""


def wanted_shares(contracts: Contracts, epoch: int, on_chain: EpochOnChain, dealt: Sequence[DealtShares]) -> tuple[Wanted, ...]:
    """Each version of the shares that is to be gone: all before those in force, and of an ended epoch these, too.

    `dealt`: every version, as the chain told it when it was dealt. `ConfigurationError` if the chain has no such epoch, or if
    nothing of it was to be erased; `TryAgain` if a version is missing.
    """
    name = f"key epoch {epoch}"
    if on_chain.state is EpochState.NONE:
        raise ConfigurationError(name, "the chain has none: are the statements of this network?")
    ended = on_chain.state in (EpochState.RETIRED, EpochState.COMPROMISED)
    if not ended and on_chain.version == 0:
        raise ConfigurationError(name, "is in force with the shares that it was made with: none was to be erased")
    if [each.version for each in dealt] != list(range(on_chain.version + 1)):
        shown = ", ".join(str(each.version) for each in dealt) or "none"
        raise TryAgain("chain", f"of {on_chain.version + 1} versions of the shares of {name} the node shows {shown}")
    return tuple(
        Wanted(contracts, epoch, on_chain, each.version, tuple(holder.address for holder in each.holders), each.threshold)
        for each in dealt
        if ended or each.version < on_chain.version
    )


def judge(signed: SignedErasure, wanted: Wanted) -> Counted:
    """Whether the statement is its shard's word, about this network, and counts for the wanted shares."""
    said = signed.statement
    try:
        verify_erasure(signed)
    except Fault:
        return Counted(signed, f"{signed.shard} did not sign it", "")
    if (said.chain_id, said.key_epochs) != (wanted.contracts.chain_id, wanted.contracts.key_epochs):
        return Counted(signed, f"is about chain {said.chain_id}, KeyEpochs {said.key_epochs}", "")
    return Counted(signed, "", _besides(signed.shard, said, wanted))


def count(counted: Sequence[Counted], wanted: Wanted) -> Mapping[int, Erasure]:
    """What counts, by index of the shard: one statement of each."""
    true = {each.signed.shard: each.signed.statement for each in counted if not (each.false or each.besides)}
    return {index: true[who] for index, who in enumerate(wanted.holders, start=1) if who in true}


def _besides(shard: Address, said: Erasure, wanted: Wanted) -> str:
    on_chain = wanted.on_chain
    if shard not in wanted.holders:
        return "had none of these shares"
    # Of an earlier version it says nothing about now: the shard may have got a share again.
    if said.version != on_chain.version:
        return f"is about version {said.version}, and the chain has {on_chain.version}"
    if said.kept == ZERO_DIGEST or (not wanted.ended and said.kept == digests.keccak256(on_chain.commitments)):
        return ""
    return "keeps its share of the epoch" if wanted.ended else "keeps other shares than the chain means"
