"""The site of a run of the demo: the folders, files, ports and URLs of all actors. Each actor has a folder with its settings,
keys and database."""

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
from bytewise.storage.migrations.migrate import database_on
from cli.demo.plan import OPERATORS, SHARDS, VERIFIERS

# Free ports for the processes of a network on one machine. The ports are chosen before the processes start.

HOST = "127.0.0.1"

_FIRST, _END, _BLOCK = 10_000, 32_768, 512
"""First port of the range, the end of the range, and the number of ports in a block. No port from the end on is used. The range
is below the one that Linux uses by default for outgoing connections and for port 0 (ip(7), `ip_local_port_range`)."""


class _Block(NamedTuple):
    """A block of consecutive ports that this process has claimed."""

    claim: socket.socket
    """Socket on the first port of the block. It stays bound until this process ends, so that no other process takes the block."""
    rest: Iterator[int]
    """The other ports of the block, in an endless cycle."""


def free_ports(count: int) -> list[int]:
    """Returns different TCP ports that were free a moment ago. Raises `ConfigurationError` if there are not enough.

    A program can bind a returned port later. No other process that calls this function gets the port, and this process gets it
    again only after hundreds of other ports. The kernel itself could also choose a free port, but may give the same port to
    another program at once.
    """
    found = list(itertools.islice(filter(_is_free, itertools.islice(_own().rest, _BLOCK - 1)), count))
    if len(found) < count:
        raise ConfigurationError("ports", f"{len(found)} of {HOST} are free where {count} are needed: end processes left over")
    return found


@functools.cache
def _own() -> _Block:
    return _claim(range(_FIRST, _END - _BLOCK, _BLOCK))


