"""A real operator for tests: anvil, a DA store, a small model and `python -m serving`, each its own process."""

import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.inference.artifact import artifact as artifacts
from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import make_model
from bytewise.inference.determinism import environment
from bytewise.protocol.address_book import Network
from bytewise.protocol.encoding import encode
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import ZERO_DIGEST
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.service.settings import child_environment
from bytewise.storage.engine import open_database
from bytewise.storage.migrate import migrate
from bytewise.storage.receipt_store import Books
from chain.client.address_book import write_network
from chain.deployment.deploy import Joiner, Proposed, deploy, environment_proposal, join, put_in_force, survey
from chain.deployment.params import DEVNET
from chain.deployment.plan import DEVNET_SHAPE, Vote
from chain.reads.reader import DocketReader
from chain.sending.keys import save_signer
from cli.demo.site import free_ports
from kms.storage.keyring import enrol
from tests.anvil import Anvil, running_anvil
from tests.devnet import (
    MEASUREMENT,
    POLICY,
    POOL,
    SHARDS,
    STAKE_WEI,
    VECTORS,
    VERIFIERS,
    epoch_document,
    in_force,
    signer,
    word,
)
from tests.vouched import key_in_force

ROOT = Path(__file__).parents[1]
MODEL_NAME = "tiny"
SECRET = 2**200 + 12345
"""Private key of the test's epoch: lets a test open envelopes as a committee would."""
READY_S = 60.0


@dataclass(frozen=True, slots=True)
class Operator:
    """A network with one operator, which `serve` starts."""

    folder: Path
    network: Network
    environment: Environment
    artifact: Path
    anvil: Anvil
    da_url: str
    port: int

    @property
    def account(self) -> LocalSigner:
        """Key of the staked account."""
        return signer(1)

    @property
    def url(self) -> str:
        """Base URL of the API."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def database_url(self) -> str:
        """Its database."""
        return f"sqlite:///{self.folder / 'operator.db'}"

    @property
    def books(self) -> Books:
        """Its books, as a reader of its database sees them."""
        return Books(open_database(self.database_url), SystemClock(), self.account.address)

    def log(self, module: str = "serving") -> str:
        """The end of a process's log, for assertion messages."""
        return (self.folder / f"{module}.log").read_text()[-2000:]

    def wait_anchored(self, count: int) -> None:
        """Until the chain has so many receipts of this operator."""
        reader, deadline, pause = DocketReader(self.anvil.client, self.network), monotonic_s() + READY_S, threading.Event()
        while reader.holdings(self.account.address, reader.head()).last_seq < count:
            assert monotonic_s() < deadline, self.log()
            pause.wait(0.1)

    def http(self) -> httpx2.Client:
        """A client that trusts this operator's certificate and no other."""
        context = ssl.create_default_context(cafile=str(self.folder / "tls.pem"))
        return httpx2.Client(verify=context, timeout=60.0, trust_env=False)


def body(text: str, **knobs: Any) -> dict[str, Any]:
    """A short chat request."""
    return {"model": MODEL_NAME, "messages": [{"role": "user", "content": text}], "max_tokens": 6} | knobs


def make_artifact(folder: Path, seed: int = 1) -> Path:
    """A converted model of two small layers."""
    make_model(folder / f"checkpoint-{seed}", seed, layers=2, width=64, heads=4, key_value_heads=2, context=1024)
    convert(folder / f"checkpoint-{seed}", folder / f"artifact-{seed}")
    return folder / f"artifact-{seed}"


