"""Runs the demo's network behind a proxy that fails on order. It starts, kills and pauses the processes and reads their state."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2

from bench.soak_node.flatness import database_bytes
from bench.soak_node.gossip import GossipSide
from bench.soak_node.schedule import KINDS, QUORUM
from bytewise.protocol.errors.actors import KeyInUse, TryAgain
from bytewise.protocol.units import Address
from bytewise.service.clock import monotonic_s
from bytewise.service.node_files.key_lock import verify_unused
from chain.deployment.params import with_changes
from chain.sending.keys import load_signer
from cli.demo import actors, build, plan
from cli.demo.actors import DemoProcess
from cli.demo.plan import ETHER, OPERATORS, VERIFIERS
from cli.demo.processes import ProcessGroup
from cli.demo.site import Site, new_site, write_toml
from verifier.node import RESERVE_BYTES

FRAUD_EVERY = 3
"""The dishonest operator cheats on every third of its answers."""
STAKE_WEI = {"honest": 40 * ETHER, "dishonest": 100_000 * ETHER, **{name: 19 * ETHER for name in VERIFIERS}}
"""Stake of each actor, in wei. The dishonest operator can pay for thousands of frauds, and a verifier keeps its one audit seat
after many penalties."""
PARAMS = with_changes(plan.PARAMS, {
    "times": {"max_pause": 60, "unbond_delay": 1_800, "da_retention": 3_600, "da_margin": 60, "key_retention": 3_600},
})  # fmt: skip
"""The demo's parameters with shorter pauses, an unbonding delay of half an hour, and retention of one hour."""
HOUSEKEEPING = {"every_s": 60, "receipts_days": 0, "envelopes_days": 0, "duties_days": 0, "transactions_days": 0}
"""Housekeeping settings with which records are deleted as soon as no duty can need them."""
DISK_BYTES = 2 * RESERVE_BYTES
"""Size in bytes of the file system of the actor whose disk fills up. It must be larger than the free space below which a
node begins nothing new (`RESERVE_BYTES`), or the actor would never vote."""
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
"""Path of Debian's `libfaketime`. The option `--faketime` names another path."""
RPC_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Means:
    """Facilities of this machine that some faults need."""

    faketime: Path | None
    disk: bool
    server: str
    gossip: Path | None = None
    """Python of the environment that `make gossip-venv` made; None if members have no gossip."""

    @property
    def missing(self) -> frozenset[str]:
        """Facilities that some kinds of faults need and that this machine lacks. These kinds cannot be injected."""
        have = {"libfaketime": self.faketime, "a mounted file system of its own": self.disk, "a PostgreSQL server": self.server,
                "gossip": self.gossip}  # fmt: skip
        return frozenset(need for need in {kind.needs for kind in KINDS.values() if kind.needs} if not have[need])


def means(server: str, faketime: Path = FAKETIME, gossip: Path | None = None) -> Means:
    """Returns the facilities of this machine. Only root can mount a file system. With PostgreSQL no actor's disk can be filled,
    because the databases are on the disk of the server."""
    return Means(faketime if faketime.exists() else None, os.geteuid() == 0 and not server, server, gossip)


