"""Checks of `bytewise doctor` and `status` that one role has: an operator that may serve, a shard with the share in force."""

import http.server
import re
import socket
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bytewise.inference.pinned import checkpoint
from bytewise.inference.profiles import model_id_of
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.keys.ceremony import ShardContact
from bytewise.protocol.keys.epochs import EpochState
from bytewise.protocol.units import Digest
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.service.installation import SOURCE_ROOT
from bytewise.service.listener import serve_metrics
from bytewise.service.metrics import Actor
from bytewise.service.readiness import ReadinessRegistry
from bytewise.storage.engine import open_database
from bytewise.storage.nonce_lease import NonceLease
from bytewise.tee.measurement import ENCLAVE_ENTRY, measure
from bytewise.tee_simulated.td_quote import measurement_of
from chain.reads.records import Status
from cli.__main__ import main
from cli.demo.site import free_ports
from cli.node import state
from cli.node.checks import chain as chain_checks
from cli.node.checks import host as host_checks
from cli.node.checks import shard as shard_checks
from cli.node.doctor import checked
from cli.node.roles import NodeRole
from cli.node.view import NodeView
from kms.storage import keyring
from serving.readiness import epoch_refusal
from tests.fixtures.cli.new_node import new_node
from tests.fixtures.inference.tiny import write_checkpoint
from tests.fixtures.kms.governed_policy import settings
from tests.fixtures.kms.release_network import World, https_config, https_servers
from tests.fixtures.serving.open_readiness import OPEN


def shard(world: World, **changes: object) -> Any:
    """The first shard of this network before the network's chain."""
    made = settings(world, port=world.ports[0], **changes)
    facts = world.chain.facts
    on_chain = SimpleNamespace(state=EpochState.ACTIVE, commitments=facts.commitments)
    reader = SimpleNamespace(
        epoch_on_chain=lambda epoch, block: on_chain, snapshot=lambda who, block: SimpleNamespace(policy=facts.policy),
        final_policy=lambda: facts.policy,
    )  # fmt: skip
    (world.folder / "policy.json").write_bytes(encode(world.policy))
    return SimpleNamespace(role=NodeRole.SHARD, settings=made, reader=reader, head=100, account=world.signers()[0].address)


def results(view: Any) -> dict[str, bool]:
    """Results of a shard's own checks, by name."""
    return {
        each.name: each.ok for each in (checked(f, view) for f in (shard_checks.process, shard_checks.share, shard_checks.policy))
    }


def test_check_that_breaks_is_reported_with_the_class_of_its_error() -> None:
    def broken(_: Any) -> Any:
        raise ZeroDivisionError("a detail for developers")

    found = checked(broken, None)  # type: ignore[arg-type]
    assert (found.name, found.ok) == ("broken", False) and "report" in found.advice
    assert re.fullmatch(r"the check failed with ZeroDivisionError at test_node_role_checks\.py:[0-9]+", found.value)


def test_running_shard_is_healthy_only_with_share_and_policy_in_force(tmp_path: Path) -> None:
    world = World(tmp_path)
    view, running = shard(world), world.shard(1)
    with world.serving((1, running)):
        assert results(view) == {"process": True, "share": True, "policy": True}
        assert shard_checks.share(view).value == "epoch 1, in force"
        view.reader.final_policy = lambda: Digest(b"\x55" * 32)
        assert results(view) == {"process": True, "share": True, "policy": False}
        view.settings = replace(view.settings, finality="latest")
        assert results(view) == {"process": True, "share": True, "policy": True}, "then it decides by the newest block"
        world.chain.away = True
        assert results(shard(world))["process"]
    world.chain.away = False
    world.chain.facts = replace(world.chain.facts, commitments=World(make(tmp_path / "other")).chain.facts.commitments)
    with world.serving((1, world.shard(1))):
        assert results(shard(world)) == {"process": True, "share": False, "policy": True}


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_shard_before_its_start_needs_the_share_in_force_in_its_folder(tmp_path: Path) -> None:
    world = World(tmp_path)
    view = shard(world)
    assert results(view) == {"process": False, "share": True, "policy": True}
    for file in world.settings.shards[0].folder.glob("share-*"):
        file.unlink()
    assert results(view) == {"process": False, "share": False, "policy": True}
    view.reader.epoch_on_chain = lambda epoch, block: SimpleNamespace(state=EpochState.NONE, commitments=b"")
    assert shard_checks.share(view).value == "epoch 1 is not on the chain"
    (world.folder / "epoch.json").unlink()
    assert shard_checks.share(view).value == "no key epoch" and not shard_checks.share(view).ok and shard_checks.policy(view).ok


