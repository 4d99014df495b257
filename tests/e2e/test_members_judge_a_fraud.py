"""Two members, two enclaves, a watchtower, three key shards, a store and a chain: one altered token is found and overturned.

Every actor but the shards (threads here) is a process of its own; the operator is played by the test.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.da.client import DaClient
from bytewise.inference import artifact, convert, make
from bytewise.inference.determinism import environment
from bytewise.inference.engine import ExactEngine
from bytewise.protocol import merkle
from bytewise.protocol.digests import out_hash
from bytewise.protocol.docket import Case
from bytewise.protocol.encoding import encode
from bytewise.protocol.environment import Environment
from bytewise.protocol.keys import EpochDocument
from bytewise.protocol.messages import AuditOutcome, Verdict
from bytewise.protocol.network import Network
from bytewise.protocol.phases import Phase
from bytewise.protocol.receipt import BatchHeader, ClientMode, Mode, Receipt, ReceiptList, SignedReceipt, batch_leaves, receipt_id
from bytewise.protocol.request import REQUEST_VERSION, DecodePolicy, Request, output_for
from bytewise.protocol.seal import Payload, client_digest, envelope_hash, seal_context
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.succession import first_standing
from bytewise.protocol.units import U8, U32, U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Decimal, Digest
from bytewise.service.certificates import make_certificate
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.service.settings import child_environment
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.migrate import migrate
from bytewise.storage.releases import ReleaseRecords
from bytewise.tee_simulated.__main__ import simulated_policy
from bytewise.tee_simulated.root import issue, make_root
from chain.book import write_network
from chain.deploy import (
    Joiner,
    Policy,
    Proposed,
    activate,
    certify,
    deploy,
    environment_proposal,
    join,
    put_in_force,
    survey,
)
from chain.keys import save_signer
from chain.params import DEVNET, ETHER, changed
from chain.plan import DEVNET_SHAPE, Vote
from chain.reader import DocketReader
from kms import keyring
from kms.chain_view import ChainKeyView
from kms.dealer import deal
from kms.envelope import seal
from kms.release import Shard
from kms.settings import DealSettings, DealShard
from tests.anvil import CHAIN_ID, Anvil, running_anvil
from tests.devnet import MEASUREMENT, POOL, VECTORS, next_stake_epoch, sender, signer, word
from tests.source import ROOT
from tests.unit.da.conftest import run_store
from tests.unit.kms.world import World as Shards
from tests.unit.kms.world import free_port

WAIT_S = 180.0
OPERATOR, CLIENT, WATCHTOWER = signer(1), signer(2), signer(8)
MEMBERS = (signer(3), signer(4))
PARAMS = changed(DEVNET, {
    "times": {"window": 75, "commit_time": 40, "reveal_time": 20, "appeal_time": 3, "airgap": 3},
    "committee": {"min_pool": 2},
    "shares": {"audit_rate_bps": 10_000},
})  # fmt: skip
SHAPE = replace(DEVNET_SHAPE, epoch_blocks=20, lookahead=2, shortest=2, join_blocks=1)


def eventually(what: str, condition: Callable[[], object]) -> None:
    """Returns once the condition holds; fails after a while."""
    deadline, idle = monotonic_s() + WAIT_S, threading.Event()
    while not condition():
        assert monotonic_s() < deadline, f"not in time: {what}"
        idle.wait(0.3)


@contextmanager
def process(folder: Path, module: str, config: dict[str, object]) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of ours with its configuration; asserts that SIGTERM ends it cleanly."""
    file = folder / f"{module}.json"
    file.write_bytes(encode(config))
    with (folder / f"{module}.log").open("wb") as log:
        command = [sys.executable, "-m", module, "--config", str(file)]
        child = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stdout=log, stderr=log)
        try:
            yield child
        finally:
            child.terminate()
            code = child.wait(timeout=60)
    assert code == 0, (folder / f"{module}.log").read_text()[-3000:]


