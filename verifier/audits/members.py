"""Who is a verifier, as a set that other threads may ask: strangers must not be able to make us ask the chain."""

from collections.abc import Sequence
from typing import Protocol

from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Docket
from bytewise.protocol.units import Address, Digest
from verifier.watch.records import Records

REFRESH_BLOCKS = 32
"""Blocks after which the pools are read again: who joins weighs nothing before the next stake epoch, which is longer."""


class Staked(Protocol):
    """An account of a pool."""

    @property
    def account(self) -> Address:
        """Whose it is."""
        ...

    @property
    def stake(self) -> int:
        """Wei."""
        ...


class Pools(Protocol):
    """The part of the chain that members are read from."""

    def pool_of(self, environment: Digest, block: int) -> Digest:
        """Pool that judges an environment."""
        ...

    def verifiers(self, pool: Digest, block: int) -> Sequence[Staked]:
        """All accounts that ever joined it."""
        ...


class Members:
    """Verifiers with stake in the pools that judge what can still be disputed. Implements `node.Part`; decides nothing."""

    def __init__(self, chain: Pools, records: Records) -> None:
        self._chain = chain
        self._records = records
        self._known: frozenset[Address] = frozenset()
        self._environments: frozenset[Digest] = frozenset()
        self._read_at = 0

    def __contains__(self, who: object) -> bool:
        return who in self._known

    def step(self, docket: Docket) -> tuple[Action, ...]:
        """Reads the pools now and then, and when receipts of another environment can be disputed."""
        environments = frozenset(live.header.environment for live in self._records.live)
        aged = docket.number - self._read_at >= REFRESH_BLOCKS or docket.number < self._read_at
        if aged or not environments <= self._environments:
            pools = {self._chain.pool_of(each, docket.number) for each in environments}
            found = [each for pool in pools for each in self._chain.verifiers(pool, docket.number)]
            self._known = frozenset(each.account for each in found if each.stake > 0)
            self._environments, self._read_at = environments, docket.number
        return ()
