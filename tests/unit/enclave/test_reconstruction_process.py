"""The enclave as it runs where keys are rebuilt: which of its processes ever holds a share or the key, and for how long."""

import functools
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine import ExactEngine
from bytewise.inference.native.library import kernels
from bytewise.protocol.errors.records import EnvelopeProofBad
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.keys.epochs import ReleaseAnswer
from bytewise.protocol.records.seal import envelope_hash
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.suites import rebuilt_epoch
from bytewise.service.installation import SOURCE_ROOT
from bytewise.service.settings import child_environment
from bytewise.tee.binding import AttestedPeer
from bytewise.tee.measurement import ENCLAVE_ENTRY, SHARD_ENTRY, measure
from bytewise.tee_simulated.__main__ import policy_for
from kms.shard.release import Shard
from tests.fixtures import memory_search
from tests.fixtures.kms.memory_chain import CHAIN_ID, MemoryChain
from tests.fixtures.kms.memory_needles import needles
from tests.fixtures.kms.release_network import World, program, wait_until
from tests.fixtures.verifier.enclave_model import model
from tests.fixtures.verifier.running_enclave import ROOT, RunningEnclave, missing

__all__ = ["model"]
pytestmark = pytest.mark.skipif(not kernels(), reason="without the native path an enclave holds the library, and says so")


OF_BUFFERS = {"key, big", "share 1, big", "share 2, big"}
"""How the process that rebuilds the key has it (`tests/unit/kms/test_reconstruction_memory.py`)."""


ASKED = """
from bytewise.tee.confinement import *
isolate_network(), limit_resources(memory_bytes=2**32, cpu_s=9, files=99)
print(lock_memory().missing, end="")
"""


@functools.cache
def unlockable() -> str:
    """Why this machine lets this user lock no memory; empty if it does."""
    return subprocess.check_output([sys.executable, "-c", ASKED], cwd=ROOT, env=child_environment(), timeout=60, text=True)


class Noted(Shard):
    """A shard that remembers what it sealed for the last that asked."""

    sealed: bytes

    def release(self, body: bytes, peer: AttestedPeer) -> ReleaseAnswer:
        answer = super().release(body, peer)
        self.sealed = answer.sealed_partial
        return answer


def noted(world: World, index: int) -> Noted:
    """Such a shard of the world."""
    shard = world.shard(index, release_shares=True)
    shard.__class__ = Noted
    assert isinstance(shard, Noted)
    return shard


@pytest.fixture(scope="module")
def world(model: Artifact, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("rebuilding") / "world", epoch=rebuilt_epoch(1))
    enclave = measure(SOURCE_ROOT, ENCLAVE_ENTRY, model.model_id)
    world.policy = policy_for(enclave, program(SHARD_ENTRY), world.folder / "root", CHAIN_ID, 1)
    world.chain = MemoryChain(world.document, world.policy.digest)
    return world


@pytest.fixture(scope="module")
def running(world: World, model: Artifact) -> Iterator[RunningEnclave]:
    """An enclave that rebuilds keys; its shards are up to each test."""
    folder = world.folder.parent
    (folder / "enclave.toml").write_text(
        f'artifact = "{model.path}"\nsocket = "s"\nchain_id = {CHAIN_ID}\nevidence = "simulated"\nrebuild_keys = true\n'
        'platform_file = "world/platform.key"\ninsecure_accept_simulated = true\nready_file = "ready"\njob_limit_s = 600\n'
        f"require_fences = {str(not missing() and not unlockable()).lower()}\n"
    )
    command = [sys.executable, "-m", "tests.fixtures.verifier.rebuilding_program", "--config", str(folder / "enclave.toml")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=log)
        try:
            wait_until(lambda: (folder / "ready").exists() or process.poll() is not None, timeout_s=120)
            assert process.poll() is None, (folder / "log").read_text()
            yield RunningEnclave(world, ExactEngine(model), process, folder, 5)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0, (folder / "log").read_text()


