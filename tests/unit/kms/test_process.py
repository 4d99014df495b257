"""Shards as processes of their own: serving HTTPS, stopping cleanly."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.keys.epochs import ShardInfo
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.suites import hybrid_epoch, is_rebuilt, rebuilt_epoch
from bytewise.service.settings import child_environment
from enclave.release_client import ShardKeySource
from kms.shard_client import ShardClient
from tests.unit.kms.world import World, wait_until

ROOT = Path(__file__).resolve().parents[3]


GOVERNED = 'policy_governors = ["0x' + "01" * 20 + '"]\npolicy_threshold = 1'


def config(world: World, index: int) -> Path:
    folder = world.settings.shards[index - 1].folder
    url = f"sqlite:///{folder / 'kms.sqlite'}"
    world.records(index)
    path = folder / "serve.toml"
    path.write_text(
        f'host = "127.0.0.1"\nport = {world.ports[index - 1]}\nfolder = "."\nepoch_file = "../epoch.json"\n'
        f'policy_file = "../policy.json"\nnetwork_file = "../dispute.json"\nrpc_url = "http://127.0.0.1:1"\n'
        f'database_url = "{url}"\naudits_per_epoch = 10\nproduction = false\nchannel_port = {world.channel_ports[index - 1]}\n'
        'evidence = "simulated"\nplatform_file = "../platform.key"\ninsecure_accept_simulated = true\n'
        f"release_shares = {str(is_rebuilt(world.document.record.epoch)).lower()}\n"
    )
    return path


def answers(world: World, index: int) -> bool:
    try:
        with ShardClient(world.document.record.shards[index - 1], timeout_s=2) as client:
            return decode(ShardInfo, client.call("GET", "/v1/info", b"")).index == index
    except TryAgain:
        return False


def wait_for_answers(world: World, processes: "Mapping[int, subprocess.Popen[bytes]]", timeout_s: float = 60) -> None:
    """Returns when these shards answer; fails as soon as one has ended, with what it said where that is at hand."""

    def all_answer() -> bool:
        for index, process in processes.items():
            log = world.settings.shards[index - 1].folder / "log.txt"
            assert process.poll() is None, (index, process.stderr.read() if process.stderr else log.exists() and log.read_text())
        return all(answers(world, index) for index in processes)

    wait_until(all_answer, timeout_s)


@pytest.mark.e2e
@pytest.mark.parametrize("epoch", [1, hybrid_epoch(1), rebuilt_epoch(1)])
def test_two_shard_processes_open_an_envelope_and_stop_cleanly(tmp_path: Path, epoch: int) -> None:
    fresh = World(tmp_path, epoch=epoch)
    case = fresh.case()
    dispute = fresh.chain.disputes[fresh.chain.open(case)]
    (fresh.folder / "dispute.json").write_bytes(encode(dispute))
    (fresh.folder / "policy.json").write_bytes(encode(fresh.policy))
    module = [sys.executable, "-m", "tests.unit.kms.shard_process"]
    processes = [
        subprocess.Popen([*module, str(config(fresh, i))], cwd=ROOT, env=child_environment(), stderr=subprocess.PIPE)
        for i in (1, 2)
    ]
    try:
        wait_for_answers(fresh, dict(enumerate(processes, start=1)))
        assert unpad(ShardKeySource(fresh.quoter, rebuilds=is_rebuilt(epoch)).open(fresh.job(case), fresh.secret)) == case.payload
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        logs = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    held = fresh.shard(1, release_shares=is_rebuilt(epoch))._renewal.share()
    secrets = [held.scalar().to_bytes(32, "big"), *([held.kem_seed()] if epoch == hybrid_epoch(1) else [])]
    said = b"kms.share_released" if is_rebuilt(epoch) else b"kms.released"
    for log in logs:
        assert said in log and b"prompt" not in log and not any(each.hex().encode() in log for each in secrets)


@pytest.mark.e2e
def test_a_shard_refuses_simulated_evidence_in_production(fresh: World) -> None:
    (fresh.folder / "dispute.json").write_bytes(encode(fresh.chain.disputes[fresh.chain.open(fresh.case())]))
    (fresh.folder / "policy.json").write_bytes(encode(fresh.policy))
    path = config(fresh, 1)
    path.write_text(path.read_text().replace("production = false", f"production = true\n{GOVERNED}"))
    module = [sys.executable, "-m", "tests.unit.kms.shard_process", str(path)]
    ended = subprocess.run(module, cwd=ROOT, env=child_environment(), capture_output=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert b"simulated on chain 31337" in ended.stderr


def test_the_client_side_loads_no_server_database_or_chain_client() -> None:
    """What the enclave's measured closure gains by importing the key client stays small."""
    code = (
        "import sys, enclave.release_client, bytewise.crypto.envelope, bytewise.crypto.shares, bytewise.crypto.proofs\n"
        "heavy = {'fastapi', 'uvicorn', 'starlette', 'sqlalchemy', 'alembic', 'web3', 'torch', 'transformers'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, b"[]"), ended.stderr


def test_a_shard_process_loads_no_model_code() -> None:
    code = (
        "import sys, kms.shard.service\n"
        "print(sorted({'torch', 'transformers', 'bytewise.inference', 'bytewise.tee_simulated'} & set(sys.modules)))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, b"[]"), ended.stderr
