"""A shard's process, and the commands over its folder, leave no core and are closed to their user. Real processes throughout."""

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from cryptography.fernet import Fernet

from bytewise.protocol.encoding import encode
from bytewise.service.settings import child_environment
from chain.client.address_book import write_network
from kms.storage import keyring
from kms.storage.files import read_key
from tests.fixtures.kms import key_wrapper
from tests.fixtures.kms.process_settings import config, wait_for_answers
from tests.fixtures.kms.release_network import World
from tests.fixtures.memory_search import scalar_forms, sees_closed, verify_closed
from tests.fixtures.verifier.verifier_fixture import NETWORK

ROOT = Path(__file__).resolve().parents[3]
WRAPPER = Path(key_wrapper.__file__)
UNFENCED = (
    "import runpy, sys\nfrom kms.shard import service\nservice.harden_process = lambda: None\nsys.argv = sys.argv[1:]\n"
    "runpy.run_module('tests.fixtures.kms.shard_process', run_name='__main__')"
)
"""The shard of `shard_process` as it was before ADR-041."""


def with_cores() -> None:
    """In the child: as much of a core as this user may have."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if os.geteuid() == 0:
        hard = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def keeps_cores() -> bool:
    """Whether a process here that dies leaves a file `core` where it ran, if its limit allows one."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    return pattern == "core" and may_raise()


def secrets_of(world: World) -> dict[str, dict[str, bytes]]:
    """What shard 1 has, in every form of a number."""
    folder = world.settings.shards[0].folder
    values = {
        "share": keyring.open_share(folder, world.document).scalar(),
        "storage key": int.from_bytes(read_key(folder / "storage.key")),
        "signing key": int.from_bytes(keyring.open_account(folder).secret),
    }
    return {name: scalar_forms(value) for name, value in values.items()}


def aborted(world: World, *program: str) -> tuple[tuple[int, int], list[Path]]:
    """Starts shard 1 and lets it die as of a fault in a C library: the limit of its core, and what lies where it ran."""
    (world.folder / "dispute.json").write_bytes(encode(world.chain.disputes[world.chain.open(world.case())]))
    (world.folder / "policy.json").write_bytes(encode(world.policy))
    place = world.folder / "place"
    place.mkdir()
    environment = {**child_environment(), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, *program, str(config(world, 1))], cwd=place, env=environment, stderr=subprocess.DEVNULL,
        preexec_fn=with_cores,
    ) as shard:  # fmt: skip
        try:
            wait_for_answers(world, {1: shard}, timeout_s=90)
            limit = psutil.Process(shard.pid).rlimit(resource.RLIMIT_CORE)
            if limit == (0, 0) and not sees_closed():
                verify_closed(shard.pid)
            shard.send_signal(signal.SIGABRT)
            assert shard.wait(60) == -signal.SIGABRT
        finally:
            shard.kill()
    return limit, sorted(place.iterdir())


@pytest.mark.e2e
def test_crashed_shard_leaves_no_core_dump(fresh: World) -> None:
    assert aborted(fresh, "-m", "tests.fixtures.kms.shard_process") == ((0, 0), [])


@pytest.mark.e2e
def test_control_without_the_fence_a_core_has_share_and_signing_keys(fresh: World) -> None:
    limit, cores = aborted(fresh, "-c", UNFENCED, "shard")
    found = set()
    for path in cores:
        data = path.read_bytes()
        path.unlink()
        found |= {name for name, forms in secrets_of(fresh).items() if any(form in data for form in forms.values())}
    # Where the machine keeps no cores it is the limit that tells the two apart.
    assert found == ({"share", "storage key", "signing key"} if keeps_cores() else set()) and (limit != (0, 0) or not may_raise())


def may_raise() -> bool:
    """Whether a process of this user may have a core at all."""
    return os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_CORE)[1] != 0


WRAPPING = "ulimit -Hc >> {said}; exec {python} {wrapper} {key} {verb}"
"""A command of the operator's that also notes how large a core its parent allows it; what it wraps with is the wrapper's."""


def wrapping(folder: Path) -> dict[str, list[str]]:
    """Commands that note in `said`."""
    (folder / "service.key").write_bytes(Fernet.generate_key())
    given = {"said": folder / "said", "python": sys.executable, "wrapper": WRAPPER, "key": folder / "service.key"}
    return {verb: ["sh", "-c", WRAPPING.format(verb=verb, **given)] for verb in ("wrap", "unwrap")}


@pytest.mark.e2e
def test_commands_harden_their_process_before_reading_a_shard_folder(fresh: World, tmp_path: Path) -> None:
    """Told by the limit that they hand on to what they start: `python -m kms` and `bytewise key`."""
    commands, settings = wrapping(tmp_path), config(fresh, 1)
    text = settings.read_text() + "".join(f"{verb}_command = {json.dumps(words)}\n" for verb, words in commands.items())
    settings.write_text(text)
    write_network(tmp_path / "network.json", NETWORK)
    place = ["--url", "https://127.0.0.1:7001", "--channel", "127.0.0.1:7002", "--coordinator", "0x" + "5c" * 20]
    more = ["--network", str(tmp_path / "network.json"), "--simulated"]
    more += [word for verb, words in commands.items() for word in (f"--{verb}", shlex.join(words))]
    for program in (
        ["-m", "kms", "wrap", "--config", str(settings)],
        ["-m", "cli", "shard", "init", str(tmp_path / "new"), *place, *more],
    ):
        done = subprocess.run(
            [sys.executable, *program], cwd=ROOT, env=child_environment(), preexec_fn=with_cores, timeout=120, check=False
        )
        assert done.returncode == 0
        assert set((tmp_path / "said").read_text().split()) == {"0"}
        (tmp_path / "said").unlink()
    subprocess.run([*commands["wrap"]], input=b"x", preexec_fn=with_cores, timeout=60, check=True, capture_output=True)
    assert may_raise() == ((tmp_path / "said").read_text().split() != ["0"]), "without ours there is another limit (control)"


@pytest.mark.e2e
def test_log_says_process_is_not_hardened_on_systems_other_than_linux() -> None:
    code = (
        "from bytewise.tee import confinement\n"
        "confinement.c_library = lambda: object()\nconfinement.harden_process()\nprint('on')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "on\n" and '"process.hardening_failed"' in done.stderr and "not Linux" in done.stderr