def test_other_program_at_the_port_is_not_the_running_shard(tmp_path: Path) -> None:
    """It has another TLS key, as another shard that got the wrong port."""
    world = World(tmp_path)
    other = https_config(shard_app(world), world.ports[0], world.settings.shards[1].folder)
    with https_servers([other]):
        assert not shard_checks.process(shard(world)).ok and "does not answer" in shard_checks.process(shard(world)).value
        view = shard(world, channel_port=free_ports(1)[0])
        found = host_checks.ports(view)
        assert not found.ok and str(world.ports[0]) in found.value and "does not run" in found.value


def shard_app(world: World) -> Any:
    from kms.shard.api import build_app

    return build_app(world.shard(2))


def test_restored_folder_of_a_shard_names_its_account(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A backup has no entry.json."""
    config = new_node(tmp_path, NodeRole.SHARD)
    entry = config.parent / keyring.ENTRY
    account = decode(ShardContact, entry.read_bytes()).address
    entry.unlink()
    assert NodeView(config).account == account
    (config.parent / keyring.SEALED_KEY).unlink()
    assert main(["status", "--health", "--config", str(config)]) == Exit.USAGE
    assert "the shard's account is missing; restore a backup" in capsys.readouterr().err


def test_role_decides_which_of_these_checks_doctor_and_status_have() -> None:
    for role, own in ((NodeRole.SHARD, {"share", "policy"}), (NodeRole.OPERATOR, {"serving"}), (NodeRole.MEMBER, set())):
        node: Any = SimpleNamespace(role=role)
        listed = (
            {each.__name__ for each in functions} for functions in (chain_checks.checks_of(role), state._vital_checks(node))
        )
        assert all(names & {"share", "policy", "serving"} == own for names in listed)


@pytest.fixture
def operator(tmp_path: Path) -> NodeView:
    """A new operator on free ports."""
    config = new_node(tmp_path, NodeRole.OPERATOR)
    listen, metrics = free_ports(2)
    text = config.read_text()
    config.write_text(text.replace("port = 8443", f"port = {listen}").replace("port = 9464", f"port = {metrics}"))
    return NodeView(config)


def test_port_of_another_program_fails_unless_the_node_runs(operator: NodeView) -> None:
    assert host_checks.ports(operator) == ("ports", True, "free", *host_checks.ports(operator)[3:])
    made: Any = operator.settings
    with socket.create_server((made.listen.host, made.listen.port)):
        found = host_checks.ports(operator)
        assert not found.ok and f":{made.listen.port} in use" in found.value and "does not run" in found.value
        lease = NonceLease(open_database(made.db.location), SystemClock(), operator.network.chain_id, operator.account)
        lease.acquire()
        assert host_checks.ports(operator).ok


def test_metrics_are_scraped_from_the_running_node_only(operator: NodeView) -> None:
    made: Any = operator.settings
    before = host_checks.metrics_page(operator)
    assert before.ok and f":{made.metrics.port} is free" in before.value
    with serve_metrics(made.metrics, Actor.OPERATOR, ReadinessRegistry()):
        found = host_checks.metrics_page(operator)
        assert found.ok and re.search(r"/metrics: [0-9]{2,} series$", found.value), found
    with http.server.HTTPServer((made.metrics.host, made.metrics.port), http.server.BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        found = host_checks.metrics_page(operator)
        other.shutdown()
    assert not found.ok and "no page of metrics: 501" in found.value and "another port" in found.advice
    unserved: Any = SimpleNamespace(settings=replace(made, metrics=None))
    assert host_checks.metrics_page(unserved).ok and "nobody can watch" in host_checks.metrics_page(unserved).value


def test_webhook_is_connected_to_and_gets_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        port = receiver.getsockname()[1]
        found = host_checks.webhook_check(f"http://127.0.0.1:{port}/secret-path")
        with receiver.accept()[0] as peer:
            assert found.ok and peer.recv(99) == b"" and "secret" not in str(found)
        thread = threading.Thread(target=lambda: receiver.accept()[0].sendall(b"HTTP/1.1 400 no TLS"), daemon=True)
        thread.start()
        found = host_checks.webhook_check(f"https://127.0.0.1:{port}/secret-path")
        assert not found.ok and f"127.0.0.1:{port}: " in found.value and "Alertmanager" in found.advice
    assert "refused" in host_checks.webhook_check(f"http://127.0.0.1:{port}").value
    for wrong in ("ftp://a", "ftp://a:21", "http://", "https://a:99999", "a"):
        with pytest.raises(ConfigurationError, match="--webhook"):
            host_checks.webhook_check(wrong)


@pytest.mark.parametrize(
    ("changes", "accepts", "reason"),
    [
        ({}, True, "requests are accepted"), ({"environment_active": False}, True, "this environment is not active"),
        ({"epoch": None}, True, "no key epoch is open, or"), ({"judged": False}, True, "too few verifiers could judge an answer"),
        ({"balance_wei": 0}, True, "the account has too little ether"), ({}, False, "accept.simulated"),
    ],
)  # fmt: skip
def test_doctor_fails_for_an_operator_that_would_serve_nobody(
    operator: NodeView, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], accepts: bool, reason: str
) -> None:
    made: Any = operator.settings
    asked: list[Any] = []

    def chain(reader: object, *terms: Any) -> Any:
        asked.append(terms)
        assert OPEN.epoch is not None
        refusal = epoch_refusal(OPEN.epoch, terms[-1])
        return SimpleNamespace(read=lambda: replace(OPEN, epoch_refusal=refusal, **changes))

    monkeypatch.setattr(chain_checks, "ChainReadiness", chain)
    view: Any = SimpleNamespace(
        settings=replace(made, accept=replace(made.accept, simulated=accepts)), reader=None, account=operator.account
    )
    found = chain_checks.serving(view)
    assert found.ok == (reason == "requests are accepted") and reason in found.value
    ((account, _environment, _model, fee_wei, _accept),) = asked
    assert (account, fee_wei) == (operator.account, made.signer.max_fee_wei)


def test_checks_read_an_artifact_of_either_profile(operator: NodeView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint("llama", tmp_path / "checkpoint")
    pinned = tmp_path / "pinned"
    model_id = checkpoint.pin(tmp_path / "checkpoint", pinned)
    made: Any = operator.settings
    asked: list[Any] = []

    def item(which: Digest, block: int) -> Any:
        asked.append(which)
        return SimpleNamespace(status=Status.ACTIVE)

    def chain(reader: object, *terms: object) -> Any:
        asked.append(terms[2])
        return SimpleNamespace(read=lambda: OPEN)

    monkeypatch.setattr(chain_checks, "ChainReadiness", chain)
    for path, own in ((pinned, model_id), (made.model.artifact, model_id_of(made.model.artifact))):
        view: Any = SimpleNamespace(
            settings=replace(made, model=replace(made.model, artifact=path)), reader=SimpleNamespace(item=item), head=1,
            account=operator.account, enclave=SimpleNamespace(evidence=EvidenceType.SIMULATED, artifact=path),
        )  # fmt: skip
        assert host_checks.model(view).ok
        chain_checks.serving(view)
        assert asked[-2:] == [own, own]
        assert host_checks.own_measurement(view) == measurement_of(measure(SOURCE_ROOT, ENCLAVE_ENTRY, own))
