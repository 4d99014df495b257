"""Shards, enclaves and answers of an epoch whose key enclaves rebuild, for tests of it."""

from bytewise.protocol.jobs import key_domain
from bytewise.protocol.keys.epochs import ReleaseAnswer, SignedRelease, partial_info, share_info
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.suites import rebuilt_epoch
from bytewise.protocol.units import Digest
from enclave.release_client import ShardKeySource
from kms.shard.release import Shard
from tests.unit.kms.memory_chain import CONTRACTS, Case
from tests.unit.kms.test_client import Blame
from tests.unit.kms.world import World

EPOCH = rebuilt_epoch(1)
DOMAIN = key_domain(CONTRACTS)


def giving(world: World, index: int, kind: type[Shard] = Shard) -> tuple[int, Shard]:
    """A shard whose operator allows what its epoch asks for."""
    shard = world.shard(index, release_shares=True)
    shard.__class__ = kind
    return index, shard


def disputed(world: World, case: Case | None = None) -> Case:
    """A case, this or a new one, that is in dispute."""
    case = case or world.case()
    world.chain.open(case)
    return case


def source(world: World, blame: Blame | None = None, *, rebuilds: bool = True) -> ShardKeySource:
    """An enclave's key source that tells `blame` who failed."""
    return ShardKeySource(world.quoter, pause=lambda _seconds: None, attempts=2, on_failure=blame or Blame(), rebuilds=rebuilds)


def answer(world: World, case: Case, index: int = 1) -> tuple[SignedRelease, bytes, tuple[Digest, Digest]]:
    """A shard's record, what it sealed, and the two names under which that can be opened: of a partial, of a share."""
    ticket = world.ticket(case)
    given: ReleaseAnswer = world.release(giving(world, index)[1], case, ticket=ticket)
    names = given.record.shard, case.id, typed_digest(DOMAIN, ticket), ticket.key_epoch
    signed = SignedRelease(given.record, given.signature, None)
    return signed, given.sealed_partial, (partial_info(*names), share_info(*names))
