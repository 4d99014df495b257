"""A key is dealt again while its shards run: they answer with the shares that the chain means, and with no others."""

import time
from dataclasses import replace

import pytest

from bytewise.crypto import hpke
from bytewise.crypto.curve import GENERATOR, decode_point, encode_point
from bytewise.crypto.shares import verify_partial
from bytewise.protocol.digests import keccak256
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import NoKey, ShardLied, StaleBackup, TryAgain
from bytewise.protocol.jobs import key_domain
from bytewise.protocol.keys.epochs import Partial, partial_info
from bytewise.protocol.keys.release_log import START, verify_log
from bytewise.protocol.records.seal import Envelope, unpad
from enclave.release_client import ShardKeySource
from kms.shard.release import REFRESH_S, Shard
from kms.shard.share_rotation import SETTLE_S, SharesInForce, with_verification_keys
from kms.storage import keyring
from kms.storage.keyring import split_commitments
from tests.fixtures.kms.dealt_again import dealt_again, in_force, mean
from tests.fixtures.kms.key_source import Blame
from tests.fixtures.kms.memory_chain import OTHER_VOTER, VOTER, Case
from tests.fixtures.kms.release_network import World


def pass_blocks(world: World, count: int = 1) -> None:
    """Final blocks."""
    world.chain.facts = replace(world.chain.facts, number=world.chain.facts.number + count)


class MovedClock:
    """A clock that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def opened(world: World, case: Case, **changes: object) -> bytes:
    """What an enclave gets of the shards that listen, which ask nobody to wait."""
    job = replace(world.job(case), **changes)  # type: ignore[arg-type]
    return unpad(ShardKeySource(world.quoter, pause=lambda _: None, on_failure=Blame()).open(job, world.secret))  # type: ignore[return-value]


def partial(world: World, shard: Shard, case: Case) -> Partial:
    """The shard's, of its first place."""
    answer = world.release(shard, case)
    info = partial_info(answer.record.shard, case.id, answer.record.ticket_hash, 1)
    return decode(Partial, hpke.open_from_transport(world.secret, info, answer.sealed_partial))


def test_refresh_needs_no_restart_and_interrupts_no_request(fresh: World) -> None:
    """All shards and the enclave's side follow the chain. Control: an old book's keys prove no new share."""
    case, shards = fresh.disputed(), [(n, fresh.shard(n)) for n in (1, 2, 3)]
    new = dealt_again(fresh, 1, 2, 3)
    with fresh.listening(*shards):
        assert opened(fresh, case) == case.payload
        mean(fresh, new)
        assert opened(fresh, case, epoch=with_verification_keys(fresh.document.record, new)) == case.payload
        with pytest.raises(NoKey, match="ShardLied"):
            opened(fresh, case)
    verify_log(shards[0][1].log(0).entries, START, key_domain(fresh.contracts))


def test_running_shard_releases_with_the_share_in_force(fresh: World) -> None:
    case, shard = fresh.disputed(), fresh.shard(1)
    base, old = decode_point(decode(Envelope, case.envelope).enc), fresh.document.record
    new = dealt_again(fresh, 1)
    for record, other in ((old, with_verification_keys(old, new)), (with_verification_keys(old, new), old)):
        mean(fresh, in_force(fresh) if record is old else new)
        given = partial(fresh, shard, case)
        mine, theirs = (decode_point(each.shards[0].verification_key) for each in (record, other))
        assert verify_partial(given, 1, mine, base, case.id)
        with pytest.raises(ShardLied):
            verify_partial(given, 1, theirs, base, case.id)


def test_shard_without_the_share_in_force_asks_to_retry_and_then_answers(fresh: World) -> None:
    case, shard = fresh.disputed(), fresh.shard(1)
    mean(fresh, dealt_again(fresh, 2, 3))
    with pytest.raises(TryAgain, match="the chain has newer shares at block 100, and the folder lacks this shard's"):
        fresh.release(shard, case)
    assert shard.log(0).entries == ()
    mean(fresh, dealt_again(fresh, 1, suffix="-0c2d"))
    fresh.release(shard, case)


def test_share_of_another_index_is_refused(fresh: World) -> None:
    """Whoever put it into the folder: a shard that answers with it would be called a liar."""
    case, shard = fresh.disputed(), fresh.shard(1)
    again = dealt_again(fresh, 2, suffix="-0e3f")
    (other,) = fresh.settings.shards[1].folder.glob("share-1-0e3f.json")
    moved = keyring.find_share(fresh.settings.shards[1].folder, 1, split_commitments(again))
    keyring.seal_share(fresh.settings.shards[0].folder, 1, moved.index, moved.scalar(), "-0e3f")
    mean(fresh, again)
    with pytest.raises(StaleBackup, match="this shard's is number 2 at block 100, and was 1"):
        fresh.release(shard, case)
    assert other.exists() and shard.log(0).entries == ()


@pytest.mark.parametrize("shown_version", [1, 0, 10**6], ids=["a version more", "the same version", "a version far away"])
def test_shard_misled_by_one_false_answer_serves_again_without_restart(
    fresh: World, monkeypatch: pytest.MonkeyPatch, shown_version: int
) -> None:
    """Its share of a ceremony that the chain never took is in the folder, for it was stored before the shard signed for it."""
    hands = MovedClock(monkeypatch)
    case, shard, true, abandoned = fresh.disputed(), fresh.shard(1), in_force(fresh), dealt_again(fresh, 1)
    fresh.release(shard, case)
    mean(fresh, abandoned, version=shown_version)
    if shown_version:
        fresh.release(shard, case)
    else:
        with pytest.raises(TryAgain, match="was shown before"):
            fresh.release(shard, case)
    mean(fresh, true, version=0)
    if shown_version:
        with pytest.raises(TryAgain, match="accepted if a later block shows it after 120 s"):
            fresh.release(shard, case)
        hands.now += SETTLE_S
        with pytest.raises(TryAgain):
            fresh.release(shard, case)
    pass_blocks(fresh)
    given = partial(fresh, shard, case)
    key, base = decode_point(fresh.document.record.shards[0].verification_key), decode_point(decode(Envelope, case.envelope).enc)
    assert verify_partial(given, 1, key, base, case.id), "the share that the chain means"


