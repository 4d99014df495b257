"""A key made by real shard processes over HTTPS for an epoch of a real chain; one of them is killed in the middle.

Runs where BYTEWISE_SOAK_KMS is set (`make soak-kms`): it takes a minute of processor time.
"""

import secrets
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.crypto.shares import combine_values
from bytewise.protocol.address_book import Network
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, ShardRefused, StoreCorrupt, TryAgain
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys.ceremony import ShardEntry, SignedPlan
from bytewise.protocol.keys.epochs import EpochDocument, EpochState, ShardInfo
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Blob
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment, library_variables
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import open_database
from bytewise.tee_simulated.__main__ import simulated_policy
from bytewise.tee_simulated.root import issue, make_root
from chain.client.address_book import read_network, write_network
from chain.sending.keys import save_signer
from cli.__main__ import main
from cli.demo.site import free_ports
from kms.shard_client import ShardClient
from kms.storage import keyring
from tests.anvil import CHAIN_ID, Anvil, running_anvil
from tests.devnet import founded, reader, signer
from tests.e2e.memory import in_files, in_memory, scalar_forms, sees_closed, verify_closed
from tests.unit.kms.world import wait_until

pytestmark = pytest.mark.skipif(not library_variables(("BYTEWISE_SOAK_KMS",)), reason="BYTEWISE_SOAK_KMS is not set")

ROOT = Path(__file__).resolve().parents[3]
EPOCH, COUNT = 2, 3


class Shards:
    """Three shard processes; each can be started, killed and asked."""

    def __init__(self, folder: Path, anvil: Anvil, network: Network, scribe: LocalSigner) -> None:
        self.folder, self.anvil, self.network, self.scribe = folder, anvil, network, scribe
        self.entries = {n: self.enrol(n) for n in range(1, COUNT + 1)}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def of(self, number: int) -> Path:
        """Folder of a shard."""
        return self.folder / f"shard-{number}"

    def enrol(self, number: int, epoch_file: str = "epoch.json") -> ShardEntry:
        """`bytewise kms init`; the epoch file is beside the shards' folders."""
        folder, (port, channel_port) = self.of(number), free_ports(2)
        url, channel = f"https://127.0.0.1:{port}", f"127.0.0.1:{channel_port}"
        network = ["--network", str(self.folder / "network.json"), "--rpc", self.anvil.url, "--scribe", self.scribe.address]
        assert main(["kms", "init", str(folder), "--url", url, "--channel", channel, *network, "--simulated"]) == Exit.OK
        text = (folder / "serve.toml").read_text().replace('finality = "finalized"', 'finality = "latest"')
        text = text.replace('"epoch.json"', f'"../{epoch_file}"').replace('"policy.json"', '"../policy.json"')
        (folder / "serve.toml").write_text(text)
        issue(self.folder / "tee", folder / "platform.pem")
        return decode(ShardEntry, (folder / "entry.json").read_bytes())

    def start(self, number: int) -> None:
        """Starts a shard."""
        self.processes[number] = self._python("serve", self.of(number) / "serve.toml")

    def kill(self, number: int) -> None:
        """SIGKILL."""
        self.processes[number].kill()
        assert self.processes[number].wait(60) == -signal.SIGKILL

    def stop(self, numbers: Iterable[int]) -> None:
        """They end well."""
        ending = [self.processes.pop(number) for number in numbers]
        for process in ending:
            process.send_signal(signal.SIGTERM)
        assert {process.wait(60) for process in ending} == {0}

    def answers(self, number: int, serving: bool) -> bool:
        """Whether a shard is there, and whether it serves the epoch."""
        entry = self.entries[number]
        assert self.processes[number].poll() is None, (number, (self.of(number) / "log.txt").read_text())
        try:
            with ShardClient(
                ShardRecord(number, entry.address, entry.url, entry.channel, entry.certificate, Blob(b"")), 2
            ) as client:
                return decode(ShardInfo, client.call("GET", "/v1/info", b"")).epoch == EPOCH and serving
        except ShardRefused:
            return not serving
        except TryAgain:
            return False

    def _python(self, *command: object) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-m", "kms", str(command[0]), "--config", str(command[1])]
        with (Path(str(command[1])).parent / "log.txt").open("ab") as log:
            return subprocess.Popen(words, cwd=ROOT, env=child_environment(), stderr=log)


@contextmanager
def running(shards: Shards, serving: bool, numbers: Sequence[int] = range(1, COUNT + 1)) -> Iterator[None]:
    """These shards, started and answering; killed if the test fails."""
    try:
        for number in numbers:
            shards.start(number)
        wait_until(lambda: all(shards.answers(n, serving) for n in numbers))
        yield
        shards.stop(numbers)
    finally:
        for process in [shards.processes[number] for number in numbers if number in shards.processes]:
            process.kill()
            process.wait(60)


@pytest.fixture()
def shards(tmp_path: Path) -> Iterator[Shards]:
    with running_anvil() as anvil:
        network, scribe = founded(anvil), LocalSigner(secrets.token_bytes(32))
        write_network(tmp_path / "network.json", network)
        save_signer(tmp_path / "scribe.key", scribe)
        save_signer(tmp_path / "curator.key", signer(0))
        make_root(tmp_path / "tee")
        (tmp_path / "policy.json").write_bytes(encode(simulated_policy(tmp_path / "tee", CHAIN_ID, 1)))
        (tmp_path / "dkg.toml").write_text(
            f"epoch = {EPOCH}\nthreshold = 2\nquorum = 3\nreveal_budget = 1\nassurance = 'simulated'\nphase_s = 90.0\n"
            "network_file = 'network.json'\nscribe_key_file = 'scribe.key'\nplan_file = 'plan.json'\nout_file = 'epoch.json'\n"
            f"database_url = 'sqlite:///{tmp_path / 'scribe.sqlite'}'\n"
            f"entries = [{', '.join(repr(f'shard-{n}/entry.json') for n in range(1, COUNT + 1))}]\n"
        )
        yield Shards(tmp_path, anvil, network, scribe)


