"""The enclave as it runs: what its processes hold, import and show while they judge an honest answer and a forged one."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from bytewise.inference import artifact
from bytewise.inference.artifact import Artifact
from bytewise.inference.convert import convert
from bytewise.inference.engine import ExactEngine
from bytewise.inference.make import make_model
from bytewise.inference.native.library import kernels
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.messages import Outcome, transport_key_hash
from bytewise.protocol.request import Request, output_for
from bytewise.protocol.seal import Payload, client_digest
from bytewise.protocol.units import Digest
from bytewise.service.settings import child_environment
from bytewise.tee.appraisal import verify_result_quote
from bytewise.tee.measurement import ENCLAVE_ENTRY, SHARD_ENTRY, measure
from bytewise.tee_simulated.__main__ import policy_for
from bytewise.tee_simulated.quoter import source_root
from tests.e2e import memory
from tests.unit.kms.memory_chain import CHAIN_ID, CLIENT, Case, MemoryChain
from tests.unit.kms.world import World, program, wait_until
from tests.unit.verifier.imports import FORBIDDEN, documented
from verifier.jobs import JobSocket

pytestmark = pytest.mark.skipif(not kernels(), reason="without the native path an enclave holds the library, and says so")

ROOT = Path(__file__).resolve().parents[3]
PROMPT = tuple(200 + 7 * i % 55 for i in range(12))
"""Token ids that stand in this order nowhere else."""


@dataclass
class Running:
    """An enclave, and the shards, chain and client around it."""

    world: World
    engine: ExactEngine
    process: "subprocess.Popen[bytes]"
    folder: Path

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
        duty = JobSocket(self.folder / "s", prepare_timeout_s=120, job_timeout_s=120)
        prepared = duty.prepare(case.id)
        key = transport_key_hash(prepared.transport_key)
        return duty.run(self.world.job(case, self.world.ticket(case, transport_key_hash=key, instance=prepared.instance)))

    def processes(self) -> list[psutil.Process]:
        """The keeper and what it started."""
        keeper = psutil.Process(self.process.pid)
        return [keeper, *keeper.children(recursive=True)]

    def log(self) -> str:
        """All that it has written."""
        return (self.folder / "log").read_text()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("model")
    make_model(folder / "checkpoint", 5, layers=2, width=64, heads=4, key_value_heads=2, context=256)
    convert(folder / "checkpoint", folder / "artifact")
    return artifact.load(folder / "artifact")


@pytest.fixture(scope="module")
def running(model: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("enclave")
    world = World(folder / "world")
    world.policy = policy_for(
        measure(source_root(), ENCLAVE_ENTRY, model.model_id), program(SHARD_ENTRY), world.folder / "root", CHAIN_ID, 1
    )
    world.chain = MemoryChain(world.document, world.policy.digest)
    (folder / "enclave.toml").write_text(
        f'artifact = "{model.path}"\nsocket = "s"\nchain_id = {CHAIN_ID}\nevidence = "simulated"\n'
        'platform_file = "world/platform.key"\ninsecure_accept_simulated = true\nready_file = "ready"\nrequire_fences = true\n'
    )
    command = [sys.executable, "-m", "tests.unit.verifier.enclave_program", "--config", str(folder / "enclave.toml")]
    with (folder / "log").open("wb") as log, world.serving((1, world.shard(1)), (2, world.shard(2))):
        process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=log)
        try:
            wait_until(lambda: (folder / "ready").exists() or process.poll() is not None, timeout_s=120)
            assert process.poll() is None, (folder / "log").read_text()
            yield Running(world, ExactEngine(model), process, folder)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0, (folder / "log").read_text()


@pytest.mark.e2e
def test_an_honest_answer_and_a_forged_one_are_judged_and_nothing_stays(running: Running) -> None:
    (honest, first), (forged, second) = running.case(1, 0), running.case(2, 1)
    before = {each.pid for each in running.processes()}
    results = [running.judge(honest), running.judge(forged)]
    assert [each.outcome for each in results] == [Outcome.EXECUTED] * 2, running.log()
    assert results[0].tokens_hash == honest.receipt.tokens_hash
    assert results[1].tokens_hash != forged.receipt.tokens_hash, "the second backend has confirmed the true answer"
    for each in results:
        assert verify_result_quote(running.world.policy, each.quote, CHAIN_ID).statement.tokens_hash == each.tokens_hash
    wait_until(lambda: len(running.processes()) == len(before) and {each.pid for each in running.processes()} != before)
    _nothing_shows(running, (first, second))


def _nothing_shows(running: Running, requests: tuple[Request, ...]) -> None:
    needles = memory.forms("no text at all: tokens", PROMPT) | {
        f"nonce {i}": bytes(each.nonce) for i, each in enumerate(requests)
    }
    needles |= {f"nonce {i} hex": each.nonce.hex().encode() for i, each in enumerate(requests)}
    assert memory.in_memory(os.getpid(), needles), "who made the requests holds them (positive control)"
    shown = running.log().encode()
    for each in running.processes():
        for name in ("cmdline", "environ"):
            shown += Path(f"/proc/{each.pid}/{name}").read_bytes() if os.geteuid() == 0 else b""
        if os.geteuid() == 0:
            assert memory.in_memory(each.pid, needles) == set(), "the keeper and the next job's process never had them"
    assert {name for name, needle in needles.items() if needle in shown} == set()
    assert [path for path in running.folder.rglob("core*")] == []


@pytest.mark.e2e
def test_a_jobs_process_has_imported_no_network_client_and_what_it_has_is_listed(running: Running) -> None:
    running.judge(running.case(3, 1)[0])
    path = running.folder / "enclave.modules"
    wait_until(path.exists)
    loaded = json.loads(path.read_text())
    assert [name for name in loaded if name.split(".")[0] in FORBIDDEN] == []
    own = {"tests", "bytewise", "verifier", "kms"}
    packages = {name.split(".")[0] for name in loaded} - sys.stdlib_module_names - own
    assert {name for name in packages if not name.startswith("_")} == documented()


@pytest.mark.e2e
def test_fences_stand_around_every_process(running: Running) -> None:
    assert set(re.findall(r'"holds":(\w+)', running.log())) == {"true"}
    for each in running.processes():
        status = Path(f"/proc/{each.pid}/status").read_text()
        assert re.search(r"Seccomp:\s+2", status) and re.search(r"NoNewPrivs:\s+1", status)
        assert os.readlink(f"/proc/{each.pid}/ns/net") != os.readlink("/proc/self/ns/net")
        assert each.rlimit(resource.RLIMIT_CORE) == (0, 0)
        assert os.stat(f"/proc/{each.pid}/mem").st_uid == 0, "a process that can be dumped belongs to its user"
