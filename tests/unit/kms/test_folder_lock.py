"""No shard says that it has no old share while a process still has one: who erases sees who serves, and what that one holds."""

import contextlib
import fcntl
import functools
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.digests import keccak256
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.evidence.policy_updates import first_policy_state
from bytewise.protocol.keys.ceremony import SignedErasure
from bytewise.protocol.keys.epochs import EpochDocument, EpochOnChain, EpochState
from bytewise.protocol.units import ZERO_DIGEST, Blob
from bytewise.service.clock import SystemClock
from bytewise.service.settings import child_environment
from kms.backup import back_up, restore
from kms.ceremony.erasure import erase_shares
from kms.shard.release import Shard
from kms.shard.share_rotation import shares_in_force, with_verification_keys
from kms.storage import files, keyring
from kms.storage.keyring import split_commitments
from tests.fixtures.kms.dealt_again import dealt_again, mean
from tests.fixtures.kms.dkg_fixture import OneEpoch
from tests.fixtures.kms.process_settings import config, wait_for_answers
from tests.fixtures.kms.release_network import World

ROOT = Path(__file__).resolve().parents[3]


def folder_of(world: World) -> Path:
    return world.settings.shards[0].folder


def chain_of(world: World, commitments: Blob | None = None, state: EpochState = EpochState.ACTIVE) -> OneEpoch:
    """What the chain says to who erases: these shares, or those that were dealt."""
    record, chain = world.document.record, OneEpoch()
    first = Blob(b"".join(world.document.commitments))
    holders = tuple(each.address for each in record.shards)
    version = int(commitments is not None)
    chain.epoch = EpochOnChain(state, record.public_key, commitments or first, holders, record.threshold, version, ZERO_DIGEST)
    return chain


def erased(world: World, chain: OneEpoch, document: EpochDocument | None = None) -> SignedErasure:
    """As `bytewise shard erase` at shard 1."""
    return erase_shares(folder_of(world), document or world.document, world.contracts, world.ceremonies(1), chain, SystemClock())


def renewed(world: World, new: Blob) -> EpochDocument:
    """The epoch document with these shares."""
    record = with_verification_keys(world.document.record, new)
    return replace(world.document, record=record, commitments=split_commitments(new))


def started(world: World, held: files.ShareReporter) -> Shard:
    """Shard 1 as `serve` starts it."""
    folder = folder_of(world)
    find = functools.partial(keyring.find_share, folder, world.document.record.epoch)
    return Shard(
        world.document, keyring.open_share(folder, world.document), find, keyring.open_account(folder), world.contracts,
        first_policy_state(world.policy), world.chain, world.records(1), os.urandom, world.clock, 9, report_share=held,
    )  # fmt: skip


def test_ended_epoch_is_not_erased_while_a_process_serves(fresh: World) -> None:
    chain = chain_of(fresh, state=EpochState.RETIRED)
    with files.lock_for_serving(folder_of(fresh)) as held:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match=r"a process serves from it .*: stop it; nothing was erased"):
                erased(fresh, chain)
            started(fresh, held)
        assert keyring.open_share(folder_of(fresh), fresh.document).index == 1
    assert erased(fresh, chain).statement.kept == ZERO_DIGEST


def test_old_shares_are_erased_only_after_the_shard_took_the_new_one(fresh: World) -> None:
    case, new = fresh.disputed(), dealt_again(fresh, 1)
    document = renewed(fresh, new)
    with files.lock_for_serving(folder_of(fresh)) as held:
        shard = started(fresh, held)
        mean(fresh, new)
        with pytest.raises(ConfigurationError, match="or start it again on the new epoch file"):
            erased(fresh, chain_of(fresh, new), document)
        old = keyring.open_share(folder_of(fresh), fresh.document).scalar()
        assert shard._rotation.share().scalar() == old, "it is there, and so is the file (control)"
        fresh.release(shard, case)
        said = erased(fresh, chain_of(fresh, new), document).statement
        assert (said.erased, said.kept) == (1, keccak256(new)) and shard._rotation.share().scalar() != old
        fresh.release(shard, case)


def test_one_process_serves_a_folder_and_none_starts_during_erasure(tmp_path: Path) -> None:
    for one in (files.lock_for_serving, files.lock_for_change):
        with (
            one(tmp_path),
            pytest.raises(ConfigurationError, match="another process serves"),
            files.lock_for_serving(tmp_path),
        ):
            pass
    with files.lock_for_serving(tmp_path), files.lock_for_change(tmp_path) as said:
        assert said == ZERO_DIGEST
    with contextlib.ExitStack() as serving:
        serving.enter_context(files.lock_for_serving(tmp_path))(b"points")
        with files.lock_for_change(tmp_path) as said:
            assert said == keccak256(b"points")
            serving.close()  # whoever begins to serve now could still read what is being erased
            with pytest.raises(ConfigurationError, match="or erases, restores"), files.lock_for_serving(tmp_path):
                raise AssertionError("two")
    with files.lock_for_serving(tmp_path), files.lock_for_change(tmp_path) as said:
        assert said == ZERO_DIGEST, "what the process before said is no word of this one"
    (tmp_path / files.LOCK).write_text("no digest")
    with files.lock_for_change(tmp_path) as said:
        assert said is None
        with pytest.raises(ConfigurationError, match="another process serves"), files.lock_for_serving(tmp_path):
            pass
    with pytest.raises(ConfigurationError, match="No such file"), files.lock_for_serving(tmp_path / "nowhere"):
        pass


