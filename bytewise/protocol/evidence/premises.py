"""What an enclave is told and cannot know: the chain, in its host's words (design section 7).

An enclave reads no chain. Its result is true if what it was told is, so the result's quote says what that was, and whoever reads
the quote compares it with the chain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.evidence.appraisal_policy import policy_digest
from bytewise.protocol.jobs import EpochRecord, RunJob
from bytewise.protocol.units import U64, ZERO_DIGEST, Address, Digest


@dataclass(frozen=True, slots=True)
class Premises:
    """What the host said of the chain, as far as nothing else in a result's statement binds it."""

    anchored_at: U64
    """Chain time of the receipt's batch: a request that had expired by then is a defect."""
    keys: Digest
    """`keys_digest` of the receipt's key epoch: with other keys or shards an envelope seems not to open."""
    policy: Digest
    """Appraisal policy under which the enclave asked shards."""
    round_seed: Digest
    """Seed of the round, which the round digest hashes; zero for an audit."""


class ChainPremises(NamedTuple):
    """What the chain says of the same."""

    anchored_at: int
    """Chain time of the batch."""
    keys: frozenset[Digest]
    """Those that were in force while the round ran."""
    policies: frozenset[Digest]
    """The same of policies."""
    round_seed: Digest
    """Seed of the round."""


def premises_of(job: RunJob) -> Premises:
    """What a job says of the chain."""
    return Premises(job.anchored_at, record_digest(job.epoch), policy_digest(job.policy), job.round_seed)


def record_digest(record: EpochRecord) -> Digest:
    """`keys_digest` of a key epoch as a job has it."""
    hybrid = record.hybrid.digest if record.hybrid else ZERO_DIGEST
    holders = [(shard.index, shard.address) for shard in record.shards]
    return keys_digest(record.epoch, record.public_key, record.threshold, holders, hybrid)


def keys_digest(epoch: int, public_key: bytes, threshold: int, holders: Sequence[tuple[int, Address]], hybrid: Digest) -> Digest:
    """Names all of a key epoch that the chain pins and an opening depends on; `hybrid`: of its ML-KEM keys, or zero."""
    accounts = [part for index, account in holders for part in (index, account.encode())]
    return digests.labelled(Label.EPOCH_KEYS, epoch, public_key, threshold, hybrid, *accounts)


def differing(said: Premises, chain: ChainPremises) -> tuple[str, ...]:
    """Names of the premises that are not as the chain has them."""
    holds = {
        "anchored_at": said.anchored_at == chain.anchored_at,
        "keys": said.keys in chain.keys,
        "policy": said.policy in chain.policies,
        "round_seed": said.round_seed == chain.round_seed,
    }
    return tuple(name for name, true in holds.items() if not true)