def test_false_block_number_does_not_block_the_true_shares(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two false answers: shares that the chain never took, then the true ones at a block that is far away."""
    hands = MovedClock(monkeypatch)
    case, shard, facts, abandoned = fresh.disputed(), fresh.shard(1), fresh.chain.facts, dealt_again(fresh, 1)
    mean(fresh, abandoned, version=1)
    fresh.release(shard, case)
    for number in (10**9, 101):
        fresh.chain.facts = replace(facts, number=number)
        with pytest.raises(TryAgain, match="was shown before"):
            fresh.release(shard, case)
    hands.now += SETTLE_S
    with pytest.raises(TryAgain, match="was shown before"):
        fresh.release(shard, case)
    pass_blocks(fresh)
    fresh.release(shard, case)


def test_a_later_block_or_an_answer_between_two_others_revives_no_share(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes behind one address of which one lags; the shard has both shares in its folder."""
    hands = MovedClock(monkeypatch)
    case, shard, first, second = fresh.disputed(), fresh.shard(1), in_force(fresh), dealt_again(fresh, 1)
    for commitments in (first, second):
        mean(fresh, commitments)
        fresh.release(shard, case)
    for pause in (0.0, SETTLE_S - 1):
        mean(fresh, first, version=0)
        hands.now += pause
        pass_blocks(fresh)
        with pytest.raises(TryAgain, match="has version 0 of the shares, and version 1 was shown before"):
            fresh.release(shard, case)
    mean(fresh, second, version=1)
    fresh.release(shard, case)
    mean(fresh, first, version=0)
    hands.now += SETTLE_S
    pass_blocks(fresh)
    with pytest.raises(TryAgain, match="was shown before"):
        fresh.release(shard, case)


@pytest.mark.parametrize("same", ["version", "shares"])
def test_doubt_of_another_kind_starts_its_wait_anew(fresh: World, monkeypatch: pytest.MonkeyPatch, same: str) -> None:
    """The time for which one set of shares was shown as one version is no other set's, and no other version's."""
    hands = MovedClock(monkeypatch)
    case, shard, first, second = fresh.case(), fresh.shard(1), in_force(fresh), dealt_again(fresh, 1)
    third = dealt_again(fresh, 1, suffix="-0c2d")
    fresh.chain.open(case)
    for commitments in (first, second):
        mean(fresh, commitments)
        fresh.release(shard, case)
    for commitments, version in ((first, 0), (third, 0) if same == "version" else (first, 1)):
        mean(fresh, commitments, version=version)
        pass_blocks(fresh)
        with pytest.raises(TryAgain, match="was shown before"):
            fresh.release(shard, case)
        hands.now += SETTLE_S
    pass_blocks(fresh)
    fresh.release(shard, case)


def test_info_says_which_shares_are_served_and_whether_they_are_in_force(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hands, shard, first = MovedClock(monkeypatch), fresh.shard(1), in_force(fresh)

    def log_lines() -> tuple[object, ...]:
        info = shard.info()
        hands.now += REFRESH_S
        return info.shares, info.version, info.in_force

    assert log_lines() == (keccak256(first), 0, True)
    fresh.chain.away = True
    assert log_lines() == (keccak256(first), 0, None)
    fresh.chain.away = False
    elsewhere = dealt_again(fresh, 2)
    mean(fresh, elsewhere)
    assert log_lines() == (keccak256(first), 0, False), "its share of what the chain means is not there"
    here = dealt_again(fresh, 1, suffix="-0c2d")
    mean(fresh, here)
    assert log_lines() == (keccak256(here), 2, True), "nobody has to ask it for a release before it follows the chain"
    hands.now -= REFRESH_S
    fresh.chain.away = True
    assert log_lines()[2] is True, "who only asks what it serves cannot make it read the chain all the time"


def test_info_gives_the_last_known_chain_state_during_another_read(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hands, shard, seen = MovedClock(monkeypatch), fresh.shard(1), []
    assert shard.info().in_force is True
    hands.now += REFRESH_S
    shares = fresh.chain.shares

    def slow(epoch: int) -> SharesInForce:
        seen.append(shard.info().in_force)
        return shares(epoch)

    monkeypatch.setattr(fresh.chain, "shares", slow)
    assert shard.info().in_force is True and seen == [True]


def test_key_moved_to_other_shards_or_places_is_not_served(fresh: World) -> None:
    case, shard = fresh.disputed(), fresh.shard(1)
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


def test_verification_keys_follow_from_the_commitments(fresh: World) -> None:
    record, new = fresh.document.record, dealt_again(fresh, 1, 2, 3)
    assert with_verification_keys(record, b"".join(fresh.document.commitments)) == record
    keys = with_verification_keys(record, new).shards
    for n, shard in enumerate(fresh.settings.shards, start=1):
        share = keyring.find_share(shard.folder, 1, keyring.split_commitments(new)).scalar()
        assert keys[n - 1] == replace(record.shards[n - 1], verification_key=encode_point(GENERATOR * share))
