"""An upgrade as whole processes: a duty process, the old and the new enclave, shards, DA and a chain.

Each environment has a model of its own, so each enclave has a measurement of its own. What an enclave judged is in its log.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bytewise.crypto.envelope import seal
from bytewise.crypto.hybrid import recipients
from bytewise.da.client import DaClient
from bytewise.inference.artifact import artifact as artifacts
from bytewise.inference.engine import ExactEngine
from bytewise.protocol import merkle
from bytewise.protocol.address_book import Network
from bytewise.protocol.encoding import encode
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import (
    BatchHeader,
    ClientMode,
    Mode,
    Receipt,
    ReceiptList,
    SignedReceipt,
    batch_leaves,
    plain_enclave_key,
    receipt_id,
)
from bytewise.protocol.records.seal import Payload, client_digest, envelope_hash, seal_context
from bytewise.protocol.records.statements import AuditOutcome
from bytewise.protocol.units import U8, U32, U64, U256, ZERO_DIGEST, Blob, Digest
from bytewise.service.installation import SOURCE_ROOT
from bytewise.service.settings import child_environment
from bytewise.tee.measurement import ENCLAVE_ENTRY, SHARD_ENTRY, measure
from bytewise.tee_simulated.__main__ import policy_for
from chain.client.address_book import write_network
from chain.deployment.deploy import ItemProposal, Joiner, Policy, deploy, environment_proposal, join, put_in_force, survey
from chain.deployment.params import DEVNET, ETHER, with_changes
from chain.deployment.plan import DEVNET_SHAPE, GovernanceSettings
from chain.reads.reader import SnapshotReader
from chain.sending.keys import save_signer
from cli.demo.site import free_ports
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil
from tests.fixtures.chain.devnet import MEASUREMENT, POOL, STAKE_WEI, VECTORS, fee_wei, in_force, pump, sender, signer
from tests.fixtures.kms.chain_network import OPERATOR, VERIFIERS, OnChain, joiner, serving
from tests.fixtures.kms.memory_chain import CLIENT
from tests.fixtures.kms.release_network import ENVIRONMENT, World, program, wait_until
from tests.fixtures.kms.vouched_epochs import key_in_force
from tests.fixtures.serving.operator_site import make_artifact, process
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.node_file import node_file
from tests.source import ROOT

ME = VERIFIERS[0]
PARAMS = with_changes(DEVNET, {
    "times": {"window": 1_200, "unbond_delay": 30 * 86_400}, "shares": {"audit_rate_bps": 10_000}, "money": {"audit_unit": ETHER},
})  # fmt: skip
"""Every verifier audits every receipt, in a window that a busy machine does not miss."""
LIMIT_S = 300.0


@dataclass(frozen=True)
class Release:
    """One environment: its model, and the enclave that runs it."""

    name: str
    folder: Path
    engine: ExactEngine
    environment: Environment

    @property
    def model_id(self) -> Digest:
        return self.engine.artifact.model_id

    @property
    def socket(self) -> Path:
        return self.folder / "s"

    @property
    def judged(self) -> dict[str, str]:
        """Outcome of each receipt that the enclave judged."""
        lines = (json.loads(line) for line in (self.folder / "log").read_text().splitlines() if line.startswith("{"))
        return {line["receipt"]: line["outcome"] for line in lines if line["event"] == "enclave_job.judged"}

    @contextmanager
    def running(self, platform: Path) -> Iterator[None]:
        """The enclave's own program, until SIGTERM."""
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        (self.folder / "enclave.toml").write_text(
            f'artifact = "{self.engine.artifact.path}"\nsocket = "s"\nchain_id = {CHAIN_ID}\nevidence = "simulated"\n'
            f'platform_file = "{platform}"\ninsecure_accept_simulated = true\nready_file = "ready"\n'
        )
        command = [sys.executable, "-m", "enclave", "--config", str(self.folder / "enclave.toml")]
        with (self.folder / "log").open("ab") as log:
            child = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=log)
        try:
            wait_until(lambda: ready.exists() or child.poll() is not None, LIMIT_S)
            assert child.poll() is None, (self.folder / "log").read_text()[-2000:]
            yield
        finally:
            child.terminate()
            assert child.wait(60) == 0, (self.folder / "log").read_text()[-2000:]