def stopped(running: RunningEnclave, where: str, result: "Future[JobResult]") -> psutil.Process:
    """The process that stands still there."""
    wait_until(lambda: result.done() or said(running, where) != [])
    return psutil.Process(int(said(running, where)[-1]))


def said(running: RunningEnclave, what: str) -> list[str]:
    """What the program said of that, in order."""
    return re.findall(rf"^{what}: (\w+)\.$", running.log(), re.M)


@pytest.mark.e2e
def test_key_is_in_a_child_that_ends_before_its_result_is_read(running: RunningEnclave, world: World) -> None:
    case, _ = running.case(1, 0)
    shards = [noted(world, 1), noted(world, 2)]
    for where in ("rebuilt", "opened"):
        (running.folder / where).touch()
    with world.listening((1, shards[0]), (2, shards[1])), ThreadPoolExecutor(1) as threads:
        result = threads.submit(running.judge, case)
        child = stopped(running, "rebuilt", result)
        job = child.parent()
        assert job is not None and child.pid in {each.pid for each in running.processes()}
        _is_fenced(child)
        secrets = {name: needle for name, needle in needles(world).items() if name in OF_BUFFERS}
        sealed = {f"sealed {i}": shard.sealed for i, shard in enumerate(shards)}
        transport = dict(each.split("_") for each in said(running, "secret"))[str(child.pid)]
        opens = memory_search.scalar_forms(int(transport, 16))
        assert memory_search.in_memory(os.getpid(), sealed) == sealed.keys(), "who sent them has them (positive control)"
        if memory_search.sees_closed():
            assert memory_search.in_memory(child.pid, secrets) == OF_BUFFERS and memory_search.in_memory(child.pid, opens)
            for each in (job.pid, running.process.pid):
                assert memory_search.in_memory(each, secrets | sealed | opens) == set()
        (running.folder / "rebuilt").unlink()
        assert stopped(running, "opened", result) == job
        assert not child.is_running()
        if memory_search.sees_closed():
            assert memory_search.in_memory(job.pid, secrets | sealed | opens) == set()
        (running.folder / "opened").unlink()
        assert result.result(timeout=120).outcome == Outcome.EXECUTED
    assert result.result().tokens_hash == case.receipt.tokens_hash
    log = (running.folder / "log").read_bytes()
    assert (b'"fence.failed","name":"locked"' in log) == (unlockable() != ""), "a lock that cannot be had is told"
    assert b"shard.failed" not in log, "the child has its streams at the first try"
    assert {name for name, needle in needles(world).items() if needle in log} == set()


def _is_fenced(process: psutil.Process) -> None:
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert "no_sockets" in missing() or re.search(r"Seccomp:\s+2", status)
    assert process.rlimit(resource.RLIMIT_CORE) == (0, 0)
    assert process.rlimit(resource.RLIMIT_AS)[1] != resource.RLIM_INFINITY or "bounded" in missing()
    assert (re.search(r"VmLck:\s+0 kB", status) is None) == (unlockable() == ""), "with or without swap"
    assert os.geteuid() == 0 or os.stat(f"/proc/{process.pid}/mem").st_uid == 0, "who can be dumped belongs to its user"


@pytest.mark.e2e
def test_result_of_the_child_is_the_vote(running: RunningEnclave, world: World) -> None:
    case, _ = running.case(2, 0)
    with world.listening((3, world.shard(3, release_shares=True))):
        assert running.judge(case).outcome == Outcome.NO_KEY
    other, _ = running.case(3, 0)
    stolen = world.named(case.payload, replace(case.receipt, envelope_hash=envelope_hash(other.envelope)), other.envelope)
    world.chain.open(stolen)
    judged = running.judge(stolen)
    assert (judged.outcome, judged.code) == (Outcome.INVALID, EnvelopeProofBad.code)
    wait_until(lambda: len(running.processes()) == 5 and psutil.STATUS_ZOMBIE not in {p.status() for p in running.processes()})
