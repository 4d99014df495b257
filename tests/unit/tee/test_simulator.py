"""The simulator as a program, and the fence around its package."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy
from bytewise.protocol.units import Digest
from bytewise.service.settings import child_environment
from bytewise.tee_simulated.__main__ import simulated_policy
from bytewise.tee_simulated.authorities import Platform, issue, make_root

ROOT = Path(__file__).resolve().parents[3]


def python(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, timeout=240, check=False)


IMPORTS = """
import importlib, sys
from bytewise.tee import quoters
quoters.enter_production()
for name in sys.argv[1:]:
    try:
        importlib.import_module(f"bytewise.tee_simulated.{name}")
    except Exception as error:
        print(name, "imported in a production process" in str(error))
"""


def test_fence_3_simulator_cannot_be_imported_in_a_production_process() -> None:
    modules = ("quoter", "authorities", "td_quote", "__main__")
    ended = python("-c", IMPORTS, *modules)
    assert ended.stdout.decode().splitlines() == [f"{name} True" for name in modules], ended.stderr


def test_fence_3_process_with_the_simulator_cannot_become_production() -> None:
    """Without the declaration it is imported."""
    code = "import bytewise.tee_simulated.quoter; from bytewise.tee import quoters; print('imported'); quoters.enter_production()"
    ended = python("-c", code)
    assert (ended.returncode, ended.stdout) == (1, b"imported\n") and b"production: bytewise.tee_simulated." in ended.stderr


def test_fence_3_no_key_holder_module_imports_the_simulator() -> None:
    code = "import sys, kms.shard.service, kms.__main__; print([m for m in sys.modules if 'tee_simulated' in m])"
    ended = python("-c", code)
    assert (ended.returncode, ended.stdout.strip()) == (0, b"[]"), ended.stderr


@pytest.mark.e2e
def test_command_makes_a_root_issues_a_platform_and_writes_the_policy(tmp_path: Path) -> None:
    root, platform, policy = tmp_path / "root", tmp_path / "platform.key", tmp_path / "policy.json"
    module, model = ("-m", "bytewise.tee_simulated"), Digest(bytes(range(32)))
    of = ("--model", model.hex())
    for arguments in (
        ("make-root", "--out", str(root)),
        ("issue", "--root", str(root), "--out", str(platform)),
        ("policy", "--root", str(root), "--out", str(policy), "--chain-id", "31337", "--entry", "enclave.release_client", *of),
    ):
        ended = python(*module, *arguments)
        assert ended.returncode == 0, ended.stderr
    assert decode(AppraisalPolicy, policy.read_bytes()) == simulated_policy(root, 31337, 1, "enclave.release_client", model)
    assert Platform(platform).pck_ca.certificate.issuer.rfc4514_string() == "CN=SIMULATED TEE ROOT - NOT INTEL/AMD"
    for secret in (platform, root / "root.key"):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    ended = python(
        *module, "policy", "--root", str(root), "--out", str(policy), "--chain-id", "1", "--entry", "enclave.release_client"
    )
    assert ended.returncode != 0 and b"no test chain" in ended.stderr


def test_roots_and_platforms_are_never_overwritten(tmp_path: Path) -> None:
    make_root(tmp_path / "root")
    issue(tmp_path / "root", tmp_path / "p.key")
    before = (tmp_path / "root" / "root.pem").read_bytes()
    with pytest.raises(ConfigurationError):
        make_root(tmp_path / "root")
    with pytest.raises(ConfigurationError):
        issue(tmp_path / "root", tmp_path / "p.key")
    assert (tmp_path / "root" / "root.pem").read_bytes() == before


def test_platform_does_not_print_its_key(tmp_path: Path) -> None:
    make_root(tmp_path / "root")
    issue(tmp_path / "root", tmp_path / "p.key")
    platform = Platform(tmp_path / "p.key")
    for authority in (platform.pck_ca, platform.tcb_signer):
        secret = authority.key.private_numbers().private_value
        assert str(secret) not in repr(platform) + repr(authority) and not hasattr(authority, "__dict__")
    assert not hasattr(platform, "__dict__")


def test_policy_round_trips_and_its_digest_is_its_name(tmp_path: Path) -> None:
    make_root(tmp_path / "root")
    policy = simulated_policy(tmp_path / "root", 31337, 1, "enclave.release_client")
    assert decode(AppraisalPolicy, encode(policy)) == policy
    assert policy.digest != simulated_policy(tmp_path / "root", 31337, 2, "enclave.release_client").digest
