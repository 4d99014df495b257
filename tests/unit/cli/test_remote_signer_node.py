"""A node whose key is at a remote signer: `init`, `doctor`, `verifier register` with a signer that is a process of its own."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from eth_account import Account
from fastapi import Response

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.signing import LocalSigner, Preimage, preimage_digest, recover
from bytewise.protocol.units import ZERO_DIGEST, Address
from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from bytewise.service.secret import write_secret
from bytewise.service.sections import SignerSettings
from bytewise.service.settings import child_environment, load_settings
from bytewise.storage.migrations.migrate import migrate
from chain.client.address_book import write_network
from chain.deployment.params import ETHER
from chain.sending.keys import open_signer
from cli.__main__ import main
from cli.demo.site import free_ports
from tests.fixtures.builders import signer, word
from tests.fixtures.chain.anvil import Anvil, running_anvil
from tests.fixtures.chain.devnet import MEASUREMENT, POOL, deployed, reader
from tests.fixtures.chain.signer_service import SignerFiles, make_signer_files, running_signer
from tests.fixtures.verifier.node_file import node_file
from tests.fixtures.verifier.verifier_fixture import NETWORK
from verifier.settings import NodeSettings

ROOT = Path(__file__).parents[3]
KEY = signer("remote account")
STAKE = 32 * ETHER
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
PASSWORD = "of the signer"


@pytest.fixture(scope="module")
def chain() -> Iterator[Anvil]:
    with running_anvil() as anvil:
        anvil.automine(True)
        yield anvil


@contextmanager
def signer_process(files: SignerFiles, key: LocalSigner = KEY) -> Iterator[str]:
    """The service with one keystore, as a process of its own; its URL."""
    (port,) = free_ports(1)
    write_secret(files.folder / "keystore.json", json.dumps(Account.encrypt(key.secret, PASSWORD, iterations=1024)).encode())
    write_secret(files.folder / "password", PASSWORD.encode())
    names = files.certificate, files.key, files.client_certificate, files.folder / "keystore.json", files.folder / "password"
    command = [sys.executable, "-m", "tests.fixtures.chain.signer_service", str(port), *map(str, names)]
    url, until = f"https://127.0.0.1:{port}", monotonic_s() + 60
    with subprocess.Popen(command, env=child_environment(), cwd=ROOT) as process:
        try:
            while not open_signer(files.section(url, key.address), NETWORK).check().ok:
                assert process.poll() is None and monotonic_s() < until
                threading.Event().wait(0.2)
            yield url
        finally:
            process.terminate()


def verb(capsys: pytest.CaptureFixture[str], *words: str, wanted: Exit) -> Any:
    capsys.readouterr()
    assert main([*words, "--output", "json"]) == wanted, capsys.readouterr()
    return json.loads(capsys.readouterr().out)


def options(files: SignerFiles, url: str) -> dict[str, str]:
    return {
        "--signer-url": url, "--account": KEY.address, "--signer-ca": str(files.certificate),
        "--signer-cert": str(files.client_certificate), "--signer-key": str(files.client_key),
    }  # fmt: skip


def made(chain: Anvil, folder: Path, given: dict[str, str], *more: str) -> int:
    """Exit code of `init` of a watchtower in a network."""
    write_network(folder / "network.json", deployed(chain))
    chain.automine(True)
    words = ["init", "--role", "watchtower", str(folder / "node"), "--network", str(folder / "network.json")]
    words += ["--rpc", chain.url, "--da", "http://127.0.0.1:1", *more]
    return main([*words, *(word for pair in given.items() for word in pair)])


def test_new_node_has_no_key_and_doctor_finds_the_signer(
    chain: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, config = make_signer_files(tmp_path), str(tmp_path / "node" / "bytewise.toml")
    with signer_process(files) as url:
        assert made(chain, tmp_path, options(files, url)) == Exit.OK and KEY.address in capsys.readouterr().out
        assert {path.name for path in (tmp_path / "node").iterdir()} == {"bytewise.toml", "network.json", "node.db"}
        found = {each["name"]: each for each in verb(capsys, "doctor", "--config", config, wanted=Exit.NOT_READY)["checks"]}
        assert found["signer"]["ok"] and KEY.address in found["signer"]["value"] and url[8:] in found["signer"]["value"]
    found = {each["name"]: each for each in verb(capsys, "doctor", "--config", config, wanted=Exit.NOT_READY)["checks"]}
    assert not found["signer"]["ok"] and "ConnectError" in found["signer"]["value"]


def test_signer_without_the_key_of_the_account_is_named_by_doctor(
    chain: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = make_signer_files(tmp_path)
    with running_signer(files, [signer("another")]) as url:
        assert made(chain, tmp_path, options(files, url)) == Exit.OK
        found = verb(capsys, "doctor", "--config", str(tmp_path / "node" / "bytewise.toml"), wanted=Exit.NOT_READY)
    (check,) = [each for each in found["checks"] if each["name"] == "signer"]
    assert not check["ok"] and f"has no key of {KEY.address}" in check["value"]


def random_nonce(_key: str, data: bytes, _true: Response) -> Response:
    """A signature as key services of clouds make it: valid, with low s, and another one each time."""
    digest = preimage_digest(Preimage(data))
    key = ec.derive_private_key(int.from_bytes(KEY.secret), ec.SECP256K1())
    r, s = decode_dss_signature(key.sign(digest, ec.ECDSA(Prehashed(hashes.SHA256()))))
    parts = r.to_bytes(32) + min(s, ORDER - s).to_bytes(32)
    return Response("0x" + next(each for v in (27, 28) if recover(digest, each := parts + bytes([v])) == KEY.address).hex())


def test_doctor_refuses_random_signatures_for_a_watchtower(
    chain: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = make_signer_files(tmp_path)
    with running_signer(files, [KEY], random_nonce) as url:
        assert made(chain, tmp_path, options(files, url)) == Exit.OK
        found = verb(capsys, "doctor", "--config", str(tmp_path / "node" / "bytewise.toml"), wanted=Exit.NOT_READY)
    (check,) = [each for each in found["checks"] if each["name"] == "signer"]
    assert not check["ok"] and "another signature each time" in check["value"] and "RFC 6979" in check["advice"]


def test_verifier_registers_and_leaves_with_a_key_at_the_signer(
    chain: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, network = make_signer_files(tmp_path), deployed(chain)
    chain.automine(True)
    write_network(tmp_path / "network.json", network)
    database = f"sqlite:///{tmp_path / 'actor.db'}"
    migrate(database)
    chain.rpc("anvil_setBalance", KEY.address, hex(40 * ETHER))
    machine, program = "0x" + word("machine", tmp_path).hex(), "0x" + MEASUREMENT.hex()
    court = reader(chain, network)
    with signer_process(files) as url:
        section = {"key_file": None} | {name: str(each) for name, each in files.settings(url, KEY.address).items()}
        config = node_file(tmp_path, database, chain.url, signer=section | {"max_value_wei": str(STAKE - 1)})
        words = ["verifier", "register", "--config", str(config), "--stake", str(STAKE), "--yes"]
        words += ["--platform-id", machine, "--measurement", program]
        assert main(words) == Exit.REFUSED
        assert f"signing rule value: {STAKE} wei" in " ".join(capsys.readouterr().err.split())
        node_file(tmp_path, database, chain.url, signer=section)
        chain.rpc("evm_setIntervalMining", 1)
        assert main(words) == Exit.OK, capsys.readouterr()
        mine = court.holdings(KEY.address, court.head())
        assert mine.stake_wei == STAKE and mine.pool == POOL
        assert main([*words[:-4], "--platform-id", machine, "--measurement", program]) == Exit.OK, "nothing is left to sign"
        assert main(["verifier", "leave", "--config", str(config), "--yes"]) == Exit.OK, capsys.readouterr()
        chain.rpc("evm_setIntervalMining", 0)
    mine = court.holdings(KEY.address, court.head())
    assert mine.unbonding_wei == STAKE and mine.pool == ZERO_DIGEST


def test_write_verb_without_its_signer_ends_as_unavailable(
    chain: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, network = make_signer_files(tmp_path), deployed(chain)
    chain.automine(True)
    write_network(tmp_path / "network.json", network)
    database, other = f"sqlite:///{tmp_path / 'actor.db'}", signer("account of an absent signer")
    migrate(database)
    chain.rpc("anvil_setBalance", other.address, hex(40 * ETHER))
    section = {name: str(each) for name, each in files.settings("https://127.0.0.1:1", other.address).items()}
    config = node_file(tmp_path, database, chain.url, signer={"key_file": None} | section)
    words = ["verifier", "register", "--config", str(config), "--stake", "1", "--yes"]
    assert main([*words, "--platform-id", "0x" + "22" * 32, "--measurement", "0x" + MEASUREMENT.hex()]) == Exit.UNAVAILABLE
    said = " ".join(capsys.readouterr().err.split())
    assert "remote signer 127.0.0.1:1 does not sign" in said and "Traceback" not in said


CONTRADICTIONS: tuple[tuple[dict[str, str], tuple[str, ...], str], ...] = (
    ({"--account": ""}, (), "--account"), ({"--signer-ca": ""}, (), "--signer-ca"),
    ({"--signer-cert": "nowhere.pem"}, (), "--signer-cert"), ({"--signer-key": ""}, (), "--signer-key"),
    ({"--signer-url": ""}, (), "--account"), ({"--account": "0x12"}, (), "--account"),
    ({"--signer-url": "http://127.0.0.1:9000"}, (), "https"), ({}, ("--prompt",), "--prompt"),
    ({}, ("--key", "old.key"), "--key"), ({}, ("--password-file", "secret"), "--password-file"),
)  # fmt: skip


def test_contradicting_options_of_init_are_named(chain: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = make_signer_files(tmp_path)
    for change, more, named in CONTRADICTIONS:
        given = {name: text for name, text in (options(files, "https://127.0.0.1:1") | change).items() if text}
        assert made(chain, tmp_path, given, *more) == Exit.USAGE, change
        assert named in capsys.readouterr().err and not (tmp_path / "node").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"url": ""}, "account, ca_file, client_cert_file, client_key_file belong to url"),
        ({"key_file": Path("a.key")}, "set key_file, or url, and not both"),
        ({"account": None, "ca_file": None}, "url also needs account, ca_file"),
        ({"client_key_file": None}, "url also needs client_key_file"),
        ({"password_file": Path("secret")}, "password_file"),
        ({"url": "http://signer:9000"}, "https"),
        ({"url": "https://user:word@signer"}, "https"),
        ({"url": "https://"}, "https"),
        ({"url": "https://signer:99999"}, "https"),
        ({"url": "https://signer/?key=1"}, "https"),
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"timeout_s": 5.5}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"max_fee_wei": 0}, "max_fee_wei"),
    ],
)
def test_contradicting_settings_of_a_signer_are_named(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    given = SignerFiles(tmp_path).settings("https://signer:9000", Address("0x" + "11" * 20)) | change
    if change == {"url": ""}:
        given["key_file"] = tmp_path / "a.key"
    with pytest.raises(ConfigurationError, match=named):
        SignerSettings(**given)
    with pytest.raises(ConfigurationError, match="set key_file, or url"):
        SignerSettings()


def test_settings_of_a_signer_are_read_from_a_file(tmp_path: Path) -> None:
    files = make_signer_files(tmp_path)
    section = {name: str(each) for name, each in files.settings("https://signer:9000", KEY.address).items()}
    config = node_file(tmp_path, "sqlite:///x.db", signer={"key_file": None} | section)
    assert load_settings(NodeSettings, config).signer == files.section("https://signer:9000", KEY.address)