def log_length(folder: Path) -> int:
    """How many messages the scribe has."""
    try:
        plan = decode(SignedPlan, (folder / "plan.json").read_bytes()).plan
        kept = Ceremonies(open_database(f"sqlite:///{folder / 'scribe.sqlite'}")).find(plan.digest)
    except (OSError, StoreCorrupt, TryAgain, ConfigurationError):
        return 0
    return len(kept.log) if kept else 0


def bytewise(*words: str) -> "subprocess.Popen[bytes]":
    """The command as a process."""
    return subprocess.Popen([sys.executable, "-m", "cli", *words], cwd=ROOT, env=child_environment())


@pytest.mark.e2e
def test_three_processes_one_of_them_killed_make_the_key_of_an_epoch_that_none_of_them_has(shards: Shards) -> None:
    folder = shards.folder
    with running(shards, serving=False):
        conducting = bytewise("kms", "dkg", "--config", str(folder / "dkg.toml"))
        wait_until(lambda: log_length(folder) >= 7)  # three joined, three committed, and dealing has begun
        shards.kill(2)
        shards.start(2)
        assert conducting.wait(200) == 0
        document = decode(EpochDocument, (folder / "epoch.json").read_bytes())
        held = {n: keyring.find_share(shards.of(n), EPOCH, document.commitments).scalar() for n in range(1, COUNT + 1)}
        key = combine_values({n: held[n] for n in (1, 3)})
        assert encode_point(GENERATOR * key) == document.record.public_key
        nowhere(shards, held, key)
    put_in_force(shards, "dkg.toml")
    book = read_network(folder / "network.json")
    found = reader(shards.anvil, book).epoch_on_chain(EPOCH, shards.anvil.client.head().number)
    assert (found.state, found.public_key, found.threshold) == (EpochState.ACTIVE, document.record.public_key, 2)
    assert found.commitments == b"".join(document.commitments) and book.epochs[-1] == document
    with running(shards, serving=True):
        forms = scalar_forms(held[1])
        if sees_closed():
            assert in_memory(shards.processes[1].pid, forms), "a scanner that finds nothing proves nothing"
        else:
            # Who may not search closed processes sees at least that they are closed.
            assert [verify_closed(each.pid) for each in shards.processes.values()]
        nowhere(shards, held, key)
        renewed = renew(shards, document)
    (folder / "epoch.json").write_bytes(encode(renewed))
    (folder / "plan.json").unlink()
    with running(shards, serving=True):  # the epoch exists: nobody makes its key again
        (folder / "dkg.toml").write_text((folder / "dkg.toml").read_text().replace("phase_s = 90.0", "phase_s = 1.0"))
        assert main(["kms", "dkg", "--config", str(folder / "dkg.toml")]) == Exit.INCONCLUSIVE


def renew(shards: Shards, document: EpochDocument) -> EpochDocument:
    """New shares of the same key, while the old ones are served; then the chain says that the new ones are meant."""
    folder, chain = shards.folder, reader(shards.anvil, read_network(shards.folder / "network.json"))
    text = (folder / "dkg.toml").read_text().replace("plan.json", "plan-2.json").replace("'epoch.json'", "'renewed.json'")
    without = "\n".join(line for line in text.splitlines() if not line.startswith("entries"))
    (folder / "renew.toml").write_text(without + "\nsource_file = 'epoch.json'\n")
    assert main(["kms", "reshare", "--config", str(folder / "renew.toml")]) == Exit.OK
    renewed = decode(EpochDocument, (folder / "renewed.json").read_bytes())
    assert renewed.record.public_key == document.record.public_key and renewed.commitments[1:] != document.commitments[1:]
    assert chain.epoch_on_chain(EPOCH, shards.anvil.client.head().number).version == 0
    put_in_force(shards, "renew.toml")
    found = chain.epoch_on_chain(EPOCH, shards.anvil.client.head().number)
    assert (found.version, found.commitments) == (1, b"".join(renewed.commitments))
    for number in range(1, COUNT + 1):
        old, new = (keyring.find_share(shards.of(number), EPOCH, each.commitments) for each in (document, renewed))
        assert old.scalar() != new.scalar()
    return renewed


def put_in_force(shards: Shards, config: str) -> None:
    """`bytewise kms open`."""
    folder = shards.folder
    command = ["kms", "open", "--config", str(folder / config), "--key", str(folder / "curator.key")]
    assert main([*command, "--network", str(folder / "network.json"), "--rpc", shards.anvil.url]) == Exit.OK


def nowhere(shards: Shards, held: dict[int, int], key: int) -> None:
    """Asserts that no process holds the key or another's share, and that no file holds any of them."""
    for number, process in shards.processes.items():
        others = {f"share {n} {form}": needle for n in held if n != number for form, needle in scalar_forms(held[n]).items()}
        assert in_memory(process.pid, scalar_forms(key) | others) == set()
    shown = {f"{n} {form}": needle for n, value in (*held.items(), (0, key)) for form, needle in scalar_forms(value).items()}
    assert in_files(shards.folder, shown) == {}
