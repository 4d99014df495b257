"""Key release on this machine: real shard processes, a real chain, TLS; beside it the elliptic-curve arithmetic in it.

`make bench-kms` writes `bench/results/kms.json`. Releases and bare arithmetic are timed in turns in one run, so that their ratio
holds on a machine that does other things too. Client, shards and chain share its cores.
"""

import argparse
import json
import math
import os
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil

from bench.kms_arithmetic import Arithmetic
from bench.machine import describe
from bytewise.protocol.encoding import encode
from bytewise.protocol.jobs import RunJob
from bytewise.protocol.keys import ReleaseRequest
from bytewise.protocol.messages import TicketKind
from bytewise.protocol.signing import typed_digest
from kms import keyring
from kms.chain_view import ChainKeyView
from kms.client import ShardKeySource
from kms.policy import expected_report_data, key_domain
from kms.shard_client import ShardClient
from tests.anvil import running_anvil
from tests.devnet import reader
from tests.unit.kms.on_chain import OnChain, put_on_chain, serving

RESULTS = Path("bench/results/kms.json")
SETS = ((3, 5), (5, 9))
"""Thresholds, and shards that run."""
ROUNDS = 200
CHANNELS = 2
"""Kept-open connections to the one shard whose rate is measured: one is answered while the other is read."""
FLIGHT, FLIGHTS = 24, 8
"""Requests of a channel that are made before any is sent, so that only the shard's work is timed; and how often."""
TIMEOUT_S = 30.0
TARGETS = {"release_less_handshakes_over_floor": 2.0, "releases_per_second_per_shard": 30.0, "shard_memory_mb": 200.0}


class Rig(NamedTuple):
    """A network whose shards serve, and the right to one receipt in it."""

    net: OnChain
    processes: "dict[int, subprocess.Popen[bytes]]"
    job: RunJob
    arithmetic: Arithmetic


@contextmanager
def rig(folder: Path, threshold: int, count: int) -> Iterator[Rig]:
    """So many shards, each a process, on a chain of its own, with a dispute that is drawn."""
    with running_anvil() as anvil:
        net = put_on_chain(anvil, folder, threshold, count)
        dispute, member = net.dispute()
        job = net.job(net.ticket(TicketKind.DISPUTE, subject=dispute, voter=member.voter))
        folders = [each.folder for each in net.world.settings.shards[:threshold]]
        shares = [keyring.open_share(each, net.world.document) for each in folders]
        with serving(net, *range(1, count + 1)) as processes:
            yield Rig(net, processes, job, Arithmetic(job, net.world.secret, shares))


