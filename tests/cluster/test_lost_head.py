"""The head node of a Ray cluster dies in a job. Real processes on two nodes; `make test-ray` runs this folder."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bytewise.service.exit_codes import Exit
from tests.fixtures.builders import MODEL, word
from tests.fixtures.cluster.ray_cluster import ROOT, WAIT_S, RayCluster, eventually, ray_cluster
from verifier.jobs.cluster_client import cluster_check
from verifier.jobs.job import EnclaveAway


@contextmanager
def duty_process(cluster: RayCluster) -> Iterator[subprocess.Popen[str]]:
    """A duty process that asks until it has voted, and prints its votes."""
    command = [sys.executable, "-m", "tests.fixtures.cluster.duty", str(cluster.folder), ""]
    with subprocess.Popen(command, cwd=ROOT, env=cluster.environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def begin(cluster: RayCluster) -> None:
    """A new head, its machines, and the bridge, as their supervisors start them."""
    cluster.start_ray(nodes=2, agents_of_a_node=1)
    cluster.start_bridge(agents=2)
    cluster.wait_for_agents(2)


def test_head_that_dies_in_a_job_loses_no_job_and_brings_one_vote() -> None:
    with ray_cluster() as cluster:
        for name in ("enclave1", "enclave2"):
            cluster.start_enclave(name)
        begin(cluster)
        cluster.hold()
        with duty_process(cluster) as process:
            eventually(lambda: len(cluster.began()) == 1)
            cluster.lose_head()
            assert cluster.bridge is not None and cluster.bridge.wait(timeout=WAIT_S) == Exit.UNAVAILABLE
            assert "its head node went away: start it" in cluster.log()
            with pytest.raises(EnclaveAway, match="bridge"):
                cluster.client().prepare(word("r"), MODEL)
            assert not cluster_check(cluster.socket).ok
            assert process.poll() is None, "without an own enclave it asks on, and votes nothing"
            cluster.stop_ray()
            cluster.go_on()
            begin(cluster)
            assert process.communicate(timeout=WAIT_S)[0].split() == ["1", "EXECUTED"]
        with duty_process(cluster) as process:
            assert process.communicate(timeout=WAIT_S)[0].split() == ["1", "EXECUTED"], "the vote of the first life"
