"""The paper's mode: shards give shares, enclaves rebuild the key, and nobody does either who did not allow it."""

import contextlib
import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.crypto import hpke, reconstruction
from bytewise.crypto.curve import encode_scalar
from bytewise.protocol.errors.actors import BudgetSpent, ConfigurationError, NoKey, TicketRefused
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.epochs import Decision
from bytewise.protocol.keys.release_log import START, verify_log
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.suites import SUITE_REBUILT, kind_of, suite_of
from bytewise.protocol.units import U64, Digest
from tests.fixtures.kms.key_source import Blame
from tests.fixtures.kms.rebuilt_epoch import DOMAIN, EPOCH, answer, giving, source
from tests.fixtures.kms.release_network import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """2 of 3 shards of an epoch whose key is rebuilt."""
    return World(tmp_path_factory.mktemp("rebuilt"), epoch=EPOCH)


# --- what it does ---


@pytest.mark.parametrize("up", list(itertools.combinations((1, 2, 3), 2)))
def test_any_two_shares_rebuild_the_key_and_each_record_says_so(world: World, up: tuple[int, ...]) -> None:
    case = world.disputed()
    assert (case.receipt.key_epoch, suite_of(EPOCH), kind_of(EPOCH)) == (EPOCH, SUITE_REBUILT, "enclaves rebuild its key")
    with world.listening(*[giving(world, index) for index in up]):
        assert unpad(source(world).open(world.job(case), world.secret)) == case.payload
    for index in up:
        entries = giving(world, index)[1].log(0).entries
        assert entries[-1].record.receipt_id == case.id
        assert {each.record.decision for each in entries} == {Decision.SHARE_RELEASED}
        assert verify_log(entries, START, DOMAIN).next_index == len(entries)


@pytest.mark.parametrize("up", [(), (2,)])
def test_fewer_than_t_shares_give_no_key(world: World, up: tuple[int, ...]) -> None:
    with world.listening(*[giving(world, index) for index in up]), pytest.raises(NoKey):
        source(world).open(world.job(world.disputed()), world.secret)


def test_rebuilt_key_and_shares_are_overwritten_on_success_and_failure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    buffers: list[bytearray] = []

    def seen(make: Callable[..., bytearray]) -> Callable[..., bytearray]:
        def call(*given: object) -> bytearray:
            buffers.append(make(*given))
            assert any(buffers[-1])
            return buffers[-1]

        return call

    for name in ("open_key_share", "interpolate"):
        monkeypatch.setattr(reconstruction, name, seen(vars(reconstruction)[name]))
    for up, fails, made in (((1, 2), contextlib.nullcontext(), 3), ((1,), pytest.raises(NoKey), 1)):
        with world.listening(*(giving(world, index) for index in up)), fails:
            source(world).open(world.job(world.disputed()), world.secret)
        assert [bytes(each) for each in buffers] == [bytes(32)] * made
        buffers.clear()


# --- who must have allowed it ---


def test_enclave_without_opt_in_asks_no_shard_and_reports_no_key(world: World) -> None:
    """Control: one with it opens the envelope, and asks no shard more than it needs."""
    case, shards, blame = world.disputed(), [giving(world, index) for index in (1, 2, 3)], Blame()
    before = [len(shard.log(0).entries) for _, shard in shards]
    with world.listening(*shards):
        with pytest.raises(NoKey, match="this enclave rebuilds no keys"):
            source(world, blame, rebuilds=False).open(world.job(case), world.secret)
        assert ([len(shard.log(0).entries) for _, shard in shards], blame.failures) == (before, [])
        assert unpad(source(world).open(world.job(case), world.secret)) == case.payload
    assert len(shards[2][1].log(0).entries) == before[2]


@pytest.mark.parametrize("named", ["ticket", "epoch record"])
def test_job_with_several_epochs_is_refused_before_any_shard_is_asked(world: World, named: str) -> None:
    # The receipt's epoch says whether the enclave may rebuild a key; the ticket's says what shards give.
    case, blame = world.disputed(), Blame()
    job = world.job(case)
    ticket, record = replace(job.ticket, key_epoch=U64(1)), replace(job.epoch, epoch=U64(EPOCH + 1))
    other = {"ticket": replace(job, ticket=ticket), "epoch record": replace(job, epoch=record)}[named]
    with pytest.raises(TicketRefused, match=f"another key epoch in its {named}"):
        source(world, blame).open(other, world.secret)
    assert blame.failures == []


def test_shard_without_opt_in_does_not_start_with_a_rebuilt_key_epoch(world: World) -> None:
    with pytest.raises(ConfigurationError, match="release_shares is not set"):
        world.shard(1)


def test_opt_in_changes_nothing_in_an_epoch_of_partials(fresh: World) -> None:
    """And what the shard says there holds its share in no form, while in the other kind of epoch it is the share."""
    case = fresh.disputed()
    signed, sealed, (of_partial, of_share) = answer(fresh, case)
    assert signed.record.decision == Decision.RELEASED
    with pytest.raises(MalformedValue, match="does not open"):
        hpke.open_from_transport(fresh.secret, of_share, sealed)
    share = encode_scalar(giving(fresh, 1)[1]._rotation.share().scalar())
    given = hpke.open_from_transport(fresh.secret, of_partial, sealed)
    assert share not in given and share.hex().encode() not in given
    job = fresh.job(case)
    with fresh.listening(giving(fresh, 2), giving(fresh, 3)):
        assert unpad(source(fresh).open(job, fresh.secret)) == case.payload
        assert unpad(source(fresh, rebuilds=False).open(job, fresh.secret)) == case.payload


def test_epoch_of_shares_releases_no_partials(world: World) -> None:
    signed, sealed, (of_partial, of_share) = answer(world, world.disputed())
    assert signed.record.decision == Decision.SHARE_RELEASED
    with pytest.raises(MalformedValue, match="does not open"):
        hpke.open_from_transport(world.secret, of_partial, sealed)
    assert hpke.open_from_transport(world.secret, of_share, sealed) == encode_scalar(
        giving(world, 1)[1]._rotation.share().scalar()
    )


def test_shares_are_limited_like_partials(tmp_path: Path) -> None:
    world = World(tmp_path, epoch=EPOCH)
    case, shard = world.disputed(seat_mask=0b1), giving(world, 1)[1]
    tickets = [world.ticket(case, instance=Digest(os.urandom(32))) for _ in range(3)]
    for each in tickets[:2]:
        world.release(shard, case, ticket=each)
    with pytest.raises(BudgetSpent):
        world.release(shard, case, ticket=tickets[2])
    assert [each.record.decision for each in shard.log(0).entries] == [Decision.SHARE_RELEASED] * 2 + [Decision.REFUSED]
