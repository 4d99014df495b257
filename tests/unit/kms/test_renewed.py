"""A key is dealt again while its shards run: they answer with the shares that the chain means, and with no others."""

import os
from dataclasses import replace

import pytest

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import NoKey, ShardLied, StaleBackup, TryAgain
from bytewise.protocol.keys import Partial, partial_info
from bytewise.protocol.release_log import START, verify_log
from bytewise.protocol.seal import Envelope, unpad
from bytewise.protocol.units import Blob
from kms import hpke, keyring
from kms.client import ShardKeySource
from kms.curve import GENERATOR, decode_point, encode_point
from kms.dleq import verify_partial
from kms.policy import key_domain
from kms.release import Shard
from kms.renewed import as_dealt
from kms.shares import combine_values, split
from tests.unit.kms.memory_chain import OTHER_VOTER, VOTER, Case
from tests.unit.kms.test_client import Blame
from tests.unit.kms.world import World


def dealt_again(world: World, *receivers: int, suffix: str = "-0a1b") -> Blob:
    """New shares of the same key in the folders of these shards; the chain does not mean them yet. Their commitments."""
    folders = {n: shard.folder for n, shard in enumerate(world.settings.shards, start=1)}
    held = {n: keyring.open_share(folders[n], world.document).scalar() for n in (1, 2)}
    shares, points = split(combine_values(held), 2, 3, os.urandom)
    for n in receivers:
        keyring.seal_share(folders[n], 1, n, shares[n], suffix)
    return Blob(b"".join(encode_point(point) for point in points))


def mean(world: World, commitments: Blob) -> None:
    """From now on the chain does."""
    world.chain.facts = replace(world.chain.facts, commitments=commitments)


def opened(world: World, case: Case, **changes: object) -> bytes:
    """What an enclave gets of the shards that listen, which ask nobody to wait."""
    job = replace(world.job(case), **changes)  # type: ignore[arg-type]
    return unpad(ShardKeySource(world.quoter, pause=lambda _: None, on_failure=Blame()).open(job, world.secret))  # type: ignore[return-value]


def partial(world: World, shard: Shard, case: Case) -> Partial:
    """The shard's, of its first place."""
    answer = world.release(shard, case)
    info = partial_info(answer.record.shard, case.id, answer.record.ticket_hash, 1)
    return decode(Partial, hpke.open_from_transport(world.secret, info, answer.sealed_partial))


def test_nobody_restarts_and_everybody_goes_on(fresh: World) -> None:
    """All shards and the enclave's side follow the chain. Control: an old book's keys prove no new share."""
    case, shards = fresh.case(), [(n, fresh.shard(n)) for n in (1, 2, 3)]
    fresh.chain.open(case)
    new = dealt_again(fresh, 1, 2, 3)
    with fresh.listening(*shards):
        assert opened(fresh, case) == case.payload
        mean(fresh, new)
        assert opened(fresh, case, epoch=as_dealt(fresh.document.record, new)) == case.payload
        with pytest.raises(NoKey, match="ShardLied"):
            opened(fresh, case)
    verify_log(shards[0][1].log(0).entries, START, key_domain(fresh.contracts))


def test_what_a_running_shard_gives_is_of_the_share_that_the_chain_means(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    base, old = decode_point(decode(Envelope, case.envelope).enc), fresh.document.record
    new = dealt_again(fresh, 1)
    for record, other in ((old, as_dealt(old, new)), (as_dealt(old, new), old)):
        mean(fresh, Blob(b"".join(fresh.document.commitments)) if record is old else new)
        given = partial(fresh, shard, case)
        mine, theirs = (decode_point(each.shards[0].verification_key) for each in (record, other))
        assert verify_partial(given, 1, mine, base, case.id)
        with pytest.raises(ShardLied):
            verify_partial(given, 1, theirs, base, case.id)


def test_who_has_no_share_that_the_chain_means_is_to_be_asked_again_and_answers_once_it_has(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    mean(fresh, dealt_again(fresh, 2, 3))
    with pytest.raises(TryAgain, match="the chain means others at block 100, and ours is not there yet"):
        fresh.release(shard, case)
    assert shard.log(0).entries == ()
    mean(fresh, dealt_again(fresh, 1, suffix="-0c2d"))
    fresh.release(shard, case)


def test_no_share_comes_back_that_the_chain_meant_before(fresh: World) -> None:
    """A node that is behind, or lies: the shard has both shares in its folder."""
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    first, second = Blob(b"".join(fresh.document.commitments)), dealt_again(fresh, 1)
    for commitments in (first, second):
        mean(fresh, commitments)
        fresh.release(shard, case)
    mean(fresh, first)
    with pytest.raises(TryAgain, match="dealt again"):
        fresh.release(shard, case)
    mean(fresh, second)
    fresh.release(shard, case)


def test_a_key_that_moved_to_other_shards_or_places_is_not_ours_to_serve(fresh: World) -> None:
    case, shard = fresh.case(), fresh.shard(1)
    fresh.chain.open(case)
    mean(fresh, dealt_again(fresh, 1))
    holders = fresh.chain.facts.holders
    assert holders == tuple(each.address for each in fresh.document.record.shards)
    for others in (holders[::-1], (OTHER_VOTER.address, *holders[1:]), holders[:-1], (*holders, VOTER.address)):
        fresh.chain.facts = replace(fresh.chain.facts, holders=others)
        with pytest.raises(StaleBackup, match="of other shards, at block 100"):
            fresh.release(shard, case)
    assert shard.log(0).entries == ()
    fresh.chain.facts = replace(fresh.chain.facts, holders=holders)
    fresh.release(shard, case)


def test_verification_keys_are_those_of_the_commitments(fresh: World) -> None:
    record, new = fresh.document.record, dealt_again(fresh, 1, 2, 3)
    assert as_dealt(record, b"".join(fresh.document.commitments)) == record
    keys = as_dealt(record, new).shards
    for n, shard in enumerate(fresh.settings.shards, start=1):
        share = keyring.find_share(shard.folder, 1, keyring.points_of(new)).scalar()
        assert keys[n - 1] == replace(record.shards[n - 1], verification_key=encode_point(GENERATOR * share))
