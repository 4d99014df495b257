"""The demo's key: three shard processes make it together, as in `docs/guide/key-ceremony.md`. No process ever holds the whole
key."""

import secrets
from pathlib import Path

from bytewise.protocol.address_book import Network
from bytewise.protocol.encoding import encode
from bytewise.protocol.signing import LocalSigner
from bytewise.service.settings import load_settings
from bytewise.tee_simulated.root import issue
from chain.client.rpc import ChainClient
from chain.sending.keys import save_signer
from cli.demo import actors, plan
from cli.demo.plan import SHARDS
from cli.demo.processes import ProcessGroup as Processes
from cli.demo.site import Site, write_toml
from cli.key.ceremony import put_in_force
from kms.ceremony.session import finished_ceremony
from kms.settings import CeremonySettings
from kms.storage import keyring

COORDINATOR = "coordinator"
PHASE_S = 120.0
"""Longest time of each phase in seconds: many times the usual time, because the shards start at the same time as many other
processes."""
CEREMONY_S = 300.0


def begin(site: Site, processes: Processes) -> None:
    """Draws each shard's own keys, and starts the shards and the coordinator of their ceremony. All need the address book."""
    save_signer(site.coordinator_key, LocalSigner(secrets.token_bytes(32)))
    entries = [_enrolled(site, index) for index in range(1, SHARDS + 1)]
    config = {
        "epoch": site.epoch, "threshold": plan.THRESHOLD, "quorum": SHARDS, "reveal_budget": plan.THRESHOLD - 1, "assurance":
        "simulated", "phase_s": PHASE_S, "network_file": site.network_file, "coordinator_key_file": site.coordinator_key,
        "database_url": site.database("kms"), "plan_file": site.of("kms") / "plan.json", "out_file": site.epoch_file, "entries":
        entries,
    }  # fmt: skip
    actors.start_shards(site, processes)
    processes.python(COORDINATOR, "cli", "key", "dkg", "--config", str(write_toml(_config(site), config)))


def finish(site: Site, processes: Processes, client: ChainClient, network: Network, curator: LocalSigner) -> Network:
    """Waits for the ceremony's end, stops the shards, puts the epoch in force, and returns the address book with it."""
    processes.expect_success(COORDINATOR, CEREMONY_S)
    for index in range(1, SHARDS + 1):
        processes.stop(f"shard{index}")
    return put_in_force(client, network, curator, finished_ceremony(load_settings(CeremonySettings, _config(site))))


def _enrolled(site: Site, index: int) -> Path:
    folder, url = site.of(f"shard{index}"), site.shard_url(index)
    keyring.create_keys(folder, url, secrets.token_bytes)
    entry = folder / "entry.json"
    entry.write_bytes(encode(keyring.shard_entry(folder, url, site.shard_channel(index))))
    issue(site.of("tee"), folder / "platform.pem")
    return entry


def _config(site: Site) -> Path:
    return site.of("kms") / "dkg.toml"
