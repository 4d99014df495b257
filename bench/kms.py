"""Measures releases with real shard processes, chain and attested channels, and the curve arithmetic of a release alone.

`make bench-kms` writes `bench/results/kms.json`. Releases and bare arithmetic take turns in one run, so that their ratio also
holds on a machine that does other work. Client, shards and chain share the cores of the machine.
"""

import argparse
import json
import math
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.kms_arithmetic import Arithmetic
from bench.machine import describe
from bytewise.protocol.jobs import RunJob, ShardRecord
from bytewise.protocol.keys.epochs import ReleaseRequest
from bytewise.protocol.records.statements import TicketKind
from bytewise.tee.channel import Channel
from enclave.release_client import ShardKeySource, open_channel, request_release
from kms.shard.chain_view import ChainKeyView
from kms.storage import keyring
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.chain.devnet import reader
from tests.fixtures.kms.chain_network import OnChain, put_on_chain, serving

RESULTS = Path("bench/results/kms.json")
SETS = ((3, 5), (5, 9))
"""Measured sets of shards, each as (threshold, number of shards)."""
ROUNDS = 200
CHANNELS = 2
"""Channels that stay open to the one shard whose rate is measured. There are two, so that the shard answers on one while the
answer on the other is read."""
FLIGHT = 192
"""Requests on each of these channels."""
HANDSHAKES = 100
"""Channels that are opened one after the other, to measure the cost of one channel for a shard."""
TIMEOUT_S = 30.0
TARGETS = {"release_less_handshakes_over_floor": 2.0, "releases_per_second_per_shard": 30.0, "shard_memory_mb": 200.0}


class Rig(NamedTuple):
    """A network whose shards serve, and a job with the right to open one receipt."""

    net: OnChain
    processes: "dict[int, subprocess.Popen[bytes]]"
    job: RunJob
    arithmetic: Arithmetic


@contextmanager
def rig(folder: Path, threshold: int, count: int) -> Iterator[Rig]:
    """Context manager that runs `count` shard processes on a chain of its own, with a dispute whose committee is drawn."""
    with running_anvil() as anvil:
        net = put_on_chain(anvil, folder, threshold, count)
        dispute, member = net.dispute()
        job = net.job(net.ticket(TicketKind.DISPUTE, subject=dispute, voter=member.voter))
        folders = [each.folder for each in net.world.settings.shards[:threshold]]
        shares = [keyring.open_share(each, net.world.document) for each in folders]
        with serving(net, *range(1, count + 1)) as processes:
            yield Rig(net, processes, job, Arithmetic(job, net.world.secret, shares))


def main() -> None:
    """Measures both sets of shards, prints the figures and writes them."""
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
    """Returns the latency of whole releases, of the arithmetic of a release alone, and of the attested handshakes of a release.
    The three take turns."""
    source = ShardKeySource(made.net.world.quoter)
    parts: dict[str, Callable[[], object]] = {
        "release": lambda: source.open(made.job, made.net.world.secret),
        "floor": made.arithmetic.release,
        "handshakes": lambda: handshakes(made),
    }
    taken = in_turns(parts, rounds)
    release, floor, shaking = (percentile(taken[part], 0.5) for part in ("release", "floor", "handshakes"))
    return {
        f"release_{name}_p50_ms": release,
        f"release_{name}_p99_ms": percentile(taken["release"], 0.99),
        f"floor_{name}_ms": floor,
        f"handshakes_{name}_ms": shaking,
        f"elliptic_curve_share_{name}": round(floor / release, 3),
        f"release_less_handshakes_over_floor_{name}": round((release - shaking) / floor, 2),
    }