@contextmanager
def running_operator_site(folder: Path, seconds_per_block: int | None = 1) -> Iterator[Operator]:
    """Everything but the operator's own process, which a test starts with `serve`."""
    with ExitStack() as stack:
        options = () if seconds_per_block is None else ("--block-time", str(seconds_per_block))
        anvil = stack.enter_context(running_anvil(*options))
        artifact = make_artifact(folder)
        loaded = artifacts.load(artifact)
        place = environment(loaded, max_new_tokens=64, max_context=512)
        da_port, port = free_ports(2)
        network = _network(anvil, place, loaded)
        write_network(folder / "network.json", network)
        (folder / "environment.json").write_bytes(encode(place))
        enrol(folder, f"https://127.0.0.1:{port}", lambda n: word("tls")[:n])
        save_signer(folder / "operator.key", signer(1))
        save_signer(folder / "gateway.key", LocalSigner(word("gateway")))
        operator = Operator(folder, network, place, artifact, anvil, f"http://127.0.0.1:{da_port}", port)
        migrate(operator.database_url)
        (folder / "da.toml").write_text(f'directory = "blobs"\nport = {da_port}\nmemstore = true\n')
        stack.enter_context(process(folder, "bytewise.da", "serve", "--config", str(folder / "da.toml")))
        _write_settings(operator)
        yield operator


@contextmanager
def process(
    folder: Path, module: str, *arguments: str, exit_code: int = 0, root: Path = ROOT
) -> Iterator["subprocess.Popen[bytes]"]:
    """`python -m module …` until the block ends; its exit code after SIGTERM is asserted, unless it has ended before."""
    with (folder / f"{module}.log").open("ab") as log:
        command = [sys.executable, "-m", module, *arguments]
        child = subprocess.Popen(command, cwd=root, env=child_environment(), stdout=log, stderr=log)
    try:
        yield child
    finally:
        child.terminate()
        code = child.wait(60)
    assert code == exit_code, (folder / f"{module}.log").read_text()[-2000:]


@contextmanager
def serving(operator: Operator, module: str = "serving", *more: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`python -m serving`, or another module with its settings, ready."""
    with process(operator.folder, module, "--config", str(operator.folder / "operator.toml"), *more) as child:
        wait_ready(operator, child, module)
        yield child


def wait_ready(operator: Operator, child: "subprocess.Popen[bytes]", module: str = "serving") -> None:
    """Until /health says 200."""
    deadline, pause = monotonic_s() + READY_S, threading.Event()
    with operator.http() as http:
        while not _healthy(http, operator.url):
            assert child.poll() is None and monotonic_s() < deadline, operator.log(module)
            pause.wait(0.1)


def _healthy(http: httpx2.Client, url: str) -> bool:
    try:
        return http.get(f"{url}/health", timeout=5.0).status_code == 200
    except httpx2.TransportError:
        return False


def _network(anvil: Anvil, place: Environment, artifact: artifacts.Artifact) -> Network:
    document = epoch_document()
    record = replace(document.record, public_key=encode_point(GENERATOR * SECRET))
    document = EpochDocument(record, (record.public_key, record.public_key))
    client, curator = anvil.client, signer(0)
    anvil.mine(2)
    site = survey(client, curator.address, DEVNET, DEVNET_SHAPE, [POOL], Vote(*(curator.address,) * 3))
    model = Proposed(artifact.model_id, ZERO_DIGEST, VECTORS, encode(artifact.manifest))
    proposals = [environment_proposal(place, POOL, VECTORS), model]
    network = deploy(client, curator, site)
    put_in_force(client, network, curator, [MEASUREMENT], proposals, POLICY)
    network = key_in_force(client, network, curator, document, POLICY.digest, SHARDS)
    joiners = [Joiner(signer(1), STAKE_WEI, "https://127.0.0.1")]
    joiners += [Joiner(who, STAKE_WEI, None, POOL, word("machine", who.address), MEASUREMENT) for who in VERIFIERS]
    join(client, network, joiners)
    in_force(anvil, network, VERIFIERS, [place.digest, artifact.model_id])
    return network


def _write_settings(operator: Operator) -> None:
    (operator.folder / "operator.toml").write_text(f"""
database_url = "{operator.database_url}"
[listen]
certificate_file = "tls.pem"
key_file = "tls.key"
port = {operator.port}
[model]
name = "{MODEL_NAME}"
artifact = "{operator.artifact.name}"
environment_file = "environment.json"
[network]
file = "network.json"
rpc = "{operator.anvil.url}"
da = ["{operator.da_url}"]
accept_simulated = true
[keys]
operator_file = "operator.key"
gateway_file = "gateway.key"
journal_file = "journal.key"
[limits]
tick_s = 0.5
queue = 4
""")
