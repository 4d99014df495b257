"""Shards as processes of their own: serving HTTPS, stopping cleanly."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.suites import hybrid_epoch, is_rebuilt, rebuilt_epoch
from bytewise.service.settings import child_environment
from enclave.release_client import ShardKeySource
from tests.fixtures.kms.process_settings import ROOT, config, wait_for_answers
from tests.fixtures.kms.release_network import World

GOVERNED = 'policy_governors = ["0x' + "01" * 20 + '"]\npolicy_threshold = 1'


@pytest.mark.e2e
@pytest.mark.parametrize("epoch", [hybrid_epoch(1), rebuilt_epoch(1)])
def test_two_shard_processes_open_an_envelope_and_stop_cleanly(tmp_path: Path, epoch: int) -> None:
    """Suite 1 in the same way: `test_on_chain`."""
    fresh = World(tmp_path, epoch=epoch)
    case = fresh.disputed()
    (dispute,) = fresh.chain.disputes.values()
    (fresh.folder / "dispute.json").write_bytes(encode(dispute))
    (fresh.folder / "policy.json").write_bytes(encode(fresh.policy))
    module = [sys.executable, "-m", "tests.fixtures.kms.shard_process"]
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
    held = fresh.shard(1, release_shares=is_rebuilt(epoch))._rotation.share()
    secrets = [held.scalar().to_bytes(32, "big"), *([held.kem_seed()] if epoch == hybrid_epoch(1) else [])]
    said = b'"decision":"SHARE_RELEASED"' if is_rebuilt(epoch) else b'"decision":"RELEASED"'
    for log in logs:
        assert said in log and b"prompt" not in log and not any(each.hex().encode() in log for each in secrets)


@pytest.mark.e2e
def test_a_shard_refuses_simulated_evidence_in_production(fresh: World) -> None:
    (fresh.folder / "dispute.json").write_bytes(encode(fresh.chain.disputes[fresh.chain.open(fresh.case())]))
    (fresh.folder / "policy.json").write_bytes(encode(fresh.policy))
    path = config(fresh, 1)
    path.write_text(path.read_text().replace("production = false", f"production = true\n{GOVERNED}"))
    module = [sys.executable, "-m", "tests.fixtures.kms.shard_process", str(path)]
    ended = subprocess.run(module, cwd=ROOT, env=child_environment(), capture_output=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert b"simulated on chain 31337" in ended.stderr


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        (
            "enclave.release_client, bytewise.crypto.envelope, bytewise.crypto.shares",
            {"fastapi", "uvicorn", "starlette", "sqlalchemy", "alembic", "web3", "torch", "transformers"},
        ),
        ("kms.shard.service", {"torch", "transformers", "bytewise.inference", "bytewise.tee_simulated"}),
    ],
    ids=["client", "shard"],
)
def test_client_imports_no_server_and_shard_no_model(program: str, heavy: set[str]) -> None:
    """What the enclave's measured closure gains by importing the key client stays small."""
    code = f"import sys, {program}\nprint(sorted({heavy} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, b"[]"), ended.stderr