def one_shard(made: Rig) -> dict[str, float]:
    """Returns the rate of one shard process over open channels, the processor time of a release and of a handshake, and the time
    of the shard's chain reads."""
    process = psutil.Process(made.processes[1].pid)
    before = cpu_seconds(process)
    seconds, released = flights(made), FLIGHT * CHANNELS
    cpu, before = cpu_seconds(process) - before, cpu_seconds(process)
    for _ in range(HANDSHAKES):
        handshake(made, made.job.epoch.shards[0])
    shaking = cpu_seconds(process) - before
    view = ChainKeyView(reader(made.net.anvil, made.net.network), made.job.epoch.shards[0].address)
    share = keyring.open_share(made.net.world.settings.shards[0].folder, made.net.world.document)
    taken = in_turns({"chain": lambda: view.read(made.job.ticket, 0), "answer": lambda: made.arithmetic.answer(share)}, FLIGHT)
    answer = percentile(taken["answer"], 0.5)
    return {
        "releases_per_second_per_shard": round(released / seconds, 1),
        "releases_per_cpu_second_of_a_shard": round(released / cpu, 1),
        "shard_cpu_ms_per_release": round(1000 * cpu / released, 1),
        "shard_cpu_ms_per_handshake": round(1000 * shaking / HANDSHAKES, 1),
        "shard_elliptic_curve_ms_per_release": answer,
        "shard_elliptic_curve_share": round(answer * released / cpu / 1000, 3),
        "chain_reads_ms": percentile(taken["chain"], 0.5),
        "shard_memory_mb": round(max(resident(each.pid) for each in made.processes.values()), 1),
    }


def in_turns(parts: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Runs the parts in turns and returns the seconds of each part in each round. A first round, for warm-up, is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in parts}
    for number in range(rounds + 1):
        for name, work in parts.items():
            start = time.perf_counter()
            work()
            if number:
                taken[name].append(time.perf_counter() - start)
    return taken


def percentile(seconds: Sequence[float], share: float) -> float:
    """Returns the milliseconds that this share of the measurements did not exceed."""
    ordered = sorted(seconds)
    return round(1000 * ordered[math.ceil(share * len(ordered)) - 1], 2)


def handshakes(made: Rig) -> None:
    """Opens and closes channels to as many shards as a release needs, all at once, as a release does before its requests."""
    shards = made.job.epoch.shards[: made.job.epoch.threshold]
    with ThreadPoolExecutor(len(shards)) as threads:
        for done in [threads.submit(handshake, made, shard) for shard in shards]:
            done.result()


def handshake(made: Rig, shard: ShardRecord) -> None:
    """Opens and closes one attested channel."""
    opened(made, shard).close()


def opened(made: Rig, shard: ShardRecord) -> Channel:
    """Returns an open channel from an enclave to a shard."""
    return open_channel(shard, made.net.world.enclave(shard.index), made.net.world.public, TIMEOUT_S)


def flights(made: Rig) -> float:
    """Returns the seconds in which the first shard answered all requests on all channels."""
    with ThreadPoolExecutor(CHANNELS) as threads:
        ready = threading.Barrier(CHANNELS)
        done = [threads.submit(_flight, made, ready) for _ in range(CHANNELS)]
        spans = [each.result() for each in done]
    return max(end for _, end in spans) - min(start for start, _ in spans)


def _flight(made: Rig, ready: threading.Barrier) -> tuple[float, float]:
    job, shard = made.job, made.job.epoch.shards[0]
    request = ReleaseRequest(
        job.ticket, job.ticket_signature, job.receipt, job.receipt_signature, job.batch_id, job.proof, job.envelope
    )
    with opened(made, shard) as channel:
        ready.wait(TIMEOUT_S)
        start = time.perf_counter()
        for _ in range(FLIGHT):
            request_release(channel, shard, request, TIMEOUT_S)
        return start, time.perf_counter()


def cpu_seconds(process: psutil.Process) -> float:
    """Returns the processor time of a process since its start, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)


def resident(pid: int) -> float:
    """Returns the resident memory of a process in MB."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6


if __name__ == "__main__":
    main()