def _claim(firsts: Iterable[int]) -> _Block:
    """Claims the first block whose first port can be bound. `firsts` has the first port of each block."""
    for first in firsts:
        claim = socket.socket()
        if _binds(claim, first):
            return _Block(claim, itertools.cycle(range(first + 1, first + _BLOCK)))
        claim.close()
    raise ConfigurationError("ports", f"all blocks from {_FIRST} to {_END} of {HOST} are taken: end processes left over")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Servers also set this option. With this option, a connection that has just ended does not block the port.
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
    """TCP ports of the run's actors."""

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
    """Paths, ports and URLs of one run whose processes are all on this machine. `cli.demo.containers` has a site for
    containers."""

    root: Path
    """Folder in which the demo was started."""
    folder: Path
    """Folder of the run's files."""
    ports: Ports
    """Ports of the actors, on the loopback interface."""
    epoch: int
    """Number of the key epoch that the shards make."""
    database_server: str = ""
    """URL of a PostgreSQL server on which every actor has a database. If the URL is empty, each actor has a SQLite file in its
    folder."""

    @property
    def listen(self) -> str:
        """Address on which every process listens."""
        return HOST

    def host(self, actor: str) -> str:
        """Returns the host under which other processes reach an actor."""
        return HOST

    def aliases(self, actor: str) -> tuple[str, ...]:
        """Returns further hosts under which clients reach an actor, for the actor's TLS certificate."""
        return ()

    @property
    def rpc_url(self) -> str:
        """URL of the chain itself, without the proxy."""
        return f"http://{self.host('chain')}:{self.ports.chain}"

    def member_rpc_url(self, name: str) -> str:
        """Returns the URL at which a member reads the chain: that of the proxy, which can drop answers to this member."""
        return f"http://{self.host('proxy')}:{self.ports.proxy}/{name}"

    @property
    def control_url(self) -> str:
        """URL at which the proxy takes the director's commands."""
        return f"http://{self.host('proxy')}:{self.ports.proxy}/control"

    @property
    def hints_url(self) -> str:
        """URL at which auditors send hints to the watchtower."""
        return f"https://{self.host('watchtower')}:{self.ports.hints}"

    @property
    def dashboard_url(self) -> str:
        """URL of the dashboard's pages and read API."""
        return f"http://{self.host('dashboard')}:{self.ports.dashboard}"

    @property
    def da_url(self) -> str:
        """URL of the DA store."""
        return f"http://{self.host('da')}:{self.ports.da}"

    def shard_url(self, index: int) -> str:
        """Returns the HTTPS URL of a key shard. `index` counts from 1."""
        return f"https://{self.host(f'shard{index}')}:{self.ports.shards[index - 1]}"

    def shard_channel(self, index: int) -> str:
        """Returns the address at which a key shard accepts attested channels, as `host:port`. `index` counts from 1."""
        return f"{self.host(f'shard{index}')}:{self.ports.channels[index - 1]}"

    def operator_url(self, name: str) -> str:
        """Returns the HTTPS URL of an operator."""
        return f"https://{self.host(name)}:{self.ports.operators[OPERATORS.index(name)]}"

    @property
    def chain_states(self) -> Path:
        """Folder to which the development chain writes states of old blocks."""
        return self.folder / "chain-states"

    @property
    def capsules(self) -> Path | None:
        """Folder of evidence capsules, which the watchtower writes and the dashboard reads. None if watchtower and dashboard
        cannot share a folder."""
        return self.folder / "capsules"

    def of(self, actor: str) -> Path:
        """Returns the folder of an actor."""
        return self.folder / actor

    def enclave(self, name: str) -> Path:
        """Returns the folder of a verifier's enclave."""
        return self.of(name)

    def job_socket(self, name: str) -> Path:
        """Returns the path of the socket at which a verifier's enclave takes jobs."""
        return self.of(name) / "enclave.sock"

    def ready_file(self, name: str) -> Path:
        """Returns the path of the file that a verifier's enclave writes when it is ready to take jobs."""
        return self.job_socket(name).with_name("enclave.ready")

    def platform_file(self, name: str) -> Path:
        """Returns the path of the key file of the simulated platform on which a verifier's enclave runs."""
        return self.enclave(name) / "platform.pem"

    def certificate(self, name: str) -> Path:
        """Returns the path of the TLS certificate of an operator or the watchtower, in PEM."""
        return self.of(name) / "tls.pem"

    @property
    def public(self) -> Path:
        """Folder of the public files, which every actor reads."""
        return self.folder

    def metrics(self, actor: str) -> Mapping[str, Any]:
        """Returns the section `[metrics]` of an actor's settings, or nothing if the actor has no listener for metrics and
        probes."""
        return {}

    def database(self, actor: str) -> str:
        """Returns the URL of an actor's database."""
        if self.database_server:
            return database_on(self.database_server, self.database_name(actor))
        return f"sqlite:///{self.of(actor) / 'actor.db'}"

    def database_name(self, actor: str) -> str:
        """Returns the name of an actor's database on the PostgreSQL server. No other run uses this name."""
        return f"bytewise_{self.folder.name.replace('-', '_')}_{actor}"

    @property
    def network_file(self) -> Path:
        """File of the address book."""
        return self.public / "network.json"

    @property
    def epoch_file(self) -> Path:
        """File of the epoch document, the public result of the key ceremony."""
        return self.public / "epoch.json"

    @property
    def coordinator_key(self) -> Path:
        """Key file of the account of the ceremony's coordinator."""
        return self.folder / "kms" / "coordinator.key"

    @property
    def spare_key(self) -> Path:
        """Key file of an account that no process uses. The file exists only if the network stays up."""
        return self.folder / "spare" / "account.key"

    @property
    def spare_platform(self) -> Path:
        """Key file of a simulated platform that no process uses. The file exists only if the network stays up."""
        return self.folder / "spare" / "platform.pem"

    @property
    def policy_file(self) -> Path:
        """File of the appraisal policy."""
        return self.public / "policy.json"

    @property
    def environment_file(self) -> Path:
        """File of the registered environment."""
        return self.public / "environment.json"

    @property
    def artifact(self) -> Path:
        """Folder of the artifact of the model that every receipt names. Later runs use the artifact again."""
        return self.root / "build" / "models" / "lighthouse"

    @property
    def other_artifact(self) -> Path:
        """Folder of the artifact of another model, which the dishonest operator uses for one request."""
        return self.artifact.with_name("other")

    @property
    def openings(self) -> Path:
        """Folder in which the clients store openings."""
        return self.folder / "client"


def new_site(root: Path, folder: Path, epoch: int, database_server: str = "") -> Site:
    """Makes the empty folders of a new run, chooses free ports, and returns the run's site."""
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
    """Makes one folder for each actor in the run's folder."""
    for actor in (*OPERATORS, *VERIFIERS, "watchtower", "challenger", "deployer", "client", "da", "kms", "tee", "dashboard"):
        site.of(actor).mkdir()


def write_toml(path: Path, values: Mapping[str, Any]) -> Path:
    """Writes a settings file in TOML and returns its path. Plain values come first, and each mapping becomes a section."""
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
    # JSON and TOML write strings, numbers and booleans in the same way.
    return json.dumps(str(value) if isinstance(value, Path) else value)
