"""An enclave's own program as it runs, with the shards, chain and client around it."""

import functools
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from bytewise.inference.pinned.engine import PinnedEngine
from bytewise.inference.profiles import AnyEngine
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.records.request import Request, output_for
from bytewise.protocol.records.seal import Payload, client_digest
from bytewise.protocol.records.statements import transport_key_hash
from bytewise.protocol.units import Digest
from bytewise.service.settings import child_environment
from bytewise.tee.measurement import ENCLAVE_ENTRY, SHARD_ENTRY, measure
from bytewise.tee_simulated.__main__ import policy_for
from bytewise.tee_simulated.quoter import source_root
from enclave.wiring import JOB_FILES
from tests.unit.kms.memory_chain import CHAIN_ID, CLIENT, Case, MemoryChain
from tests.unit.kms.world import World, program, wait_until
from verifier.jobs.enclave_client import JobSocket

ROOT = Path(__file__).resolve().parents[3]
PROMPT = tuple(200 + 7 * i % 55 for i in range(12))
"""Token ids that stand in this order nowhere else."""


_ASKED = """
import json
from bytewise.tee.confinement import *
fences = no_network(), unseen(), no_swap(), no_sockets(forks=True), bounded(memory_bytes=2**32, cpu_s=9, files=99)
print(json.dumps([each.name for each in fences if each.missing]))
"""


@functools.cache
def missing() -> tuple[str, ...]:
    """Fences that this machine does not give this user."""
    return tuple(
        json.loads(subprocess.check_output([sys.executable, "-c", _ASKED], cwd=ROOT, env=child_environment(), timeout=60))
    )


@dataclass
class Running:
    """An enclave, and the shards, chain and client around it."""

    world: World
    engine: AnyEngine
    process: "subprocess.Popen[bytes]"
    folder: Path
    count: int
    """Processes that it has while it waits."""

    def case(self, seq: int, step: int) -> tuple[Case, Request]:
        """A receipt over the true answer, or over one whose token is moved on by `step`."""
        plain = self.world.case(seq).payload.request
        request = replace(plain, model_id=self.engine.artifact.model_id, prompt=PROMPT, nonce=Digest(os.urandom(32)))
        true = self.engine.generate(request)
        tokens = true.output.token_ids
        output = output_for(request, ((tokens[0] + step) % 250, *tokens[1:]), true.output.finish_reason)
        signature = CLIENT.sign(client_digest(request.req_hash, CHAIN_ID))
        out_hash = true.out_hash if step == 0 else Digest(b"\x22" * 32)
        case = self.world.sealed(Payload(request, output, signature), seq, out_hash=out_hash)
        self.world.chain.open(case)
        return case, request

    def judge(self, case: Case) -> JobResult:
        """What the enclave says of it."""
        duty = JobSocket(self.folder / "s", prepare_timeout_s=120)
        prepared = duty.prepare(case.id)
        key = transport_key_hash(prepared.transport_key)
        return duty.run(self.world.job(case, self.world.ticket(case, transport_key_hash=key, instance=prepared.instance)))

    def processes(self) -> list[psutil.Process]:
        """The keeper and what it started."""
        keeper = psutil.Process(self.process.pid)
        return [keeper, *keeper.children(recursive=True)]

    def at_rest(self) -> list[psutil.Process]:
        """The same once all wait that wait for a job or a doubt, with their fences up."""
        wait_until(lambda: len(self.processes()) == self.count and all(map(_is_bounded, self.waiting())))
        return self.processes()

    def waiting(self) -> list[psutil.Process]:
        """Those that wait for a job or a doubt: they start nothing."""
        return [each for each in self.processes() if not children(each)]

    def log(self) -> str:
        """All that it has written."""
        return (self.folder / "log").read_text()

    def imported(self) -> dict[str, str | None]:
        """Modules of the processes that have had a job, once one has ended, with the file that each is from, if any."""
        wait_until(lambda: _MODULES.search(self.log()) is not None)
        return {name: file for each in _MODULES.findall(self.log()) for name, file in json.loads(each).items()}


_MODULES = re.compile(r"^modules: (\{.*\})$", re.MULTILINE)
"""What `enclave_program` says of each process that has had a conversation."""


def children(process: psutil.Process) -> list[psutil.Process]:
    """Of a process; none of one that is gone."""
    with suppress(psutil.NoSuchProcess):
        return process.children()
    return []


def _is_bounded(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE and process.rlimit(resource.RLIMIT_NOFILE) == (JOB_FILES, JOB_FILES)
    return False


@contextmanager
def running_enclave(folder: Path, engine: AnyEngine, settings: str = "", processes: int = 4) -> Iterator[Running]:
    """One with the artifact of an engine, whose job processes say what they have imported; more `settings` are lines of TOML."""
    world = World(folder / "world")
    model = engine.artifact
    if isinstance(engine, PinnedEngine):
        world.environment = engine.environment
    world.policy = policy_for(
        measure(source_root(), ENCLAVE_ENTRY, model.model_id), program(SHARD_ENTRY), world.folder / "root", CHAIN_ID, 1
    )
    world.chain = MemoryChain(world.document, world.policy.digest)
    (folder / "enclave.toml").write_text(
        f'artifact = "{model.path}"\nsocket = "s"\nchain_id = {CHAIN_ID}\nevidence = "simulated"\n'
        'platform_file = "world/platform.key"\ninsecure_accept_simulated = true\nready_file = "ready"\n'
        f"require_fences = {str(not missing()).lower()}\n{settings}"
    )
    command = [sys.executable, "-m", "tests.unit.verifier.enclave_program", "--config", str(folder / "enclave.toml")]
    with (folder / "log").open("wb") as log, world.serving((1, world.shard(1)), (2, world.shard(2))):
        process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=log, start_new_session=True)
        try:
            wait_until(lambda: (folder / "ready").exists() or process.poll() is not None, timeout_s=120)
            assert process.poll() is None, (folder / "log").read_text()
            yield Running(world, engine, process, folder, processes)
        finally:
            os.killpg(process.pid, signal.SIGTERM)  # as a supervisor may: all of its processes get it
            assert process.wait(timeout=60) == 0, (folder / "log").read_text()
