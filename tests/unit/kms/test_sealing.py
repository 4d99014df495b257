"""What seals shares: a key in the folder, in a file elsewhere, or with a command that has a key of its own. One behaviour."""

import contextlib
import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.jobs import key_domain
from bytewise.service.clock import SystemClock
from bytewise.storage.engine import open_database
from bytewise.storage.releases import ReleaseRecords
from kms.backup import back_up, restore
from kms.ceremony.erasure import erase_shares
from kms.shard.service import build_participant, build_shard, build_shard_and_participant
from kms.storage import keyring
from kms.storage import sealing as sealing_module
from kms.storage.files import read_key, write_whole
from kms.storage.sealing import StorageKeySource, draw_key, open_sealer, run_key_command, wrap_folder
from tests.fixtures.kms import key_wrapper
from tests.fixtures.kms.ceremonies import COORDINATOR
from tests.fixtures.kms.ceremony_runs import made_key, numbered, run, shares_make_the_key, take_into_force
from tests.fixtures.kms.dealt_again import dealt_again, mean
from tests.fixtures.kms.dkg_fixture import OneEpoch, coordinator_of
from tests.fixtures.kms.governed_policy import settings, start
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.kms.release_network import World

WRAPPER = Path(key_wrapper.__file__)
ONE, OTHER = (digests.labelled(Label.SHARE_AT_REST, 1, index) for index in (1, 2))


def wrapped(folder: Path, wrap: str = "", unwrap: str = "", limit_s: float = 60.0) -> StorageKeySource:
    """A command with a key in this folder, which goes wrong as named."""
    service = folder / "service.key"
    if not service.exists():
        service.write_bytes(Fernet.generate_key())
    command = (sys.executable, str(WRAPPER), str(service))
    return StorageKeySource(None, (*command, "wrap", *wrap.split()), (*command, "unwrap", *unwrap.split()), limit_s)


KINDS: dict[str, Callable[[Path], StorageKeySource]] = {
    "a key in the folder": lambda folder: StorageKeySource(),
    "a key elsewhere": lambda folder: StorageKeySource(folder / "elsewhere.key"),
    "a command": wrapped,
}


@pytest.fixture(params=list(KINDS.values()), ids=list(KINDS))
def sealing(request: pytest.FixtureRequest, tmp_path: Path) -> StorageKeySource:
    made: StorageKeySource = request.param(tmp_path)
    return made


def test_sealed_value_opens_for_its_purpose_only(sealing: StorageKeySource, tmp_path: Path) -> None:
    for name in ("shard", "stranger"):
        (tmp_path / name).mkdir()
    draw_key(tmp_path / "shard", sealing, os.urandom)
    sealed = open_sealer(tmp_path / "shard", sealing).seal(b"a secret", ONE)
    again = open_sealer(tmp_path / "shard", sealing)
    assert b"a secret" not in sealed and sealed != again.seal(b"a secret", ONE)
    assert again.open(sealed, ONE).reveal() == b"a secret"
    altered = (b"", sealed[:-1], sealed + b"\0", sealed[:-1] + bytes([sealed[-1] ^ 1]))
    for context, value in ((OTHER, sealed), *((ONE, each) for each in altered)):
        with pytest.raises(ConfigurationError, match="does not open"):
            again.open(value, context)
    stranger = replace(sealing, key_file=tmp_path / "stranger.key") if sealing.key_file else sealing
    draw_key(tmp_path / "stranger", stranger, os.urandom)
    with pytest.raises(ConfigurationError, match="does not open"):
        open_sealer(tmp_path / "stranger", stranger).open(sealed, ONE)


def test_shares_are_made_renewed_erased_and_restored_under_each_sealing(sealing: StorageKeySource, tmp_path: Path) -> None:
    shards, chain, made, _ = key = made_key(tmp_path, sealing=sealing)
    again = run(coordinator_of(tmp_path, key.renewal(), shards))
    document, folder, first = take_into_force(chain, again), shards[0].folder, shards[0]
    records = ReleaseRecords(open_database(f"sqlite:///{folder / 'kms.sqlite'}"), key_domain(CONTRACTS))
    back_up(folder, tmp_path / "file", b"k" * 32, records, SystemClock(), os.urandom)
    assert erase_shares(folder, document, CONTRACTS, first.ceremonies(), chain, SystemClock(), sealing).statement.erased == 1
    assert keyring.open_share(folder, document, first.sealer()).index == 1
    assert (folder / "storage.key").exists() == (sealing == StorageKeySource())
    for path in folder.iterdir():
        if path.name != "kms.sqlite":
            path.unlink()
    restored = restore(tmp_path / "file", b"k" * 32, folder, records, chain, sealing)
    assert restored.dropped == (f"share-3-{made.id.hex()[:16]}.json",)
    shares_make_the_key(again, numbered(shards))