def main() -> None:
    """Measures both sets of shards, prints the figures, writes them."""
    parser = argparse.ArgumentParser(prog="bench.kms", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="releases of each kind")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": describe(), "rounds": options.rounds, "targets": TARGETS}
    for threshold, count in SETS:
        with tempfile.TemporaryDirectory() as folder, rig(Path(folder), threshold, count) as made:
            found |= figures(made, f"{threshold}of{count}", options.rounds)
            if (threshold, count) == SETS[0]:
                found |= one_shard(made)
    found["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    options.out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(json.dumps(found, indent=1, sort_keys=True))


def figures(made: Rig, name: str, rounds: int) -> dict[str, float]:
    """Latency of whole releases, of the arithmetic in them, and of one handshake, in turns."""
    source = ShardKeySource(made.net.world.quoter)
    parts: dict[str, Callable[[], object]] = {
        "release": lambda: source.open(made.job, made.net.world.secret),
        "floor": made.arithmetic.release,
        "handshake": lambda: handshake(made.job),
    }
    taken = in_turns(parts, rounds)
    floor, shake = percentile(taken["floor"], 0.5), percentile(taken["handshake"], 0.5)
    release = percentile(taken["release"], 0.5)
    handshakes = made.job.epoch.threshold * shake
    return {
        f"release_{name}_p50_ms": release,
        f"release_{name}_p99_ms": percentile(taken["release"], 0.99),
        f"floor_{name}_ms": floor,
        f"handshake_{name}_ms": shake,
        f"elliptic_curve_share_{name}": round(floor / release, 3),
        f"release_less_handshakes_over_floor_{name}": round((release - handshakes) / floor, 2),
    }


def one_shard(made: Rig) -> dict[str, float]:
    """What one shard process gives over kept-open channels, what it costs there, and what it reads of the chain for it."""
    process = psutil.Process(made.processes[1].pid)
    before, released = cpu_seconds(process), FLIGHT * FLIGHTS * CHANNELS
    seconds = sum(flight(made) for _ in range(FLIGHTS))
    cpu = cpu_seconds(process) - before
    view = ChainKeyView(reader(made.net.anvil, made.net.network), made.job.epoch.shards[0].address)
    share = keyring.open_share(made.net.world.settings.shards[0].folder, made.net.world.document)
    taken = in_turns(
        {"chain": lambda: view.read(made.job.ticket, 0), "answer": lambda: made.arithmetic.answer(share)}, FLIGHT * FLIGHTS
    )
    answer = percentile(taken["answer"], 0.5)
    return {
        "releases_per_second_per_shard": round(released / seconds, 1),
        "releases_per_cpu_second_of_a_shard": round(released / cpu, 1),
        "shard_cpu_ms_per_release": round(1000 * cpu / released, 1),
        "shard_elliptic_curve_ms_per_release": answer,
        "shard_elliptic_curve_share": round(answer * released / cpu / 1000, 3),
        "chain_reads_ms": percentile(taken["chain"], 0.5),
        "shard_memory_mb": round(max(resident(each.pid) for each in made.processes.values()), 1),
    }


def in_turns(parts: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each part in each round; one round before is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in parts}
    for number in range(rounds + 1):
        for name, work in parts.items():
            start = time.perf_counter()
            work()
            if number:
                taken[name].append(time.perf_counter() - start)
    return taken


def percentile(seconds: Sequence[float], share: float) -> float:
    """Milliseconds that this share of the measurements did not exceed."""
    ordered = sorted(seconds)
    return round(1000 * ordered[math.ceil(share * len(ordered)) - 1], 2)


def handshake(job: RunJob) -> str | None:
    """One TLS handshake with the first shard, its certificate pinned; the protocol version."""
    shard = job.epoch.shards[0]
    place = urlsplit(shard.url)
    context = ssl.create_default_context(cadata=shard.certificate)
    with (
        socket.create_connection((str(place.hostname), int(place.port or 0)), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=place.hostname) as secure,
    ):
        return secure.version()


def flight(made: Rig) -> float:
    """Seconds in which the first shard answered one flight of requests on every channel."""
    with ThreadPoolExecutor(CHANNELS) as threads:
        ready = threading.Barrier(CHANNELS)
        done = [threads.submit(_channel, made, ready) for _ in range(CHANNELS)]
        spans = [each.result() for each in done]
    return max(end for _, end in spans) - min(start for start, _ in spans)


def _channel(made: Rig, ready: threading.Barrier) -> tuple[float, float]:
    with ShardClient(made.job.epoch.shards[0], TIMEOUT_S) as client:
        requests = [encode(_request(made, client)) for _ in range(FLIGHT)]
        ready.wait(TIMEOUT_S)
        start = time.perf_counter()
        for request in requests:
            client.call("POST", "/v1/release", request)
        return start, time.perf_counter()


def _request(made: Rig, client: ShardClient) -> ReleaseRequest:
    job, world = made.job, made.net.world
    nonce, ticket_hash = client.nonce(), typed_digest(key_domain(job.contracts), job.ticket)
    bound = expected_report_data(job.contracts, job.ticket, ticket_hash, world.public, nonce, job.policy)
    return ReleaseRequest(
        nonce, job.ticket, job.ticket_signature, job.receipt, job.receipt_signature, job.batch_id, job.proof, job.envelope,
        world.quoter.quote(bound), world.public,
    )  # fmt: skip


def cpu_seconds(process: psutil.Process) -> float:
    """Processor time of a process since its start."""
    times = process.cpu_times()
    return float(times.user + times.system)


def resident(pid: int) -> float:
    """Resident memory of a process, MB."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6


if __name__ == "__main__":
    main()
