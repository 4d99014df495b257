"""The demo's network in containers, with fixed ports. `python -m cli.demo.containers` makes all files of the network.

The container `setup` of `docker-compose.yml` runs this program once, when the chain answers. The program deploys the contracts,
lets three shards make the key, and writes the network's folder. The container of each actor mounts a part of this folder.
`deploy/compose.py` writes `docker-compose.yml` from the same table of processes, `cli.demo.actors`.
"""

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Address
from bytewise.service.entry_point import PlainParser, run_entry
from bytewise.service.exit_codes import Exit
from bytewise.storage.migrations.migrate import make_empty_database
from chain.client.address_book import read_network
from chain.client.rpc import ChainClient
from chain.sending.keys import load_signer
from cli.demo import actors, build
from cli.demo.actors import DemoProcess
from cli.demo.plan import CHAIN_ID, VERIFIERS, Options
from cli.demo.processes import ProcessGroup
from cli.demo.site import HOST, Ports, Site, make_folders, write_toml

PORTS = Ports(
    chain=8545, da=8200, proxy=0, hints=8300, dashboard=8700, shards=(8401, 8402, 8403), channels=(8501, 8502, 8503),
    operators=(8601, 8602),
)  # fmt: skip
"""TCP ports of all actors. No two actors share a port number, because all shards run in one container during the ceremony."""
METRICS_PORT = 9464
EPOCH = 1
DATABASE_FILE = "database.url"
"""File in the network's folder with the URL of a PostgreSQL server for all actors. Without the file, each actor has a SQLite
database."""
FOLDER = Path("/network")
"""Path in each container at which the network's folder, or the actor's part of this folder, is mounted."""
OPTIONS = Options(adversary=True, audits=True, watchtower=True, epoch=EPOCH, keep=True, folder=FOLDER)


class ContainerSite(Site):
    """A site whose actors are containers of one network. An actor cannot see the folder of another actor. All actors see
    `public`."""

    @property
    def listen(self) -> str:
        """Address on which actors listen: all interfaces of the container. Only the container's networks can reach them."""
        return "0.0.0.0"

    def host(self, actor: str) -> str:
        """Returns the host name of an actor, which is the name of its container service."""
        return actor

    def aliases(self, actor: str) -> tuple[str, ...]:
        """Returns further hosts for the actor's certificate: the loopback address, because clients on this machine use a port
        that the container publishes there."""
        return (HOST,)

    def member_rpc_url(self, name: str) -> str:
        """Returns the URL of the chain itself, because the containers have no proxy that drops answers."""
        return self.rpc_url

    def enclave(self, name: str) -> Path:
        """Returns the folder of the member's enclave, which the member's own container does not mount."""
        return self.of(f"{name}-enclave")

    def job_socket(self, name: str) -> Path:
        """Returns the path of the job socket, in a folder that only the member and its enclave mount."""
        return self.of(f"{name}-jobs") / "enclave.sock"

    def ready_file(self, name: str) -> Path:
        """Returns the path of the enclave's ready file. The file is in the memory of the enclave's container and is lost with it,
        so that a restarted container counts as ready only when its enclave is ready."""
        return Path("/tmp") / "enclave.ready"

    @property
    def chain_states(self) -> Path:
        """Folder of the chain's states, in the memory of the chain's container. The folder is lost with the container, like the
        chain itself."""
        return Path("/tmp") / "chain-states"

    @property
    def capsules(self) -> None:
        """Always None, because the containers share no folder of evidence capsules."""
        return None

    def certificate(self, name: str) -> Path:
        """Returns the path of an actor's certificate, which every actor can read."""
        return self.public / f"{name}.pem"

    @property
    def public(self) -> Path:
        """Folder of public files, which all actors mount read-only."""
        return self.folder / "public"

    @property
    def artifact(self) -> Path:
        """Folder of the model's artifact, beside the public files."""
        return self.public / "models" / "lighthouse"

    def metrics(self, actor: str) -> Mapping[str, Any]:
        """Returns the settings of an actor's listener for metrics and probes. In containers every actor has such a listener."""
        return {"metrics": {"host": self.listen, "port": metrics_port(actor)}}


def metrics_port(actor: str) -> int:
    """Returns the port of an actor's listener for metrics and probes. Each shard has a different port, because all shards run in
    one container during the ceremony."""
    return METRICS_PORT + (int(actor.removeprefix("shard")) if actor.startswith("shard") else 0)


def site_in(folder: Path, database_server: str = "") -> ContainerSite:
    """Returns the paths, ports and URLs of the container network that has its files in `folder`. `database_server` is the URL of
    the PostgreSQL server on which each actor has a database. If it is empty, each actor has an SQLite file."""
    return ContainerSite(folder, folder, PORTS, EPOCH, database_server)


def long_lived(site: Site, accounts: Mapping[str, Address]) -> list[DemoProcess]:
    """Returns all processes that run for as long as the network, without the shards. Each process runs in a separate
    container."""
    return [
        actors.store(site),
        *actors.enclaves(site),
        *actors.operators(site, OPTIONS.adversary),
        *actors.members(site, OPTIONS),
        actors.dashboard(site, accounts),
        actors.monitor(site),
    ]


def prepare(site: ContainerSite) -> None:
    """Makes all files of the network. Does nothing if the folder has the files already and belongs to this chain.

    Raises `ConfigurationError` if the folder belongs to another chain, or if an earlier setup did not finish.
    """
    done = site.public / "prepared"
    if done.exists():
        _check_chain(site)
        return
    try:
        if {path.name for path in site.folder.iterdir()} - {DATABASE_FILE}:
            raise ConfigurationError("folder", f"{site.folder} has files of an unfinished setup: {_EMPTY}")
    except OSError as error:
        raise ConfigurationError("folder", f"{site.folder}: {error.strerror}") from None
    make_folders(site)
    own = (site.public, site.of("monitor"))
    for folder in (*own, *(each for name in VERIFIERS for each in (site.enclave(name), site.job_socket(name).parent))):
        folder.mkdir()
    processes = ProcessGroup(site.folder, site.folder, lambda what: print(f"waiting for {what}", flush=True))
    try:
        signers = build.make_keys(site)
        build.make_models(site, processes)
        built = build.build(site, processes, signers)
    finally:
        processes.end()
    if site.database_server:
        make_empty_database(site.database_server, site.database_name("monitor"))
    coordinator = load_signer(site.coordinator_key).address
    for actor in (*long_lived(site, built.accounts), *actors.shards(site, coordinator)):
        write_toml(actor.file, actor.settings)
    done.touch()


def _check_chain(site: Site) -> None:
    ledger = read_network(site.network_file).addresses.ledger
    if ChainClient(site.rpc_url, CHAIN_ID, build.RPC_TIMEOUT_S).rpc("eth_getCode", ledger, "latest") == "0x":
        raise ConfigurationError("folder", f"{site.folder} has a network whose chain is gone: {_EMPTY}")


_EMPTY = "end all containers (`docker compose down`), empty this folder, and start again"


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the files of the network in the folder that the arguments name, and returns the exit code."""
    parser = PlainParser(prog="python -m cli.demo.containers", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="empty folder, at the path that it has in all containers")
    parsed = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def work() -> int:
        url = parsed.folder / DATABASE_FILE
        prepare(site_in(parsed.folder, url.read_text().strip() if url.exists() else ""))
        return Exit.OK

    return run_entry("setup", work)


if __name__ == "__main__":
    sys.exit(main())
