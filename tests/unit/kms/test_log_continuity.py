"""What an enclave remembers of the places that shards gave its releases: a log that was cut off or is kept twice is seen."""

from dataclasses import replace

import pytest

from bytewise.protocol.errors.actors import ReleaseNotRecorded
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.records.statements import Release
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U64, Blob, Digest
from enclave.log_continuity import LogContinuity
from enclave.release_client import ShardKeySource
from tests.fixtures.kms.memory_chain import VOTER
from tests.fixtures.kms.promise_chain import DOMAIN, FAR, PLAIN, digest, signed
from tests.fixtures.kms.release_network import World


def keep(promises: LogContinuity, record: Release) -> Release:
    return promises.keep(1, signed(record), digest(record))


def follower(record: Release, distance: int = 1) -> Release:
    """A record so many places on; of the next one, the digest of the one before is known."""
    previous = digest(record) if distance == 1 else Digest(b"\x09" * 32)
    return replace(record, index=U64(record.index + distance), previous=previous, decided_at=U64(record.decided_at + 1))


def test_record_numbers_may_have_gaps_from_other_requests() -> None:
    promises, record = LogContinuity(), PLAIN
    for distance in (1, 5, 1, 1):
        assert keep(promises, record) == record
        record = follower(record, distance)


@pytest.mark.parametrize("back", [0, 1, 3])
def test_record_number_seen_before_is_refused(back: int) -> None:
    promises = LogContinuity()
    record = keep(promises, follower(PLAIN, 3))
    with pytest.raises(ReleaseNotRecorded, match="after a record at 3"):
        keep(promises, replace(record, index=U64(record.index - back), decided_at=U64(9)))
    keep(promises, follower(record))


def test_next_record_links_to_the_one_seen_before() -> None:
    promises = LogContinuity()
    record = keep(promises, PLAIN)
    with pytest.raises(ReleaseNotRecorded, match="does not follow"):
        keep(promises, replace(follower(record), previous=Digest(b"\x0b" * 32)))
    keep(promises, follower(record))


def test_other_shards_and_epochs_have_their_own_logs() -> None:
    promises = LogContinuity()
    keep(promises, follower(PLAIN, 4))
    keep(promises, replace(PLAIN, shard=VOTER.address))
    keep(promises, replace(PLAIN, key_epoch=U64(2)))


def test_record_seen_by_another_process_counts_and_an_older_one_is_ignored() -> None:
    promises, second = LogContinuity(), follower(PLAIN)
    for each in (second, PLAIN):
        promises.learn(signed(each))
    with pytest.raises(ReleaseNotRecorded, match="after a record at 1"):
        keep(promises, replace(second, decided_at=U64(9)))
    keep(promises, follower(second))
    promises.learn(signed(FAR))
    with pytest.raises(ReleaseNotRecorded, match=f"after a record at {2**62}"):
        keep(promises, follower(follower(second)))


def test_compromised_process_cannot_make_honest_shards_liars() -> None:
    promises = LogContinuity()
    promises.learn(signed(PLAIN))
    for lie in (signed(FAR, by=VOTER), replace(signed(PLAIN), record=FAR), replace(signed(FAR), signature=Blob(b""))):
        with pytest.raises(BadSignature):
            promises.learn(lie)
    keep(LogContinuity(known=promises), follower(PLAIN))


def test_record_on_another_network_is_of_another_log() -> None:
    promises = LogContinuity()
    for other in (Domain(DOMAIN.chain_id + 1, DOMAIN.contract), Domain(DOMAIN.chain_id, VOTER.address)):
        promises.learn(signed(FAR, domain=other))
    keep(promises, PLAIN)


def test_forked_process_inherits_known_records_and_keeps_its_own_to_itself() -> None:
    known = LogContinuity()
    keep(known, PLAIN)
    fork = LogContinuity(known=known)
    keep(fork, follower(PLAIN))
    with pytest.raises(ReleaseNotRecorded):
        keep(fork, replace(PLAIN, decided_at=U64(9)))
    keep(known, follower(PLAIN))


def test_shard_with_a_truncated_log_is_named_and_its_partial_not_used(fresh: World) -> None:
    failures: list[tuple[int, type[BytewiseError]]] = []
    keys = ShardKeySource(fresh.quoter, on_failure=lambda index, error: failures.append((index, type(error))))
    cases = [fresh.disputed(seq) for seq in (1, 2)]
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
