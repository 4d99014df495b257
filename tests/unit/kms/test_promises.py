"""What an enclave remembers of the places that shards gave its releases: a log that was cut off or is kept twice is seen."""

from dataclasses import replace

import pytest

from bytewise.protocol.errors import BytewiseError, ReleaseNotRecorded
from bytewise.protocol.messages import Release
from bytewise.protocol.seal import unpad
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U8, U64, ZERO_DIGEST, Address, Digest
from kms.client import ShardKeySource
from kms.policy import key_domain
from kms.promises import Promises
from tests.unit.kms.memory_chain import CONTRACTS, VOTER
from tests.unit.kms.world import World

SHARD = Address("0x" + "51" * 20)
PLAIN = Release(
    receipt_id=ZERO_DIGEST, ticket_hash=ZERO_DIGEST, key_epoch=U64(1), shard=SHARD, voter=VOTER.address,
    evidence_hash=ZERO_DIGEST, transport_key_hash=ZERO_DIGEST, previous=ZERO_DIGEST, index=U64(0),
    decision=U8(1), decided_at=U64(1),
)  # fmt: skip


def digest(record: Release) -> Digest:
    return typed_digest(key_domain(CONTRACTS), record)


def keep(promises: Promises, record: Release) -> Release:
    return promises.keep(1, record, digest(record))


def follower(record: Release, distance: int = 1) -> Release:
    """A record so many places on; of the next one, the digest of the one before is known."""
    previous = digest(record) if distance == 1 else Digest(b"\x09" * 32)
    return replace(record, index=U64(record.index + distance), previous=previous, decided_at=U64(record.decided_at + 1))


def test_places_may_be_far_apart_for_others_ask_too() -> None:
    promises, record = Promises(), PLAIN
    for distance in (1, 5, 1, 1):
        assert keep(promises, record) == record
        record = follower(record, distance)


@pytest.mark.parametrize("back", [0, 1, 3])
def test_a_place_that_was_given_before_is_not_given_again(back: int) -> None:
    promises = Promises()
    record = keep(promises, follower(PLAIN, 3))
    with pytest.raises(ReleaseNotRecorded, match="after one at 3"):
        keep(promises, replace(record, index=U64(record.index - back), decided_at=U64(9)))
    keep(promises, follower(record))


def test_the_next_record_names_the_one_that_we_were_given() -> None:
    promises = Promises()
    record = keep(promises, PLAIN)
    with pytest.raises(ReleaseNotRecorded, match="does not follow"):
        keep(promises, replace(follower(record), previous=Digest(b"\x0b" * 32)))
    keep(promises, follower(record))


def test_other_shards_and_other_epochs_have_logs_of_their_own() -> None:
    promises = Promises()
    keep(promises, follower(PLAIN, 4))
    keep(promises, replace(PLAIN, shard=VOTER.address))
    keep(promises, replace(PLAIN, key_epoch=U64(2)))


def test_a_shard_whose_log_was_cut_off_is_named_and_its_partial_not_used(fresh: World) -> None:
    failures: list[tuple[int, type[BytewiseError]]] = []
    keys = ShardKeySource(fresh.quoter, on_failure=lambda index, error: failures.append((index, type(error))))
    cases = [fresh.case(seq) for seq in (1, 2)]
    for case in cases:
        fresh.chain.open(case)
    with fresh.listening(*((i, fresh.shard(i)) for i in (1, 2, 3))):
        for case in cases:
            assert unpad(keys.open(fresh.job(case), fresh.secret)) == case.payload
    assert failures == []
    for path in (fresh.folder / "shard-1").glob("kms.sqlite*"):
        path.unlink()
    with fresh.listening(*((i, fresh.shard(i)) for i in (1, 2, 3))):
        assert unpad(ShardKeySource(fresh.quoter).open(fresh.job(cases[0]), fresh.secret)) == cases[0].payload, "who never saw it"
        assert unpad(keys.open(fresh.job(cases[1]), fresh.secret)) == cases[1].payload
    assert failures == [(1, ReleaseNotRecorded)]
