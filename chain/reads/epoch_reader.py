"""Reads of key epochs, and of all that one release of a key is decided by."""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.court.commitments import dispute_id
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState
from bytewise.protocol.keys.release_view import ReleaseView
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from chain.client.artifacts import View
from chain.client.rpc import at_hash, at_number, reading_answer
from chain.reads import decoding
from chain.reads.epoch_endpoints import epoch_on_chain, pinned_epoch
from chain.reads.restaking import RestakingReader


class EpochReader(RestakingReader):
    """Reads `KeyEpochs`."""

    def final(self) -> int | None:
        """Number of the newest final block, by which shards decide; None before one has `KeyEpochs`.

        A deployment takes many blocks: `deploy_block`, and those after it, have none of its contracts yet.
        """
        number = self.client.head("finalized").number
        (code,) = self.client.codes([self.network.addresses.key_epochs], at_number(number))
        return number if code else None

    def epoch(self, epoch: int, block: int) -> EpochRecord:
        """A key epoch: endpoints from the address book, everything else as the chain pins it at this block.

        `UnknownKeyEpoch` if the chain does not have it, `TryAgain` if our book does not yet, `ConfigurationError` if both have it
        and contradict each other.
        """
        return pinned_epoch(epoch, self._epoch(epoch, block), self.network.epoch)

    def epoch_on_chain(self, epoch: int, block: int) -> EpochOnChain:
        """A key epoch as the chain has it, whether or not our book lists it."""
        return epoch_on_chain(self._epoch(epoch, block))

    def epoch_state(self, epoch: int, block: int) -> EpochState:
        """State of a key epoch at a block; NONE if there is none."""
        raw = self._epoch(epoch, block)
        with reading_answer("epoch state"):
            return EpochState(raw["state"])

    def is_open_for_disputes(self, epoch: int, block: int) -> bool:
        """Whether a dispute may still need the key of an epoch, at a block; False if there is none."""
        return bool(
            self.client.call("KeyEpochs", self.network.addresses.key_epochs, "isOpenForDisputes", epoch, block=at_number(block))
        )

    def release_view(self, voter: Address, epoch: int, dispute: Digest | None, receipt_id: Digest) -> ReleaseView:
        """What a shard decides a ticket of this voter, key epoch, dispute and receipt by, at the newest block at the configured
        finality. The dispute's receipt is zero if it is about another one.

        Two round trips: the block, and all views at its hash. Errors as of `epoch`, but that an unknown epoch is none.
        """
        seen, lens = self.client.head(self._tag), ("Lens", self.network.addresses.lens)
        views = [View(*lens, "snapshot", (voter, [])), View(*self._epoch_info, (epoch,))]
        if dispute is not None:
            views.append(View(*lens, "disputeView", (dispute,)))
        snapshot, raw, *cases = self.client.views(views, at_hash(seen.hash))
        key = epoch_on_chain(raw)
        record = None if key.state is EpochState.NONE else pinned_epoch(epoch, raw, self.network.epoch)
        with reading_answer("release view"):
            receipt = ZERO_DIGEST if dispute is None else self._receipt_of(dispute, receipt_id)
            found = next((decoding.case(each, receipt) for each in cases if each["phase"]), None)
            return ReleaseView(seen.number, decoding.docket(snapshot, seen.hash), key, record, found)

    def _receipt_of(self, dispute: Digest, receipt_id: Digest) -> Digest:
        """The receipt's id if the dispute is about it, else zero: a dispute's id is a hash of it."""
        return receipt_id if dispute_id(self.network.disputes_domain, receipt_id) == dispute else ZERO_DIGEST

    def _epoch(self, epoch: int, block: int) -> Mapping[str, Any]:
        raw: Mapping[str, Any] = self.client.call(*self._epoch_info, epoch, block=at_number(block))
        return raw

    @property
    def _epoch_info(self) -> tuple[str, Address, str]:
        return "KeyEpochs", self.network.addresses.key_epochs, "epochInfo"