class Town:
    """One network in one folder."""

    def __init__(self, folder: Path, anvil: Anvil, da_url: str) -> None:
        self.folder, self.anvil, self.da_url = folder, anvil, da_url
        make.make_model(folder / "checkpoint", 1, layers=4, width=64, heads=4, key_value_heads=2, context=512)
        convert.convert(folder / "checkpoint", folder / "model")
        self.model = artifact.load(folder / "model")
        self.place: Environment = environment(self.model)
        make_root(folder / "root")
        self.policy = simulated_policy(folder / "root", CHAIN_ID, 1)
        self.epoch = self._deal()
        self.network = self._deploy()
        write_network(folder / "network.json", self.network)
        (folder / "w").mkdir()
        make_certificate(folder / "w/tls.pem", folder / "w/tls.key", "127.0.0.1", "watchtower")
        self.tip_port = free_port()
        self.reader = DocketReader(anvil.client, self.network)

    def _deal(self) -> EpochDocument:
        self.ports = [free_port() for _ in range(3)]
        places = tuple(DealShard(self.folder / f"shard-{i}", f"https://127.0.0.1:{p}") for i, p in enumerate(self.ports, 1))
        self.settings = DealSettings(U64(1), 2, "simulated", self.folder / "epoch.json", places)
        return deal(self.settings, os.urandom)

    def _deploy(self) -> Network:
        client, curator = self.anvil.client, signer(0)
        self.anvil.mine(2)
        site = survey(client, curator.address, PARAMS, SHAPE, [POOL], Vote(*(curator.address,) * 3))
        network = deploy(client, curator, site)
        model = Proposed(self.model.model_id, ZERO_DIGEST, VECTORS, encode(self.model.manifest))
        network = put_in_force(
            client, network, curator, [MEASUREMENT], [environment_proposal(self.place, POOL, VECTORS), model],
            Policy(self.policy.digest, 1, encode(self.policy)), [self.epoch],
        )  # fmt: skip
        joiners = [Joiner(OPERATOR, 40 * ETHER, "https://operator")]
        joiners += [Joiner(m, 32 * ETHER, None, POOL, word("machine", m.address), MEASUREMENT) for m in MEMBERS]
        join(client, network, joiners)
        next_stake_epoch(self.anvil, network)
        items = {self.place.digest: VECTORS, self.model.model_id: VECTORS}
        certify(client, network, MEMBERS, items)
        activate(client, network, curator, list(items))
        return network

    def case(self, receipt: SignedReceipt) -> Case:
        """The dispute about a receipt."""
        wanted = receipt_id(self.network.anchor_domain, receipt.receipt)
        return next(c for c in self.reader.docket(WATCHTOWER.address, self.reader.head()).cases if c.receipt_id == wanted)

    def shards(self) -> Any:
        """The key holders, with this chain as their view."""
        served = []
        for index in (1, 2, 3):
            folder = self.settings.shards[index - 1].folder
            url = f"sqlite:///{folder / 'kms.db'}"
            migrate(url)
            key = keyring.signer(folder)
            shard = Shard(
                self.epoch, keyring.open_share(folder, self.epoch), key, self.network.contracts, first_standing(self.policy),
                ChainKeyView(DocketReader(self.anvil.client, self.network), key.address),
                ReleaseRecords(open_database(url), self.network.epochs_domain), SystemClock(), os.urandom, 100,
            )  # fmt: skip
            served.append((index, shard))
        return Shards.serving(self, *served)  # type: ignore[arg-type]

    def answer(self, seq: int, engine: ExactEngine, cheat: bool) -> SignedReceipt:
        """A receipt of the operator for one request, its envelope on DA."""
        now = self.anvil.client.head().timestamp
        decode = DecodePolicy(12, Decimal("0"), Decimal("1"), 0, ())
        request = Request(
            REQUEST_VERSION, self.model.model_id,
            "m", self.place.digest, decode, U64(0), tuple(range(65, 95)), ZERO_DIGEST, ZERO_DIGEST,
            None, Digest(os.urandom(32)), U256(CHAIN_ID), U64(now + 600), CLIENT.address, None,
        )  # fmt: skip
        truth = engine.generate(request)
        output = truth.output
        if cheat:
            tokens = (*output.token_ids[:5], (output.token_ids[5] + 1) % 250, *output.token_ids[6:])
            output = output_for(request, tokens, output.finish_reason)
        draft = Receipt(
            OPERATOR.address, U64(seq), request.req_hash, output.tokens_hash, out_hash(output.tokens_hash, truth.trace_root),
            self.model.model_id, self.place.digest, self.place.gpu_arch_id, U64(1), ZERO_DIGEST, U64(now), U64(now + 60),
            U8(Mode.PLAIN), U8(ClientMode.DELEGATED), ZERO_ADDRESS, U256(CHAIN_ID),
        )  # fmt: skip
        domain = self.network.anchor_domain
        payload = Payload(request, output, CLIENT.sign(client_digest(request.req_hash, CHAIN_ID)))
        envelope = seal(payload, self.epoch.record.public_key, seal_context(domain, draft), 1, os.urandom)
        receipt = replace(draft, envelope_hash=envelope_hash(envelope))
        with DaClient((self.da_url,), 10.0) as da:
            return SignedReceipt(receipt, OPERATOR.sign(receipt_id(domain, receipt)), da.put(envelope))

    def anchor(self, entries: tuple[SignedReceipt, ...]) -> None:
        """Publishes and posts one batch."""
        listed = ReceiptList(OPERATOR.address, entries[0].receipt.seq, entries)
        with DaClient((self.da_url,), 10.0) as da:
            locator = da.put(encode(listed))
        root = merkle.batch_root(batch_leaves(self.network.anchor_domain, entries))
        header = BatchHeader(
            0, OPERATOR.address, entries[0].receipt.seq, U32(len(entries)), root, listed.list_hash, self.place.digest,
            self.model.model_id, U64(1), locator, U64(0), U64(0),
        )  # fmt: skip
        poster = sender(self.anvil, self.network, OPERATOR, self.folder)
        poster.anchor(header, 2 * len(entries) * self.reader.docket(OPERATOR.address, self.reader.head()).price_wei)
        eventually("batch anchored", lambda: poster.pump() == 0)

    def actor(self, name: str, key: LocalSigner, role: str, socket: Path | None) -> tuple[Path, dict[str, object]]:
        """Folder and configuration of a duty process."""
        folder = self.folder / name
        save_signer(folder / "account.key", key)
        url = f"sqlite:///{folder / 'actor.db'}"
        migrate(url)
        config: dict[str, object] = {
            "role": role, "rpc_url": self.anvil.url, "network_file": str(self.folder / "network.json"),
            "key_file": str(folder / "account.key"), "database": url, "journal_key_file": str(folder / "journal.key"),
            "da_urls": [self.da_url], "ready_file": str(folder / "ready"),
        }  # fmt: skip
        if socket is not None:
            tower = self.folder / "w"
            config |= {"enclave_socket": str(socket), "tip_urls": [f"https://127.0.0.1:{self.tip_port}"]}
            config["tip_certificate_file"] = str(tower / "tls.pem")
        else:
            tls = {"certificate_file": str(folder / "tls.pem"), "tls_key_file": str(folder / "tls.key")}
            config["tips"] = {"port": self.tip_port, **tls}
        return folder, config

    def enclave(self, name: str) -> tuple[Path, dict[str, object]]:
        """Folder and configuration of an enclave."""
        folder = self.folder / name
        folder.mkdir()
        issue(self.folder / "root", folder / "platform.pem")
        return folder, {
            "artifact": str(self.folder / "model"), "socket": str(folder / "jobs.sock"), "chain_id": CHAIN_ID,
            "evidence": "simulated", "platform_file": str(folder / "platform.pem"), "insecure_accept_simulated": True,
            "ready_file": str(folder / "enclave.ready"),
        }  # fmt: skip


