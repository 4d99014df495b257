"""Gives each member of a soak a gossip process, with the setup of `bytewise member connect`."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from bytewise.protocol.units import Address
from cli.demo.actors import DemoProcess
from cli.demo.plan import VERIFIERS
from cli.demo.processes import ProcessGroup
from cli.demo.site import HOST, Site, free_ports
from cli.node.gossip import process_command, write_process_settings

NAMES = {f"{name}-gossip": name for name in VERIFIERS}
"""Names of the members, by the name of their gossip process."""
PEERS_S = 120.0
"""Most seconds until a member has written `peers.json`."""


class GossipSide:
    """The gossip processes of one network."""

    def __init__(self, site: Site, python: Path, accounts: Mapping[str, Address]) -> None:
        self._site, self._python = site, python.absolute()
        ports = dict(zip(VERIFIERS, free_ports(len(VERIFIERS)), strict=True))
        self._addresses = {name: f"/ip4/{HOST}/tcp/{port}" for name, port in ports.items()}
        with ThreadPoolExecutor(2) as threads:
            made = threads.map(lambda name: self._identity(name, accounts[name]), VERIFIERS)
            self._identities = dict(zip(VERIFIERS, made, strict=True))

    def _identity(self, name: str, account: Address) -> tuple[str, str]:
        return write_process_settings(self._python, self._file(name), self._addresses[name], account)

    def _file(self, name: str) -> Path:
        return self._site.of(name) / "gossip.toml"

    def beside(self, actor: DemoProcess) -> DemoProcess:
        """Returns a member with gossip switched on in its settings. Returns any other actor unchanged."""
        if actor.name not in self._addresses:
            return actor
        folder, (key, proof) = self._site.of(actor.name), self._identities[actor.name]
        section: dict[str, Any] = {
            "process": f"unix:{folder / 'gossip.sock'}", "peers_file": folder / "peers.json",
            "identities_folder": self._site.folder / "identities", "bls_key_file": folder / "bls.key",
            "envelopes_folder": folder / "envelopes", "addresses": [self._addresses[actor.name]],
            "peer_key": key, "peer_proof": proof,
        }  # fmt: skip
        return replace(actor, settings={**actor.settings, "gossip": section})

    def start(self, group: ProcessGroup) -> None:
        """Starts a gossip process for each member, as soon as the member has written its peers to `peers.json`."""
        for process, name in NAMES.items():
            group.wait(f"peers of {name}", (self._site.of(name) / "peers.json").exists, PEERS_S)
            group.start(process, list(process_command(self._python, self._file(name))))
