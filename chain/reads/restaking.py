"""Reads of stake that EigenLayer has.

Such stake exists only in a network with `EigenLayerStake` in place of its vault. For a native vault the reads return nothing.
"""

from typing import Any, NamedTuple

from bytewise.protocol.errors.actors import ChainReverted
from bytewise.protocol.units import ZERO_ADDRESS, Address, Digest, address
from chain.client.address_book import address_of
from chain.client.artifacts import Log, View
from chain.client.rpc import at_hash, at_number, reading_answer
from chain.client.simulation import Simulation, as_rule

CONTRACT = "EigenLayerStake"

_NOT_ASKED = -1


class Restaking(NamedTuple):
    """Constructor arguments of the contract `EigenLayerStake`, and EigenLayer's current data about its operator set."""

    allocations: Address
    strategy: Address
    avs: Address
    set_id: int
    max_age: int
    """Number of blocks for which a record of stake counts."""
    horizon: int
    """Number of blocks for which recorded stake can be slashed."""
    longest_s: int
    """Longest dispute in seconds that this stake can cover."""
    needed_s: int
    """Longest dispute in seconds that the parameters allow now."""
    slasher: Address
    recipient: Address
    next_slasher: Address
    """Slasher that the service has named to follow `slasher`; zero if none."""
    next_block: int
    """Block from which `next_slasher` is the slasher."""

    def flaws(self, source: Address) -> tuple[str, ...]:
        """Returns the reasons why verdicts cannot slash this stake. `source` is the address of `EigenLayerStake`."""
        found = [
            f"the {role} of operator set {self.avs}:{self.set_id} is {who}, should be {source}: nothing is slashed for verdicts"
            for role, who in (("slasher", self.slasher), ("redistribution recipient", self.recipient))
            if who != source
        ]
        if self.next_slasher not in (source, ZERO_ADDRESS):
            where = f"of operator set {self.avs}:{self.set_id}"
            found.append(f"the slasher {where} is {self.next_slasher} from block {self.next_block} on, should be {source}")
        if self.needed_s > self.longest_s:
            found.append(
                f"disputes may last {self.needed_s} s, stake at EigenLayer answers for {self.longest_s} s: none of it counts"
            )
        return tuple(found)


class RestakingReader(Simulation):
    """Reads records of stake, and slashes that EigenLayer refused or has not paid."""

    _life: int | None = _NOT_ASKED

    def record_life(self, block: int) -> int | None:
        """Reads the number of blocks for which a record of stake counts. Returns None if the network has a native vault."""
        if self._life == _NOT_ASKED:
            try:
                # Code at an address never changes, so it is read once.
                self._life = int(self.client.call(*self._source, "MAX_AGE", block=at_number(block)))
            except ChainReverted:
                self._life = None
        return self._life

    def restaking(self, block: int) -> Restaking | None:
        """Reads the stake source at EigenLayer. Returns None if the network has a native vault."""
        if self.record_life(block) is None:
            return None
        contract, at = self._source
        names = ("ALLOCATIONS", "STRATEGY", "AVS", "SET_ID", "MAX_AGE", "HORIZON", "LONGEST")
        asked = [View(contract, at, name) for name in names]
        asked.append(View("Params", self.network.addresses.params, "longestLive"))
        fixed: list[Any] = self.client.views(asked, at_number(block))
        manager, named = fixed[0], (fixed[2], fixed[3])
        roles = ("getSlasher", "getRedistributionRecipient", "getPendingSlasher")
        asked = [View("IAllocationManager", manager, name, (named,)) for name in roles]
        slasher, recipient, pending = self.client.views(asked, at_number(block))
        return Restaking._make([*fixed, slasher, recipient, pending["pendingSlasher"], pending["effectBlock"]])

    def stake_records(self, account: Address, from_block: int, to_block: int) -> tuple[tuple[int, int], ...]:
        """Reads the records of an account's stake that were made in these blocks, as pairs of block and wei. Of several records
        in one block, only the last one is returned."""
        logs = self._logs("Synced", from_block, to_block)
        with reading_answer("Synced"):
            return tuple({log.block: int(log.values["stake"]) for log in logs if log.values["account"] == account}.items())

    def recordable(self, account: Address, block: int) -> int:
        """Simulates a new record of the account, and returns the wei that it would show."""
        return int(self.client.call(*self._source, "sync", account, block=self._at_hash(block)))

    def deferred_payments(self, from_block: int, to_block: int) -> tuple[tuple[int, Digest], ...]:
        """Reads slash id and pot of each payment that the stake source could not make at once. For a native vault there are
        none."""
        logs = self._logs("PaymentDeferred", from_block, to_block)
        with reading_answer("PaymentDeferred"):
            return tuple((int(log.values["slashId"]), Digest(log.values["ref"])) for log in logs)

    def refused_slashes(self, from_block: int, to_block: int) -> tuple[tuple[Address, Digest], ...]:
        """Reads account and reference of each slash that EigenLayer refused in these blocks, once for each refusal."""
        logs = self._logs("SlashDeferred", from_block, to_block)
        with reading_answer("SlashDeferred"):
            return tuple((address(log.values["account"]), Digest(log.values["ref"])) for log in logs)

    def collect_refused(self, who: Address, slash_id: int, block: int) -> str | None:
        """Returns why the stake source would refuse a call by `who` that pays a slash. Returns None if it would pay."""
        return self._refused(who, "collect", (slash_id,), 0, block, CONTRACT)

    def retry_refused(self, account: Address, ref: Digest, block: int) -> str | None:
        """Returns why a retry of a refused slash would still take nothing. Returns None if it would take something."""
        try:
            taken = self.client.call(*self._source, "retry", account, ref, block=self._at_hash(block))
        except ChainReverted as error:
            return str(as_rule(error))
        # A retry that EigenLayer refuses again, or that finds no stake, is not worth its gas.
        return None if taken else "nothing would be taken"

    @property
    def _source(self) -> tuple[str, Address]:
        return CONTRACT, address_of(self.network, CONTRACT)

    def _logs(self, event: str, from_block: int, to_block: int) -> list[Log]:
        return self.client.logs(*self._source, [event], from_block, to_block)

    def _at_hash(self, block: int) -> dict[str, str | bool]:
        return at_hash(self.client.block(block).hash)