def test_one_process_erases_or_restores_at_a_time_also_beside_a_server(tmp_path: Path) -> None:
    with files.lock_for_serving(tmp_path), files.lock_for_change(tmp_path):
        with pytest.raises(ConfigurationError, match="another process erases, restores or wraps in it: run this again"):
            files.lock_for_change(tmp_path).__enter__()
    with files.lock_for_change(tmp_path) as said:
        assert said is None


def test_restore_into_a_folder_in_use_is_refused(fresh: World) -> None:
    folder, file, key = folder_of(fresh), fresh.folder / "backup", bytes(32)
    back_up(folder, file, key, fresh.records(1), SystemClock(), os.urandom)
    for one, match in (
        (files.lock_for_serving, "a process serves from it: stop it first"),
        (files.lock_for_change, "another process erases"),
    ):
        with one(folder), pytest.raises(ConfigurationError, match=match):
            restore(file, key, folder, fresh.records(1), chain_of(fresh))
    assert restore(file, key, folder, fresh.records(1), chain_of(fresh)).dropped == ()


def test_lock_in_use_is_named_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks, and a file that another user's command left."""
    monkeypatch.setattr(fcntl, "flock", _no_locks)
    for one in (files.lock_for_serving, files.lock_for_change):
        with pytest.raises(ConfigurationError, match=r"\.lock.*No locks available: .* local disk"), one(tmp_path):
            pass
    monkeypatch.setattr(os, "open", _not_ours)
    for one in (files.lock_for_serving, files.lock_for_change):
        with pytest.raises(ConfigurationError, match=r"\.lock.*Permission denied: .* change its owner"), one(tmp_path):
            pass


def _no_locks(_file: int, _how: int) -> None:
    raise OSError(37, "No locks available")


def _not_ours(_path: object, *_how: int) -> int:
    raise PermissionError(13, "Permission denied")


def test_old_share_is_not_reported_erased_while_a_request_uses_it(fresh: World) -> None:
    new = dealt_again(fresh, 1)
    old = fresh.chain.facts
    document = renewed(fresh, new)
    with files.lock_for_serving(folder_of(fresh)) as held:
        renewal = started(fresh, held)._rotation
        mean(fresh, new)
        with renewal.borrow(shares_in_force(old)):
            renewal.follow_chain(shares_in_force(fresh.chain.facts))
            with renewal.borrow(shares_in_force(fresh.chain.facts)):
                pass
            with pytest.raises(ConfigurationError, match="may have a share in memory which is to be erased"):
                erased(fresh, chain_of(fresh, new), document)
        assert erased(fresh, chain_of(fresh, new), document).statement.erased == 1


def test_refused_statement_stops_no_release(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with files.lock_for_serving(folder_of(fresh)) as held:
        monkeypatch.setattr(os, "pwrite", _full)
        started(fresh, held)
        with files.lock_for_change(folder_of(fresh)) as said:
            assert said == ZERO_DIGEST
    # What the process before this one said must not stand for it.
    with pytest.raises(ConfigurationError, match=r"serving\.lock: No space left"), files.lock_for_serving(folder_of(fresh)):
        raise AssertionError("serves")


def _full(_file: int, _data: bytes, _at: int) -> int:
    raise OSError(28, "No space left on device")


@pytest.mark.e2e
def test_serving_process_locks_its_folder_until_it_ends_in_any_way(fresh: World) -> None:
    (fresh.folder / "dispute.json").write_bytes(encode(fresh.chain.disputes[fresh.chain.open(fresh.case())]))
    (fresh.folder / "policy.json").write_bytes(encode(fresh.policy))
    module = [sys.executable, "-m", "tests.fixtures.kms.shard_process", str(config(fresh, 1))]
    process = subprocess.Popen(module, cwd=ROOT, env=child_environment(), stderr=subprocess.DEVNULL)
    try:
        wait_for_answers(fresh, {1: process})
        assert erased(fresh, chain_of(fresh)).statement.erased == 0, "it has the share that the chain means, and no other"
        with pytest.raises(ConfigurationError, match="a process serves"):
            erased(fresh, chain_of(fresh, state=EpochState.RETIRED))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    assert erased(fresh, chain_of(fresh, state=EpochState.RETIRED)).statement.erased == 1