class SoakNetwork:
    """All processes of one run, with methods to start, kill, pause and read them."""

    def __init__(self, root: Path, folder: Path, available: Means, audit_rate_bps: int, say: Callable[[str], None]) -> None:
        self.means = available
        params = with_changes(PARAMS, {"shares": {"audit_rate_bps": audit_rate_bps}})
        self._terms = plan.Terms(params, plan.SHAPE, STAKE_WEI, 110_000 * ETHER)
        self.site: Site = new_site(root, folder, 1, available.server)
        self.group = ProcessGroup(folder, root, lambda _: None)
        self.record, self.planted = folder / "transactions.jsonl", folder / "planted.jsonl"
        self.lock = threading.Lock()
        self._say = say
        self._clocks = folder / "clock-offset"
        self._mounted = False

    @property
    def disk_file(self) -> Path:
        """Path of the file that fills the disk."""
        return self.site.of("dan") / "filler"

    @contextlib.contextmanager
    def running(self) -> Iterator[build.Built]:
        """Context manager that starts the network. At the end it ends every process."""
        try:
            self._mount()
            yield self._start()
        finally:
            self.group.end()
            if self._mounted:
                subprocess.run(["umount", str(self.site.of("dan"))], check=False)

    def _mount(self) -> None:
        if not self.means.disk:
            return
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(self.site.of("dan"))]
        self._mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        if not self._mounted:
            self.means = replace(self.means, disk=False)

    def _start(self) -> build.Built:
        site, group = self.site, self.group
        chain = [*actors.chain_arguments(site), "--balance", "100000000"]
        group.start("chain", [str(actors.anvil(site.root)), *chain])
        group.wait("chain", lambda: actors.listening(site.ports.chain), actors.READY_S)
        actors.start([actors.store(site)], group)
        group.python(
            "proxy", "adversaries.faulty_proxy", "--chain", site.rpc_url, "--da", site.da_url, "--port", str(site.ports.proxy),
            "--record", str(self.record),
        )  # fmt: skip
        signers = build.make_keys(site)
        build.make_models(site, group)
        actors.start(actors.enclaves(site), group)
        built = build.build(site, group, signers, self._terms)
        self._say("contracts are deployed, and three shards made the key")
        side = None if self.means.gossip is None else GossipSide(site, self.means.gossip, built.accounts)
        for each in (*actors.operators(site, adversary=True), *actors.shards(site, self._coordinator()), *self._nodes()):
            self._start_one(self._behind_proxy(each if side is None else side.beside(each)))
        actors.wait_ready(site, group)
        if side is not None:
            side.start(group)
        return built

    def _coordinator(self) -> Address:
        return load_signer(self.site.coordinator_key).address

    def _nodes(self) -> list[DemoProcess]:
        options = plan.Options(True, True, True, self.site.epoch, False, self.site.folder, self.means.server)
        return actors.members(self.site, options)

    def _start_one(self, actor: DemoProcess) -> None:
        write_toml(actor.file, actor.settings)
        command = [sys.executable, "-m", actor.module, *actor.arguments]
        if actor.name in KINDS["clock-jump"].targets and self.means.faketime is not None:
            self.set_clock(0)
            command = [
                "env", f"LD_PRELOAD={self.means.faketime}", f"FAKETIME_TIMESTAMP_FILE={self._clocks}",
                "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_CACHE_DURATION=1", *command,
            ]  # fmt: skip
        self.group.start(actor.name, command)

    def _behind_proxy(self, actor: DemoProcess) -> DemoProcess:
        """Returns the actor with changed settings, so that it reaches the chain and the DA store only through the proxy."""
        url = f"http://127.0.0.1:{self.site.ports.proxy}"
        settings: dict[str, Any] = dict(actor.settings)
        if "rpc_url" in settings:
            settings["rpc_url"] = f"{url}/rpc/{actor.name}"
        if "chain" in settings:
            settings["chain"] = _chain(settings["chain"], url, actor.name)
        if "da" in settings:
            settings["da"] = {**settings["da"], "urls": [f"{url}/da/{actor.name}"]}
        if "db" in settings:
            settings["housekeeping"] = HOUSEKEEPING
        rest = actor.rest
        if actor.name == "dishonest":
            rest = (*rest, "--every", str(FRAUD_EVERY), "--planted", str(self.planted))
        return replace(actor, settings=settings, rest=rest)

    # --- faults ---

    def order(self, endpoint: str, fault: str, value: float = 0.0) -> None:
        """Begins a fault of the proxy, or ends it if `fault` is empty."""
        url = f"http://127.0.0.1:{self.site.ports.proxy}/control"
        body = {"endpoint": endpoint, "fault": fault, "value": value}
        httpx2.post(url, json=body, timeout=RPC_TIMEOUT_S).raise_for_status()

    def met(self) -> dict[str, int]:
        """Returns for each fault of the proxy the number of affected requests."""
        url = f"http://127.0.0.1:{self.site.ports.proxy}/control"
        return dict(httpx2.get(url, timeout=RPC_TIMEOUT_S).json())

    def rpc(self, method: str, *params: Any) -> Any:
        """Makes one call of the chain without the proxy and returns the result. Raises `RuntimeError` if the chain answers with
        an error."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx2.post(self.site.rpc_url, json=body, timeout=RPC_TIMEOUT_S).json()
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def kill(self, name: str) -> None:
        """Kills a process with SIGKILL."""
        with self.lock:
            self.group.kill(name)

    def restart(self, name: str) -> None:
        """Starts an ended process again."""
        with self.lock:
            self.group.restart(name)

    def send(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to a process."""
        with self.lock:
            os.kill(self.group.pids()[name], number)

    def await_key(self, name: str, seconds: float) -> None:
        """Waits until a process uses the key file of an actor. Raises `TryAgain` if none does within `seconds`."""
        end = monotonic_s() + seconds
        while monotonic_s() < end:
            try:
                verify_unused(self.site.of(name) / "account.key")
            except KeyInUse:
                return
            threading.Event().wait(0.2)
        raise TryAgain(name, f"its key was not used within {seconds:.0f} s")

    def second(self, name: str) -> str:
        """Starts another process with the settings of this one and returns its name."""
        other = f"{name}-second"
        with self.lock:
            self.group.start(other, self.group.command(name))
        return other

    def exit_within(self, name: str, seconds: float) -> int | None:
        """Waits until a process ends by itself. Returns its exit status and forgets the process. Returns None if it still runs
        after `seconds`."""
        end = monotonic_s() + seconds
        while monotonic_s() < end:
            with self.lock:
                if name in self.group.ended():
                    return self.group.finish(name, 1.0)
            threading.Event().wait(0.2)
        return None

    def said(self, name: str, event: str) -> bool:
        """Returns whether the log of a process has an event."""
        path = self.group.log_of(name)
        return path.exists() and f'"{event}"' in path.read_text(errors="replace")

    def set_clock(self, offset_s: float) -> None:
        """Sets the wall clock of the one actor that runs with libfaketime, to `offset_s` seconds ahead of the machine's clock."""
        draft = self._clocks.with_suffix(".new")
        draft.write_text(f"{offset_s:+.0f}\n")
        draft.replace(self._clocks)

    def database_sizes(self) -> dict[str, int]:
        """Returns the bytes of each SQLite database. Returns nothing with PostgreSQL."""
        if self.means.server:
            return {}
        return {name: database_bytes(self.site.of(name)) for name in (*VERIFIERS, *OPERATORS, "watchtower")}

    def clean(self) -> None:
        """Removes the files of a passed run, except its logs and records."""
        for name in ("da", "client", "tee", *VERIFIERS, *OPERATORS, "watchtower", "challenger"):
            shutil.rmtree(self.site.of(name), ignore_errors=True)


def _chain(section: Mapping[str, Any], url: str, name: str) -> dict[str, Any]:
    kept = {key: value for key, value in section.items() if key != "rpc_url"}
    if name in QUORUM:
        return {**kept, "rpc_urls": [f"{url}/rpc/{name}/{place}" for place in (1, 2, 3)]}
    return {**kept, "rpc_url": f"{url}/rpc/{name}"}