def test_key_in_the_folder_is_moved_out_and_shares_stay_unchanged(fresh: World, tmp_path: Path) -> None:
    folder, sealing = fresh.settings.shards[0].folder, wrapped(tmp_path)
    plain, share = (folder / "storage.key").read_bytes(), (folder / "share-1.json").read_bytes()
    with pytest.raises(ConfigurationError, match="bytewise shard wrap"):
        open_sealer(folder, sealing)
    wrap_folder(folder, sealing)
    assert not (folder / "storage.key").exists() and (folder / "share-1.json").read_bytes() == share
    assert keyring.open_share(folder, fresh.document, open_sealer(folder, sealing)).index == 1
    raw = bytes.fromhex(plain.decode())
    for path in folder.iterdir():
        assert raw not in path.read_bytes() and plain not in path.read_bytes(), path.name
    with pytest.raises(ConfigurationError, match=r"storage\.key"):
        keyring.open_share(folder, fresh.document)
    # A crash before the file was wiped, and a key of another folder.
    write_whole(folder / "storage.key", plain)
    with pytest.raises(ConfigurationError, match="bytewise shard wrap"):
        open_sealer(folder, sealing)
    wrap_folder(folder, sealing)
    assert keyring.open_share(folder, fresh.document, open_sealer(folder, sealing)).index == 1
    shutil.copy(fresh.settings.shards[1].folder / "storage.key", folder)
    with pytest.raises(ConfigurationError, match="another key"):
        wrap_folder(folder, sealing)
    assert (folder / "storage.key").exists()