def make_release(folder: Path, name: str, seed: int) -> Release:
    place = folder / name
    place.mkdir()
    engine = ExactEngine(artifacts.load(make_artifact(place, seed)))
    return Release(name, place, engine, replace(ENVIRONMENT, container=Digest(bytes([seed]) * 32)))


def policy_of(releases: list[Release], root: Path) -> AppraisalPolicy:
    """Approves the enclaves of all releases."""
    programs = [measure(SOURCE_ROOT, ENCLAVE_ENTRY, each.model_id) for each in releases]
    assert len(set(programs)) == len(releases)
    made = [policy_for(each, program(SHARD_ENTRY), root, CHAIN_ID, 1) for each in programs]
    entries = {entry.measurement: entry for each in made for entry in each.measurements}
    return replace(made[0], measurements=tuple(entries[each] for each in sorted(entries)))


class Upgrade:
    """A network with two environments in force, and one verifier of it."""

    def __init__(self, anvil: Anvil, folder: Path) -> None:
        self.anvil, self.folder = anvil, folder
        self.old, self.new = make_release(folder, "old", 5), make_release(folder, "new", 6)
        client, curator = anvil.client, signer(0)
        anvil.mine(2)
        powers = GovernanceSettings(*(curator.address,) * 3)
        network = deploy(client, curator, survey(client, curator.address, PARAMS, DEVNET_SHAPE, [POOL], powers))
        self.world = World(folder, 2, 3, network.contracts)
        self.world.policy = policy = policy_of([self.old, self.new], folder / "root")
        releases = (self.old, self.new)
        items = [ItemProposal(each.model_id, ZERO_DIGEST, VECTORS, b"{}") for each in releases]
        proposals = [*(environment_proposal(each.environment, POOL, VECTORS) for each in releases), *items]
        document = Policy(policy.digest, int(policy.serial), encode(policy))
        put_in_force(client, network, curator, [MEASUREMENT], proposals, document)
        self.network: Network = key_in_force(client, network, curator, self.world.document, policy.digest, self.world.signers())
        join(client, self.network, [Joiner(OPERATOR, STAKE_WEI, "http://127.0.0.1:1"), *(joiner(each) for each in VERIFIERS)])
        in_force(
            anvil, self.network, VERIFIERS, [each.environment.digest for each in releases] + [each.model_id for each in releases]
        )
        write_network(folder / "network.json", self.network)
        (folder / "policy.json").write_bytes(encode(policy))
        self.operator = sender(anvil, self.network, OPERATOR, folder)
        (port,) = free_ports(1)
        self.da_url, self.seq = f"http://127.0.0.1:{port}", 0
        (folder / "da.toml").write_text(f'directory = "blobs"\nport = {port}\nmemstore = true\n')

    def anchor(self, release: Release, count: int) -> list[str]:
        """Anchors true answers of a release in one batch; their ids in hex."""
        now, domain = self.anvil.client.head().timestamp, self.network.anchor_domain
        with DaClient((self.da_url,), 20.0) as da:
            entries = tuple(self._signed(release, self.seq + number, now, da) for number in range(1, count + 1))
            listed = ReceiptList(OPERATOR.address, U64(self.seq + 1), entries)
            locator = da.put(encode(listed))
        root = merkle.batch_root(batch_leaves(domain, entries))
        header = BatchHeader(
            0, OPERATOR.address, U64(self.seq + 1), U32(count), root, listed.list_hash,
            release.environment.digest, release.model_id, U64(1), locator, U64(0), U64(0),
        )  # fmt: skip
        self.operator.anchor(header, fee_wei(self.anvil, self.network, count))
        pump(self.anvil, [self.operator])
        self.seq += count
        return ["0x" + receipt_id(domain, each.receipt).hex() for each in entries]

    def _signed(self, release: Release, seq: int, now: int, da: DaClient) -> SignedReceipt:
        plain = self.world.case(seq).payload.request
        request = replace(
            plain, model_id=release.model_id, environment=release.environment.digest, prompt=(65, 66, 67, seq),
            nonce=Digest(os.urandom(32)), expiry=U64(now + 3_600),
        )  # fmt: skip
        true = release.engine.generate(request)
        payload = Payload(request, true.output, CLIENT.sign(client_digest(request.req_hash, CHAIN_ID)))
        record, domain = self.world.document.record, self.network.anchor_domain
        receipt = Receipt(
            OPERATOR.address, U64(seq), request.req_hash, true.output.tokens_hash, true.out_hash, release.model_id,
            release.environment.digest, release.environment.gpu_arch_id, record.epoch, ZERO_DIGEST, U64(now), U64(now + 50),
            U8(Mode.PLAIN), U8(ClientMode.DELEGATED), plain_enclave_key(), U256(CHAIN_ID),
        )  # fmt: skip
        envelope = seal(payload, record.public_key, seal_context(domain, receipt), record.epoch, os.urandom, recipients(record))
        receipt = replace(receipt, envelope_hash=envelope_hash(Blob(envelope)))
        return SignedReceipt(receipt, OPERATOR.sign(receipt_id(domain, receipt)), da.put(envelope))

    def audited(self) -> dict[str, int]:
        """What the chain has of our verifier: result by receipt."""
        reader = SnapshotReader(self.anvil.client, self.network)
        posted = reader.audits(int(self.network.deploy_block), reader.head())
        return {"0x" + each.receipt_id.hex(): int(each.result) for each, _, _ in posted if each.verifier == ME.address}

    def wait_audited(self, receipts: list[str]) -> None:
        """Until all are audited; each found true."""
        wait_until(lambda: set(receipts) <= self.audited().keys(), LIMIT_S)
        assert {self.audited()[each] for each in receipts} == {int(AuditOutcome.MATCH)}

    @contextmanager
    def duty_process(self) -> Iterator[None]:
        """`bytewise verifier run`, which finds the old enclave at `socket` and the new one at `next_socket`."""
        save_signer(self.folder / "account.key", ME)
        database = f"sqlite:///{self.folder / 'node.db'}"
        (self.folder / "node.db").write_bytes(empty_database())
        sockets = {"socket": str(self.old.socket), "next_socket": str(self.new.socket)}
        config = node_file(
            self.folder, database, self.anvil.url, role="verifier", da={"urls": [self.da_url]}, executor=sockets,
            chain={"confirmations": 1},
        )  # fmt: skip
        with process(self.folder, "verifier", "--config", str(config)):
            yield

    @contextmanager
    def running(self) -> Iterator[None]:
        """Everything but the old enclave."""
        with ExitStack() as stack:
            self.anvil.rpc("evm_setIntervalMining", 1)
            stack.callback(self.anvil.rpc, "evm_setIntervalMining", 0)
            stack.enter_context(process(self.folder, "bytewise.da", "serve", "--config", str(self.folder / "da.toml")))
            stack.enter_context(serving(OnChain(self.world, self.anvil, self.network, self.world.case(1)), 1, 2, 3))
            stack.enter_context(self.new.running(self.folder / "platform.key"))
            stack.enter_context(self.duty_process())
            yield


@pytest.mark.e2e
def test_each_environment_has_its_enclave_until_the_old_one_is_drained(anvil: Anvil, tmp_path: Path) -> None:
    upgrade = Upgrade(anvil, tmp_path)
    old, new, platform = upgrade.old, upgrade.new, tmp_path / "platform.key"
    with upgrade.running():
        with old.running(platform):
            first, second = upgrade.anchor(old, 2), upgrade.anchor(new, 2)
            upgrade.wait_audited([*first, *second])
            assert (old.judged.keys(), new.judged.keys()) == (set(first), set(second))
        # It comes back once more: what came meanwhile waited for it, and what the new one can do did not wait.
        late, third = upgrade.anchor(old, 1), upgrade.anchor(new, 1)
        upgrade.wait_audited(third)
        assert not upgrade.audited().keys() & set(late)
        with old.running(platform):
            upgrade.wait_audited(late)
        # Drained: only the new environment is left.
        fourth = upgrade.anchor(new, 2)
        upgrade.wait_audited(fourth)
    assert set(old.judged) == {*first, *late} and set(new.judged) == {*second, *third, *fourth}
    assert {*old.judged.values(), *new.judged.values()} == {"EXECUTED"}
