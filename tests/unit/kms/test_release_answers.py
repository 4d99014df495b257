"""What a shard answers beside its partial: a record that it signed, of this very release, member by member."""

from dataclasses import replace
from typing import Any

import pytest

from bytewise.protocol.errors.actors import ReleaseNotRecorded
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.jobs import key_domain
from bytewise.protocol.keys.epochs import Decision, ReleaseAnswer
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U8, U64, Digest
from bytewise.tee.binding import AttestedPeer
from enclave.release_client import ShardKeySource
from kms.shard.release import Shard
from tests.fixtures.kms.key_source import disputed
from tests.fixtures.kms.memory_chain import CONTRACTS, OTHER_VOTER
from tests.fixtures.kms.release_network import World

OTHER = Digest(b"\x5a" * 32)
MEMBERS: dict[str, dict[str, Any]] = {
    "receipt": {"receipt_id": OTHER},
    "ticket": {"ticket_hash": OTHER},
    "epoch": {"key_epoch": U64(9)},
    "shard": {"shard": OTHER_VOTER.address},
    "voter": {"voter": OTHER_VOTER.address},
    "evidence": {"evidence_hash": OTHER},
    "transport key": {"transport_key_hash": OTHER},
    "decision": {"decision": U8(Decision.REFUSED)},
}


class Otherwise(Shard):
    """Signs a record of something else than it gives."""

    changes: dict[str, Any]

    def release(self, body: bytes, peer: AttestedPeer) -> ReleaseAnswer:
        answer = super().release(body, peer)
        record = replace(answer.record, **self.changes)
        return replace(answer, record=record, signature=self.signer.sign(typed_digest(key_domain(CONTRACTS), record)))


@pytest.mark.parametrize("what", MEMBERS)
def test_partial_whose_record_names_something_else_is_not_used(world: World, what: str) -> None:
    """Its log would show another release than this one, or none."""
    case, first, failures = disputed(world), world.shard(1), list[tuple[int, BytewiseError]]()
    first.__class__ = Otherwise
    first.changes = MEMBERS[what]  # type: ignore[attr-defined]
    keys = ShardKeySource(world.quoter, pause=lambda _: None, on_failure=lambda *told: failures.append(told))
    with world.listening((1, first), (2, world.shard(2)), (3, world.shard(3))):
        assert unpad(keys.open(world.job(case), world.secret)) == case.payload
    ((index, error),) = failures
    assert index == 1 and isinstance(error, ReleaseNotRecorded) and f"names another {what}" in str(error)