@pytest.mark.e2e
def test_an_altered_token_is_audited_disputed_and_overturned_and_the_honest_receipt_is_left_alone(tmp_path: Path) -> None:
    with ExitStack() as stack:
        da_url = stack.enter_context(contextmanager(run_store)(tmp_path))
        anvil = stack.enter_context(running_anvil("--block-time", "1"))
        town = Town(tmp_path, anvil, da_url)
        for index in range(len(MEMBERS)):
            folder, config = town.enclave(f"m{index}")
            stack.enter_context(process(folder, "verifier.enclave", config))
        stack.enter_context(town.shards())
        engine = ExactEngine(town.model)
        for index, key in enumerate(MEMBERS):
            folder, config = town.actor(f"m{index}", key, "verifier", tmp_path / f"m{index}" / "jobs.sock")
            stack.enter_context(process(folder, "committee", config))
        folder, config = town.actor("w", WATCHTOWER, "watchtower", None)
        stack.enter_context(process(folder, "verifier", config))
        for name in ("m0/enclave.ready", "m1/enclave.ready", "m0/ready", "m1/ready", "w/ready"):
            eventually(name, (tmp_path / name).exists)
        honest, fraud = town.answer(1, engine, cheat=False), town.answer(2, engine, cheat=True)
        town.anchor((honest, fraud))
        _expect_audits(town, honest, fraud)
        case = _expect_verdict(town, fraud)
        assert case.verdict is Verdict.OVERTURNED
        assert all(any(member.group) for member in case.members)
        assert [each.knew for each in case.challengers] == [True], "the auditors told the watchtower what it could not know"
        assert town.reader.docket(WATCHTOWER.address, town.reader.head()).case_count == 1
        eventually("seats paid", lambda: all(each.settled == each.seats for each in town.case(fraud).rounds))
        assert town.reader.money(town.reader.head()).sums
    for folder in (tmp_path / name for name in ("m0", "m1", "w")):
        journal = Journal(open_database(f"sqlite:///{folder / 'actor.db'}"), journal_key(folder / "journal.key"), SystemClock())
        journal.verify_journal()
    votes = [json.loads(line) for line in (tmp_path / "m0/verifier.enclave.log").read_text().splitlines()]
    assert [v["verify_passes"] for v in votes if v["event"] == "enclave.judged"] == [1, 1, 1]


def _expect_audits(town: Town, honest: SignedReceipt, fraud: SignedReceipt) -> None:
    first = int(town.network.deploy_block)
    eventually("audits posted", lambda: len(town.reader.audits(first, town.reader.head())) == 4)
    said = {(r.receipt_id, r.verifier): r.result for r, _ in town.reader.audits(first, town.reader.head())}
    domain = town.network.anchor_domain
    for member in MEMBERS:
        assert said[(receipt_id(domain, honest.receipt), member.address)] == AuditOutcome.MATCH
        assert said[(receipt_id(domain, fraud.receipt), member.address)] == AuditOutcome.MISMATCH


def _expect_verdict(town: Town, fraud: SignedReceipt) -> Case:
    def ended() -> bool:
        cases = town.reader.docket(WATCHTOWER.address, town.reader.head()).cases
        return any(each.phase is Phase.FINAL for each in cases)

    eventually("a verdict", ended)
    return town.case(fraud)
