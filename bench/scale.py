"""Measures jobs on many agents of a Ray cluster and computes a network of 1,000 verifiers. `make bench-scale` writes
`bench/results/scale.json`.

Jobs that only wait 200 ms show the cost of scheduling without arithmetic. Jobs with real re-execution run one thread of the
engine on each core. All numbers of agents take turns, so that other work of the machine affects them alike.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.machine import describe
from bench.network_simulation import simulate
from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import make_model
from bytewise.ports import EnclaveJobs
from bytewise.protocol.jobs import JobResult
from bytewise.service.clock import monotonic_s
from tests.fixtures.builders import word
from tests.fixtures.cluster.ray_cluster import ROOT, RayCluster, eventually, ray_cluster
from tests.fixtures.cluster.sleepers import DONE
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.job_case import RIGHT
from verifier.jobs.enclave_pool import EnclavePool
from verifier.jobs.job import VOTE, JobOrder, run_job

RESULTS = Path("bench/results/scale.json")
AGENTS = (1, 2, 4, 8)
FIXED_S, FIXED_TARGET = 0.2, 0.95
REAL_TARGET = 1.8
ROUNDS, JOBS_OF_AN_AGENT = 3, 40
"""Number of rounds, and jobs for each agent in a round. At the end of a round not all agents have work. With many jobs this time
weighs little."""
LOOK_S = 0.01
"""Seconds between two looks for results. A loop without a pause would take a core from the agents and falsify the figure."""


def main() -> None:
    """Measures, prints and writes the figures."""
    parser = argparse.ArgumentParser(prog="bench.scale", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--without-re-execution", action="store_true", help="for a machine without two idle cores")
    options = parser.parse_args()
    machine = describe()
    found: dict[str, Any] = {"machine": machine, "rounds": options.rounds}
    found["fixed_jobs"] = fixed_jobs(options.rounds)
    found["re_execution"] = None if options.without_re_execution else re_execution(options.rounds)
    found["network"] = simulate()
    machine["load_after"] = round(os.getloadavg()[0], 2)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(json.dumps({name: found[name] for name in ("fixed_jobs", "re_execution", "network")}, indent=1) + "\n")


def fixed_jobs(rounds: int) -> dict[str, Any]:
    """Returns the jobs per second with each number of agents, and their ratios to the rate of one agent."""
    with ray_cluster() as cluster:
        cluster.start_ray(nodes=2, agents_of_a_node=max(AGENTS) // 2)
        command = [sys.executable, "-m", "tests.fixtures.cluster.sleepers", str(cluster.folder), str(max(AGENTS)), str(FIXED_S)]
        cluster.enclaves["sleepers"] = subprocess.Popen(command, cwd=ROOT, env=cluster.environment)
        eventually(lambda: (cluster.folder / f"enclave-{max(AGENTS) - 1}.sock").exists())
        cluster.start_bridge(agents=max(AGENTS))
        cluster.wait_for_agents(max(AGENTS))
        rates = _in_turns(cluster, rounds, AGENTS, JOBS_OF_AN_AGENT)
    return _compared(rates, FIXED_TARGET) | {"seconds_of_a_job": FIXED_S}


def re_execution(rounds: int) -> dict[str, Any]:
    """Returns the same figures for real re-execution by one and two agents, whose enclaves have one core each."""
    with ray_cluster() as cluster:
        cluster.start_ray(nodes=2, agents_of_a_node=1)
        make_model(cluster.folder / "checkpoint", 1, layers=4, width=128, heads=4, key_value_heads=2, context=256)
        convert(cluster.folder / "checkpoint", cluster.folder / "artifact")
        cores = sorted(os.sched_getaffinity(0))
        for name, core in zip(("enclave1", "enclave2"), cores, strict=False):
            with _on_core(core):
                cluster.start_enclave(name)
        cluster.start_bridge(agents=2)
        cluster.wait_for_agents(2)
        jobs_a_second(cluster, 2, 2)  # engines load their model
        rates = _in_turns(cluster, rounds, (1, 2), 4)
    return _compared(rates, REAL_TARGET / 2)


@contextmanager
def _on_core(core: int) -> Iterator[None]:
    """Context manager that pins each process started inside to this core, with all its threads. A process that is pinned later
    would keep its other threads where they are."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _in_turns(cluster: RayCluster, rounds: int, agents: Sequence[int], jobs_of_an_agent: int) -> dict[int, list[float]]:
    """Returns the jobs per second of each number of agents, with one measurement of each number in a round."""
    turns = [{count: jobs_a_second(cluster, count, jobs_of_an_agent) for count in agents} for _ in range(rounds)]
    return {count: [turn[count] for turn in turns] for count in agents}


def jobs_a_second(cluster: RayCluster, agents: int, jobs_of_an_agent: int) -> float:
    """Returns the jobs per second of a pool that uses `agents` agents."""
    pool = EnclavePool([], [cluster.client() for _ in range(agents)])
    case, count = cluster.case(), agents * jobs_of_an_agent

    def run(enclave: EnclaveJobs) -> JobResult:
        return run_job(enclave, b.VOTER, b.CONTRACTS, case, RIGHT)

    start, done = monotonic_s(), 0
    for number in range(count):
        pool.submit(JobOrder(VOTE, ("vote", word("dispute", os.urandom(8).hex(), number), 1), case.receipt_id, 600.0, run))
    while done < count:
        for each in pool.collect():
            assert isinstance(each.outcome, JobResult) or DONE in str(each.outcome), each.outcome
            done += 1
        threading.Event().wait(LOOK_S)
    seconds = monotonic_s() - start
    pool.stop()
    return count / seconds


def _compared(rates: dict[int, list[float]], target: float) -> dict[str, Any]:
    middle = {count: statistics.median(found) for count, found in rates.items()}
    return {
        "jobs_a_second": {str(count): round(rate, 3) for count, rate in middle.items()},
        "rounds": {str(count): [round(each, 3) for each in found] for count, found in rates.items()},
        "over_one_agent": {str(count): round(rate / middle[1], 3) for count, rate in middle.items()},
        "target_of_each_agent": target,
        "passed": all(rate / middle[1] >= target * count for count, rate in middle.items()),
    }


if __name__ == "__main__":
    main()
