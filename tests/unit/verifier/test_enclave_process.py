"""The enclave as it runs: what its processes hold, import and show while they judge an honest answer and a forged one."""

import functools
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
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
from bytewise.protocol.appraisal import EvidenceType
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.jobs import JOB_LIMIT_S, JobResult
from bytewise.protocol.messages import Outcome, transport_key_hash
from bytewise.protocol.request import Request, output_for
from bytewise.protocol.seal import Payload, client_digest
from bytewise.protocol.units import Digest
from bytewise.service.settings import child_environment
from bytewise.tee.appraisal import verify_result_quote
from bytewise.tee.measurement import ENCLAVE_ENTRY, SHARD_ENTRY, measure
from bytewise.tee_simulated.__main__ import policy_for
from bytewise.tee_simulated.quoter import source_root
from bytewise.tee_simulated.root import Platform
from kms import keyring
from kms.curve import decode_point, encode_point
from kms.envelope import verify_receipt_envelope
from kms.policy import anchor_domain
from kms.shares import combine_values
from tests.e2e import memory
from tests.unit.kms.memory_chain import CHAIN_ID, CLIENT, Case, MemoryChain
from tests.unit.kms.world import World, program, wait_until
from tests.unit.verifier.imports import FORBIDDEN, documented
from verifier.enclave import wiring
from verifier.enclave.settings import EnclaveSettings
from verifier.enclave.wiring import JOB_FILES
from verifier.jobs import JobSocket

pytestmark = pytest.mark.skipif(not kernels(), reason="without the native path an enclave holds the library, and says so")

ROOT = Path(__file__).resolve().parents[3]
PROMPT = tuple(200 + 7 * i % 55 for i in range(12))
"""Token ids that stand in this order nowhere else."""


MODULES = re.compile(r"^modules: (\[.*\])$", re.MULTILINE)
"""What `enclave_program` says of each process that has had a conversation."""


ASKED = """
import json
from bytewise.tee.confinement import *
fences = no_network(), unseen(), no_swap(), no_sockets(forks=True), bounded(memory_bytes=2**32, cpu_s=9, files=99)
print(json.dumps([each.name for each in fences if each.missing]))
"""


@functools.cache
def missing() -> tuple[str, ...]:
    """Fences that this machine does not give this user."""
    return tuple(
        json.loads(subprocess.check_output([sys.executable, "-c", ASKED], cwd=ROOT, env=child_environment(), timeout=60))
    )


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
        duty = JobSocket(self.folder / "s", prepare_timeout_s=120)
        prepared = duty.prepare(case.id)
        key = transport_key_hash(prepared.transport_key)
        return duty.run(self.world.job(case, self.world.ticket(case, transport_key_hash=key, instance=prepared.instance)))

    def processes(self) -> list[psutil.Process]:
        """The keeper and what it started."""
        keeper = psutil.Process(self.process.pid)
        return [keeper, *keeper.children(recursive=True)]

    def at_rest(self) -> list[psutil.Process]:
        """The same once a process waits for a job and one for a doubt, with their fences up."""
        wait_until(lambda: len(self.processes()) == 4 and all(map(_is_bounded, self.waiting())))
        return self.processes()

    def waiting(self) -> list[psutil.Process]:
        """Those that wait for a job or a doubt: they start nothing."""
        return [each for each in self.processes() if not _children(each)]

    def log(self) -> str:
        """All that it has written."""
        return (self.folder / "log").read_text()


def _children(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return process.children()
    return []


def _is_bounded(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE and process.rlimit(resource.RLIMIT_NOFILE) == (JOB_FILES, JOB_FILES)
    return False


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
        'platform_file = "world/platform.key"\ninsecure_accept_simulated = true\nready_file = "ready"\n'
        f"require_fences = {str(not missing()).lower()}\n"
    )
    command = [sys.executable, "-m", "tests.unit.verifier.enclave_program", "--config", str(folder / "enclave.toml")]
    with (folder / "log").open("wb") as log, world.serving((1, world.shard(1)), (2, world.shard(2))):
        process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=log, start_new_session=True)
        try:
            wait_until(lambda: (folder / "ready").exists() or process.poll() is not None, timeout_s=120)
            assert process.poll() is None, (folder / "log").read_text()
            yield Running(world, ExactEngine(model), process, folder)
        finally:
            os.killpg(process.pid, signal.SIGTERM)  # as a supervisor may: all of its processes get it
            assert process.wait(timeout=60) == 0, (folder / "log").read_text()


@pytest.mark.e2e
def test_an_honest_answer_and_a_forged_one_are_judged_and_nothing_stays(running: Running) -> None:
    (honest, first), (forged, second) = running.case(1, 0), running.case(2, 1)
    before = {each.pid for each in running.waiting()}
    results = [running.judge(honest), running.judge(forged)]
    assert [each.outcome for each in results] == [Outcome.EXECUTED] * 2, running.log()
    assert results[0].tokens_hash == honest.receipt.tokens_hash
    assert results[1].tokens_hash != forged.receipt.tokens_hash, "the second backend has confirmed the true answer"
    for each in results:
        assert verify_result_quote(running.world.policy, each.quote, CHAIN_ID).statement.tokens_hash == each.tokens_hash
    wait_until(lambda: not before & {each.pid for each in running.at_rest()})
    _nothing_shows(running, _readings((first, second)) | _keys(running, (honest, forged)))


