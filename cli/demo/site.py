"""The files of one run: a folder for each actor with its own configuration, keys and database."""

import errno
import functools
import itertools
import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.storage.migrate import database_on
from cli.demo.plan import OPERATORS, SHARDS, VERIFIERS

# Ports for the processes of a network on one machine, chosen before the processes start.

HOST = "127.0.0.1"

_FIRST, _END, _BLOCK = 10_000, 32_768, 512
"""Range of ports. It is below the range that Linux uses by default for outgoing connections and for port 0 (ip(7),
`ip_local_port_range`)."""


class _Block(NamedTuple):
    claim: socket.socket
    """Socket on the first port of the block. It stays bound until this process ends, so that no other process takes the block."""
    rest: Iterator[int]
    """The other ports of the block, in an endless cycle."""


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different.

    A port comes again only after hundreds of others, and no other process that calls this function gets it, so it can be bound
    later. Ports that the kernel chooses have neither property: the kernel may choose one again as soon as the probe is closed.
    `ConfigurationError` if there are not enough free ports.
    """
    found = list(itertools.islice(filter(_is_free, itertools.islice(_own().rest, _BLOCK - 1)), count))
    if len(found) < count:
        raise ConfigurationError("ports", f"{len(found)} of {HOST} are free where {count} are needed: end processes left over")
    return found


@functools.cache
def _own() -> _Block:
    return _claim(range(_FIRST, _END - _BLOCK, _BLOCK))


def _claim(firsts: Iterable[int]) -> _Block:
    for first in firsts:
        claim = socket.socket()
        if _binds(claim, first):
            return _Block(claim, itertools.cycle(range(first + 1, first + _BLOCK)))
        claim.close()
    raise ConfigurationError("ports", f"all blocks from {_FIRST} to {_END} of {HOST} are taken: end processes left over")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Servers set this option, too: a connection that has just ended then does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return _binds(probe, port)


def _binds(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind((HOST, port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise ConfigurationError("ports", f"{HOST}:{port}: {error.strerror}") from None
        return False
    return True


@dataclass(frozen=True, slots=True)
class Ports:
    """TCP ports of this run."""

    chain: int
    da: int
    proxy: int
    hints: int
    dashboard: int
    shards: tuple[int, ...]
    channels: tuple[int, ...]
    operators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """Paths and addresses of one run."""

    root: Path
    """The folder in which the demo was started."""
    folder: Path
    """The run's folder."""
    ports: Ports
    """Loopback ports."""
    epoch: int
    """Key epoch."""
    database_server: str = ""
    """URL of a PostgreSQL server on which every actor has a database of its own; empty: SQLite in the actor's folder."""

    @property
    def listen(self) -> str:
        """Address that every process listens on."""
        return HOST

    def host(self, actor: str) -> str:
        """Host under which the others reach an actor."""
        return HOST

    def aliases(self, actor: str) -> tuple[str, ...]:
        """Other hosts under which a TLS service is reached."""
        return ()

    @property
    def rpc_url(self) -> str:
        """The chain itself."""
        return f"http://{self.host('chain')}:{self.ports.chain}"

    def member_rpc_url(self, name: str) -> str:
        """The chain as a member sees it: through the node that may drop answers."""
        return f"http://{self.host('proxy')}:{self.ports.proxy}/{name}"

    @property
    def control_url(self) -> str:
        """URL at which that node takes orders."""
        return f"http://{self.host('proxy')}:{self.ports.proxy}/control"

    @property
    def hints_url(self) -> str:
        """URL at which auditors send hints to the watchtower."""
        return f"https://{self.host('watchtower')}:{self.ports.hints}"

    @property
    def dashboard_url(self) -> str:
        """Pages and read API."""
        return f"http://{self.host('dashboard')}:{self.ports.dashboard}"

    @property
    def da_url(self) -> str:
        """The DA store."""
        return f"http://{self.host('da')}:{self.ports.da}"

    def shard_url(self, index: int) -> str:
        """HTTPS address of a KMS shard; index from 1."""
        return f"https://{self.host(f'shard{index}')}:{self.ports.shards[index - 1]}"

    def shard_channel(self, index: int) -> str:
        """Address at which a KMS shard accepts attested channels; index from 1."""
        return f"{self.host(f'shard{index}')}:{self.ports.channels[index - 1]}"

    def operator_url(self, name: str) -> str:
        """HTTPS address of an operator."""
        return f"https://{self.host(name)}:{self.ports.operators[OPERATORS.index(name)]}"

    @property
    def chain_states(self) -> Path:
        """Folder of the states that the development chain takes out of its memory."""
        return self.folder / "chain-states"

    @property
    def capsules(self) -> Path | None:
        """Folder of capsules, which the watchtower writes and the dashboard reads; None: they share no folder."""
        return self.folder / "capsules"

    def of(self, actor: str) -> Path:
        """An actor's own folder."""
        return self.folder / actor

    def enclave(self, name: str) -> Path:
        """Folder of a verifier's enclave."""
        return self.of(name)

    def job_socket(self, name: str) -> Path:
        """Socket at which a verifier's enclave takes jobs."""
        return self.of(name) / "enclave.sock"

    def ready_file(self, name: str) -> Path:
        """File that a verifier's enclave writes once it takes jobs."""
        return self.job_socket(name).with_name("enclave.ready")

    def platform_file(self, name: str) -> Path:
        """Key file of the simulated machine that a verifier's enclave runs on."""
        return self.enclave(name) / "platform.pem"

    def certificate(self, name: str) -> Path:
        """TLS certificate of an operator or the watchtower, PEM."""
        return self.of(name) / "tls.pem"

    @property
    def public(self) -> Path:
        """Folder of the files that every actor reads."""
        return self.folder

    def metrics(self, actor: str) -> Mapping[str, Any]:
        """Section `[metrics]` of a process's settings; empty: the process has no listener for metrics and probes."""
        return {}

    def database(self, actor: str) -> str:
        """URL of an actor's own database."""
        if self.database_server:
            return database_on(self.database_server, self.database_name(actor))
        return f"sqlite:///{self.of(actor) / 'actor.db'}"

    def database_name(self, actor: str) -> str:
        """Name of an actor's database on the server. No other run uses the name."""
        return f"bytewise_{self.folder.name.replace('-', '_')}_{actor}"

    @property
    def network_file(self) -> Path:
        """The address book."""
        return self.public / "network.json"

    @property
    def epoch_file(self) -> Path:
        """The public document of the key ceremony."""
        return self.public / "epoch.json"

    @property
    def coordinator_key(self) -> Path:
        """Key file of the ceremony coordinator's account."""
        return self.folder / "kms" / "coordinator.key"

    @property
    def spare_key(self) -> Path:
        """Key of an account that no process uses. It exists if the network stays up."""
        return self.folder / "spare" / "account.key"

    @property
    def spare_platform(self) -> Path:
        """Key file of a simulated machine that no process uses. It exists if the network stays up."""
        return self.folder / "spare" / "platform.pem"

    @property
    def policy_file(self) -> Path:
        """The appraisal policy."""
        return self.public / "policy.json"

    @property
    def environment_file(self) -> Path:
        """The registered environment."""
        return self.public / "environment.json"

    @property
    def artifact(self) -> Path:
        """The model that every receipt names. It is kept from run to run."""
        return self.root / "build" / "models" / "lighthouse"

    @property
    def other_artifact(self) -> Path:
        """The other model, which the dishonest operator uses for one request."""
        return self.artifact.with_name("other")

    @property
    def openings(self) -> Path:
        """Folder of the openings that the clients keep."""
        return self.folder / "client"