@pytest.mark.parametrize("moment", ["open", "unlink", "done"])
def test_wrap_killed_while_wiping_the_key_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Before the file is overwritten, with zeros in it, and when it is gone."""
    (tmp_path / "shard").mkdir()
    folder, sealing = tmp_path / "shard", wrapped(tmp_path)
    draw_key(folder, StorageKeySource(), os.urandom)
    sealed = open_sealer(folder).seal(b"a secret", ONE)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if moment == "open":
            patch.setattr(sealing_module, "wipe", die)
        if moment == "unlink":
            unlink = Path.unlink
            patch.setattr(Path, "unlink", lambda path, **more: (die if path.name == "storage.key" else unlink)(path, **more))
        with contextlib.nullcontext() if moment == "done" else pytest.raises(KeyboardInterrupt):
            wrap_folder(folder, sealing)
    wrap_folder(folder, sealing)
    assert [path.name for path in folder.iterdir()] == ["storage.wrapped"]
    assert open_sealer(folder, sealing).open(sealed, ONE).reveal() == b"a secret"


def test_zero_key_file_is_not_wiped_where_no_key_is_wrapped(tmp_path: Path) -> None:
    (tmp_path / "storage.key").write_bytes(bytes(64))
    (tmp_path / "storage.key").chmod(0o600)
    with pytest.raises(ConfigurationError, match="not 32 bytes of hex"):
        wrap_folder(tmp_path, wrapped(tmp_path))
    assert (tmp_path / "storage.key").exists()


def test_shard_starts_and_joins_ceremonies_with_its_configured_command(fresh: World, tmp_path: Path) -> None:
    start(fresh, fresh.policy)
    sealing, folder, renewed, case = wrapped(tmp_path), fresh.settings.shards[0].folder, dealt_again(fresh, 1), fresh.case()
    wrap_folder(folder, sealing)
    plain = settings(fresh, coordinator=COORDINATOR.address)
    chosen = replace(plain, wrap_command=sealing.wrap, unwrap_command=sealing.unwrap)
    shard = build_shard(chosen, CONTRACTS, fresh.chain)
    mean(fresh, renewed)
    fresh.chain.open(case)
    assert fresh.release(shard, case).record.index == 0, "with the new share, which it finds without a restart"
    build_participant(chosen, CONTRACTS, OneEpoch())
    for build in (lambda of: build_shard(of, CONTRACTS, fresh.chain), lambda of: build_participant(of, CONTRACTS, OneEpoch())):
        with pytest.raises(ConfigurationError, match=r"storage\.key"):
            build(plain)
        with pytest.raises(TryAgain, match="unwrap_command"):
            build(replace(chosen, unwrap_command=(*sealing.unwrap, "failing")))


def test_start_with_an_epoch_and_a_coordinator_unwraps_the_key_once(fresh: World, tmp_path: Path) -> None:
    start(fresh, fresh.policy)
    sealing, runs = wrapped(tmp_path), tmp_path / "runs"
    wrap_folder(fresh.settings.shards[0].folder, sealing)
    counted = ("sh", "-c", f'echo run >> {runs}; exec "$@"', "sh", *sealing.unwrap)
    chosen = settings(fresh, coordinator=COORDINATOR.address)
    chosen = replace(chosen, wrap_command=sealing.wrap, unwrap_command=counted)
    chain = OneEpoch()
    shard, participant = build_shard_and_participant(chosen, CONTRACTS, fresh.chain, chain)
    assert shard is not None and participant is not None and runs.read_text() == "run\n"
    shard, participant = build_shard_and_participant(replace(chosen, coordinator=""), CONTRACTS, fresh.chain, chain)
    assert shard is not None and participant is None


WRONG_WRAPS = {
    "failing": (TryAgain, r"wrap_command \(.*\) is unavailable: it ended with exit code 3; run it by hand"),
    "silent": (ConfigurationError, "it must print its result on stdout"),
    "long": (ConfigurationError, "it printed 20000 bytes"),
    **{f"open {form}": (ConfigurationError, "it does not wrap it") for form in ("bytes", "hex", "HEX", "base64")},
}
WRONG_UNWRAPS = {
    "failing": (TryAgain, r"unwrap_command \(.*\) is unavailable: it ended with exit code 3; run it by hand"),
    "silent": (ConfigurationError, "it must print its result on stdout"),
    "short": (ConfigurationError, "31 bytes and not the 32"),
    "other": (ConfigurationError, "another key than was wrapped"),
}


@pytest.mark.parametrize("how", WRONG_WRAPS)
def test_faulty_wrap_command_is_named_and_nothing_is_stored(tmp_path: Path, how: str) -> None:
    kind, what = WRONG_WRAPS[how]
    with pytest.raises(kind, match=what) as caught:
        draw_key(tmp_path, wrapped(tmp_path, wrap=how), lambda count: b"\x5e" * count)
    assert "5e5e" not in str(caught.value) and "service.key" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["service.key"]


@pytest.mark.parametrize("how", WRONG_UNWRAPS)
def test_faulty_unwrap_command_is_named_and_nothing_depends_on_it(tmp_path: Path, how: str) -> None:
    kind, what = WRONG_UNWRAPS[how]
    with pytest.raises(kind, match=what):
        draw_key(tmp_path, wrapped(tmp_path, unwrap=how), os.urandom)
    assert [path.name for path in tmp_path.iterdir()] == ["service.key"], "a key that nobody gives back is not stored"
    draw_key(tmp_path, wrapped(tmp_path), os.urandom)
    with pytest.raises(kind, match=what):
        open_sealer(tmp_path, wrapped(tmp_path, unwrap=how))


def test_late_or_missing_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(TryAgain, match=r"it had not ended after 0\.2 s and was killed.*wrap_limit_s"):
        draw_key(tmp_path, wrapped(tmp_path, wrap="slow", limit_s=0.2), os.urandom)
    with pytest.raises(ConfigurationError, match="it cannot be started: No such file"):
        draw_key(tmp_path, StorageKeySource(None, (str(tmp_path / "none"),), ("true",)), os.urandom)
    with pytest.raises(ConfigurationError, match="never wrapped"):
        open_sealer(tmp_path, wrapped(tmp_path))


def test_children_of_a_late_command_end_with_it(tmp_path: Path) -> None:
    noted = tmp_path / "child"
    with pytest.raises(TryAgain):
        run_key_command("wrap_command", ("sh", "-c", f"sleep 600 & echo $! > {noted}; wait"), b"", 1.0)
    stat = Path(f"/proc/{int(noted.read_text())}/stat")
    for _ in itertools.takewhile(lambda _: stat.exists() and stat.read_text().split()[2] != "Z", range(1000)):
        time.sleep(0.01)
    assert not stat.exists() or stat.read_text().split()[2] == "Z"


@pytest.mark.parametrize("arguments", [(None, ("a",)), (None, (), ("a",)), (Path("k"), ("a",), ("b",)), (None, (), (), 0.0)])
def test_contradictory_sealing_settings_are_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(ConfigurationError):
        StorageKeySource(*arguments)  # type: ignore[arg-type]


def test_external_key_file_is_for_its_owner_only_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "own.key"
    draw_key(tmp_path, StorageKeySource(path), os.urandom)
    assert len(read_key(path)) == 32 and not (tmp_path / "storage.key").exists()
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="only the owner"):
        open_sealer(tmp_path, StorageKeySource(path))
    for content, mode, problem in (("no key", 0o600, "bytes of hex"), ("ab" * 32, 0o644, "only the owner")):
        path.write_text(content)
        path.chmod(mode)
        with pytest.raises(ConfigurationError, match=problem):
            draw_key(tmp_path, StorageKeySource(path), os.urandom)
        assert path.read_text() == content


def test_unwrapped_or_malformed_wrapped_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="wrap_command: missing"):
        wrap_folder(tmp_path, StorageKeySource())
    (tmp_path / sealing_module.WRAPPED_KEY).write_bytes(b"{}")
    with pytest.raises(ConfigurationError, match=r"storage\.wrapped: .*"):
        open_sealer(tmp_path, wrapped(tmp_path))
