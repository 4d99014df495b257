"""What erasure statements of several shards add up to. Pure; who collects them asks the chain first.

Of n shares, t of which open, all but t - 1 must be gone before nobody can put the key together from them: n - t + 1 statements.
They are words, which nobody can check.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.ceremony import Erasure, SignedErasure, verify_erasure
from bytewise.protocol.errors import ConfigurationError, Fault
from bytewise.protocol.jobs import Contracts
from bytewise.protocol.keys import EpochDocument, EpochOnChain, EpochState
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


def wanted_shares(contracts: Contracts, epoch: int, on_chain: EpochOnChain, before: EpochDocument | None) -> Wanted:
    """The shares that `before` is the document of, or without it those that the chain's holders had until now.

    `ConfigurationError` if the chain has no such epoch, if nothing of it was to be erased, or if `before` is of another key or
    of the shares in force.
    """
    name = f"key epoch {epoch}"
    if on_chain.state is EpochState.NONE:
        raise ConfigurationError(name, "the chain has none: are the statements of this network?")
    ended = on_chain.state in (EpochState.RETIRED, EpochState.COMPROMISED)
    if before is None:
        if not ended and on_chain.version == 0:
            raise ConfigurationError(name, "is in force with the shares that it was made with: none was to be erased")
        return Wanted(contracts, epoch, on_chain, on_chain.shards, on_chain.threshold)
    record = before.record
    if (record.epoch, record.public_key) != (epoch, on_chain.public_key) or before.commitments[:1] != (record.public_key,):
        raise ConfigurationError("--before", f"is no document of the key of epoch {epoch}")
    if not ended and b"".join(before.commitments) == on_chain.commitments:
        raise ConfigurationError("--before", "is the document of the shares in force: name the one of before")
    return Wanted(contracts, epoch, on_chain, tuple(each.address for each in record.shards), len(before.commitments))


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
