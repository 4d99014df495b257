"""What the chain said while a round ran, for comparison with the host claims in its quotes
(`bytewise.protocol.evidence.claims`)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.evidence.claims import ChainClaims, keys_digest
from bytewise.protocol.suites import SUITE_HYBRID, suite_of
from bytewise.protocol.units import ZERO_DIGEST, Digest
from chain.client.artifacts import Log
from chain.client.rpc import reading_answer
from chain.reads.history import CourtHistory
from chain.reads.reader import SnapshotReader


class Dated(NamedTuple):
    """A digest and the block from which on it was in force."""

    block: int
    digest: Digest


class ChainClaimHistory:
    """Chain claims of one network from its deployment to a block. Everything is read once."""

    def __init__(self, reader: SnapshotReader, block: int) -> None:
        self._reader, self._block = reader, block
        first = reader.network.deploy_block
        self._anchored = {each.batch_id: int(each.anchored_at) for each in reader.batches(first, block)}
        self._drawn = {(each.dispute, each.round): each.block for each in CourtHistory(reader).drawn(first, block)}
        logs = self._logs("Registry", reader.network.addresses.registry, ("PolicySet",))
        with reading_answer("PolicySet"):
            self._policies = [Dated(log.block, log.values["digest"]) for log in logs]
        logs = self._logs("KeyEpochs", reader.network.addresses.key_epochs, ("EpochOpened", "SharesConfirmed", "SharesDealt"))
        with reading_answer("key epochs"):
            self._keys = _keys_of(logs)

    def of(self, case: Dispute, opened: int) -> ChainClaims:
        """What the chain said for votes of the dispute's round that were opened in this block. No job of a round is older than
        its draw."""
        drawn = self._drawn.get((case.id, case.round), opened)
        keys = in_force(self._keys.get(case.key_epoch, ()), drawn, opened)
        policies = in_force(self._policies, drawn, opened)
        return ChainClaims(self._anchored[case.batch_id], keys, policies, case.round_seed)

    def _logs(self, contract: str, at: Any, events: Sequence[str]) -> list[Log]:
        return self._reader.client.logs(contract, at, events, self._reader.network.deploy_block, self._block)


def in_force(history: Iterable[Dated], first: int, last: int) -> frozenset[Digest]:
    """Digests in force at any time between two blocks, both included. `history` is in chain order."""
    until = [each for each in history if each.block <= last]
    before = [each for each in until if each.block <= first][-1:]
    return frozenset(each.digest for each in (*before, *(each for each in until if each.block > first)))


def _keys_of(logs: Iterable[Log]) -> Mapping[int, list[Dated]]:
    found: dict[int, list[Dated]] = {}
    stands: dict[int, dict[str, Any]] = {}
    for log in logs:
        epoch = int(log.values["epoch"])
        values = stands[epoch] = {"transcript": ZERO_DIGEST, **stands.get(epoch, {}), **log.values}
        found.setdefault(epoch, []).append(Dated(log.block, _digest(epoch, values)))
    return found


def _digest(epoch: int, values: Mapping[str, Any]) -> Digest:
    hybrid = Digest(values["transcript"]) if suite_of(epoch) == SUITE_HYBRID else ZERO_DIGEST
    return keys_digest(epoch, bytes(values["publicKey"]), values["threshold"], list(enumerate(values["shards"], 1)), hybrid)