def new_site(root: Path, folder: Path, epoch: int, database_server: str = "") -> Site:
    """Makes an empty folder for one run with a key of this epoch, and chooses free ports."""
    ports = free_ports(5 + 2 * SHARDS + len(OPERATORS))
    rest = iter(ports[5:])
    shards, channels, operators = (tuple(islice(rest, count)) for count in (SHARDS, SHARDS, len(OPERATORS)))
    site = Site(
        root, folder, Ports(ports[0], ports[1], ports[2], ports[3], ports[4], shards, channels, operators), epoch, database_server
    )
    folder.mkdir(parents=True, exist_ok=False)
    make_folders(site)
    return site


def make_folders(site: Site) -> None:
    """One folder for each actor."""
    for actor in (*OPERATORS, *VERIFIERS, "watchtower", "challenger", "deployer", "client", "da", "kms", "tee", "dashboard"):
        site.of(actor).mkdir()


def write_toml(path: Path, values: Mapping[str, Any]) -> Path:
    """Writes a configuration file: plain values first, one section for each mapping."""
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if not isinstance(value, Mapping)]
    for section, inner in values.items():
        if isinstance(inner, Mapping):
            lines += [f"\n[{section}]", *(f"{key} = {_toml(value)}" for key, value in inner.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    # JSON's strings, numbers and booleans are TOML's.
    return json.dumps(str(value) if isinstance(value, Path) else value)