def _readings(requests: tuple[Request, ...]) -> dict[str, bytes]:
    """What shows that somebody had read the requests."""
    needles = memory.forms("no text at all: tokens", PROMPT)
    needles |= {f"nonce {i}": bytes(each.nonce) for i, each in enumerate(requests)}
    return needles | {f"nonce {i} hex": each.nonce.hex().encode() for i, each in enumerate(requests)}


def _keys(running: Running, cases: tuple[Case, ...]) -> dict[str, bytes]:
    """What opens the envelopes: the point that shards' partials make, and the key that none of them has."""
    world = running.world
    held = {n: keyring.open_share(world.settings.shards[n - 1].folder, world.document).scalar() for n in (1, 2)}
    key = combine_values(held)
    domain = anchor_domain(world.contracts)
    envelopes = [verify_receipt_envelope(domain, each.receipt, each.envelope) for each in cases]
    points = [int.from_bytes(encode_point(decode_point(each.enc) * key)[1:33], "big") for each in envelopes]
    return {f"{i} {form}": data for i, each in enumerate([key, *points]) for form, data in memory.scalar_forms(each).items()}


def _nothing_shows(running: Running, needles: dict[str, bytes]) -> None:
    assert memory.in_memory(os.getpid(), needles), "who made the requests holds them (positive control)"
    shown = running.log().encode()
    for each in running.at_rest():
        shown += Path(f"/proc/{each.pid}/cmdline").read_bytes()
        if memory.sees_closed():
            shown += Path(f"/proc/{each.pid}/environ").read_bytes()
            assert memory.in_memory(each.pid, needles) == set(), "the keeper and the next job's process never had them"
    assert {name for name, needle in needles.items() if needle in shown} == set()
    assert [path for path in running.folder.rglob("core*")] == []


@pytest.mark.e2e
def test_a_jobs_process_has_imported_no_network_client_and_what_it_has_is_listed(running: Running) -> None:
    before = {each.pid for each in running.waiting()}
    running.judge(running.case(3, 1)[0])
    wait_until(lambda: not before & {each.pid for each in running.at_rest()})
    wait_until(lambda: MODULES.search(running.log()) is not None)
    loaded = [name for each in MODULES.findall(running.log()) for name in json.loads(each)]
    assert [name for name in loaded if name.split(".")[0] in FORBIDDEN] == []
    assert "http.client" not in loaded, "Python's own, which torch would bring"
    own = {"tests", "bytewise", "verifier", "kms"}
    packages = {name.split(".")[0] for name in loaded} - sys.stdlib_module_names - own
    assert {name for name in packages if not name.startswith("_")} == documented()


@pytest.mark.e2e
def test_fences_stand_around_every_process_and_those_that_cannot_be_had_are_told(running: Running) -> None:
    assert set(re.findall(r'"enclave.fence","name":"(\w+)"', running.log())) == set(missing())
    for each in running.at_rest():
        status = Path(f"/proc/{each.pid}/status").read_text()
        if "no_sockets" not in missing():
            assert re.search(r"Seccomp:\s+2", status) and re.search(r"NoNewPrivs:\s+1", status)
        if "no_network" not in missing() and memory.sees_closed():
            assert os.readlink(f"/proc/{each.pid}/ns/net") != os.readlink("/proc/self/ns/net")
        assert each.rlimit(resource.RLIMIT_CORE) == (0, 0)
        if os.geteuid() != 0:
            assert os.stat(f"/proc/{each.pid}/mem").st_uid != os.geteuid(), "a process that is not closed belongs to its user"


@pytest.mark.e2e
def test_who_has_a_job_or_a_doubt_is_bounded_and_starts_nothing(running: Running) -> None:
    running.at_rest()
    for each in running.waiting():
        assert each.rlimit(resource.RLIMIT_CPU) == (2 * JOB_LIMIT_S + 60,) * 2
        assert 0 < each.rlimit(resource.RLIMIT_AS)[1] < 2**40


@pytest.mark.e2e
def test_the_second_backend_never_had_what_the_enclave_signs_with(running: Running) -> None:
    if not memory.sees_closed():
        # Who may not search closed processes sees at least that they are closed.
        for each in running.at_rest():
            with pytest.raises(PermissionError):
                open(f"/proc/{each.pid}/mem", "rb").close()
        return
    platform = Platform(running.folder / "world" / "platform.key")
    secrets = [each.key.private_numbers().private_value for each in (platform.pck_ca, platform.tcb_signer)]
    needles = {f"{i} {form}": data for i, each in enumerate(secrets) for form, data in memory.scalar_forms(each).items()}
    keeper, *others = running.at_rest()
    (second,) = [each for each in others if _children(each)]
    assert memory.in_memory(keeper.pid, needles), "it signs (positive control)"
    assert memory.in_memory(second.pid, needles) | memory.in_children(second.pid, needles) == set()


def test_where_fences_are_required_a_missing_one_ends_the_start() -> None:
    settings = EnclaveSettings(Path("m"), Path("s"), CHAIN_ID, EvidenceType.TDX, endorsements=Path("e"))
    wiring._require(settings, ("second no_swap",))
    with pytest.raises(ConfigurationError, match="second no_swap"):
        wiring._require(replace(settings, require_fences=True), ("second no_swap",))
