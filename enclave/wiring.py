"""Connects the enclave's processes: a supervisor with the verified weights, one process for each job, and one for
cross-checks."""

import functools
import gc
import os
import signal
import socket
import threading
from pathlib import Path
from types import FrameType

from bytewise.inference.engine import ExactEngine
from bytewise.inference.profiles import AnyEngine, Loaded, torch_instead, verify_artifact
from bytewise.inference.torch_path import library
from bytewise.ports import KeySource, Quoter
from bytewise.protocol.assurance import HARDWARE, SIMULATED, warning
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.units import Digest
from bytewise.service import connections, telemetry
from bytewise.tee import confinement
from bytewise.tee.confinement import Fence
from bytewise.tee.quoters import open_quoter
from enclave import job_socket
from enclave.cross_check import CrossCheck, CrossCheckedEngine, OpenedBackend
from enclave.forked_process import ProcessReady
from enclave.job_socket import JobContext, ShardDialer
from enclave.key_rebuilder import KeyRebuilder
from enclave.log_continuity import LogContinuity
from enclave.release_client import ShardKeySource
from enclave.settings import EnclaveSettings
from enclave.supervisor import Supervisor

JOB_FILES = 256
"""Most open files of one job's process."""

REBUILDER_BYTES = 2**30
"""Bytes of address space that a key-rebuilding process gets in addition to its size at the fork. The envelope and the threads of
the process need them."""


def run(settings: EnclaveSettings, fences: list[Fence]) -> int:
    """Serves jobs until SIGTERM or SIGINT, or until a process of the enclave fails, and returns the exit code. `fences` has the
    results of the fences that were set up before."""
    stop = _stop_on_signals()
    loaded = verify_artifact(
        settings.artifact, _environment(settings), threads=settings.threads, backend=settings.backend, device=settings.device,
        cache_bytes=settings.cache_bytes,
    )  # fmt: skip
    slower = torch_instead(settings.artifact, settings.device)
    if slower is not None:
        telemetry.log("engine.torch", why=slower)
    # The second backend's process is forked before there is a quoter or a socket, because a fork gets everything that exists.
    cross_check = _cross_check(settings, loaded)
    if loaded.has_library:
        library()
    simulator = functools.partial(_simulator, loaded.model_id)
    quoter = open_quoter(settings.evidence, settings.platform_file, settings.endorsements, simulator)
    gc.collect()
    # The collector of a job's process then does not touch the permanent objects, so the processes share their memory.
    gc.freeze()
    with job_socket.listen(settings.socket, settings.client_uid) as listening:
        unfenced = _missing(*fences, confinement.filter_calls(forks=True))
        if cross_check is not None:
            unfenced += tuple(f"second {each}" for each in cross_check.ready().unfenced)
        _require(settings, unfenced)
        parts = _ProcessFactory(settings, loaded, quoter, cross_check, unfenced)
        watched = None if cross_check is None else cross_check.process
        supervisor = Supervisor(listening, parts.context, parts.continuity, settings.job_limit_s, stop, parts.announce, watched)
        code = supervisor.run()
        # While this process still listens, so that the file cannot be the socket of another process.
        settings.socket.unlink(missing_ok=True)
    if cross_check is not None:
        cross_check.close()
    return code


def _cross_check(settings: EnclaveSettings, loaded: Loaded) -> CrossCheck | None:
    # An engine that uses the library anyway runs its second backend in its own process.
    if loaded.has_library:
        return None

    def begin() -> tuple[str, ...]:
        missing = _missing(confinement.filter_calls(forks=True))
        library()
        return missing

    def engine() -> OpenedBackend:
        opened = loaded.open()
        assert isinstance(opened, ExactEngine)
        opened.second_backend()
        return OpenedBackend(opened, _missing(*_fences(settings, opened)))

    return CrossCheck(engine, begin, settings.job_limit_s)


class _ProcessFactory:
    """The factory of the parts of job processes. The docstring of each public method begins with the process in which the
    method runs."""

    def __init__(
        self, settings: EnclaveSettings, loaded: Loaded, quoter: Quoter, cross_check: CrossCheck | None, unfenced: tuple[str, ...]
    ) -> None:
        self._settings, self._loaded, self._quoter, self._cross_check = settings, loaded, quoter, cross_check
        self._unfenced = unfenced
        self.continuity = LogContinuity()
        # Shards count the instances that ask about one receipt, so a retry must not be another instance.
        self._instance = Digest(os.urandom(32))

    def context(self, line: socket.socket) -> JobContext:
        """In a job's process: makes everything that one job needs, and sets up the fences that the supervisor cannot set up for
        it."""
        shard_dialer = ShardDialer()
        # This call forks the key rebuilder. It comes before the engine starts threads and before a fence forbids forks.
        keys, unfenced = self._keys(line, shard_dialer)
        engine = self._loaded.open()
        engine.vectors()
        ends = (keys.pid,) if isinstance(keys, KeyRebuilder) else ()
        missing = (
            *self._unfenced,
            *unfenced,
            *_missing(*_fences(self._settings, engine, _quotes_by_files(self._settings), ends)),
        )
        judging = (
            CrossCheckedEngine(engine, self._cross_check)
            if self._cross_check is not None and isinstance(engine, ExactEngine)
            else engine
        )
        return JobContext(
            judging, self._loaded.model_id, keys, self._quoter, self._settings.chain_id, os.urandom, engine.profile, shard_dialer,
            missing, self._instance, self._settings.job_limit_s, keys.transport if isinstance(keys, KeyRebuilder) else None,
            self._settings.client_uid,
        )  # fmt: skip

    def _keys(self, line: socket.socket, shard_dialer: ShardDialer) -> tuple[KeySource, tuple[str, ...]]:
        # In a job's process: the key source, and the names of fences that are missing around the process that rebuilds keys.
        continuity = LogContinuity(lambda release: connections.send(line, release), self.continuity)

        def source(rebuilds: bool, board: ShardDialer) -> KeySource:
            timeout_s = self._settings.key_timeout_s
            return ShardKeySource(self._quoter, timeout_s=timeout_s, dial=board.dial, continuity=continuity, rebuilds=rebuilds)

        plain = source(False, shard_dialer)
        if not self._settings.rebuild_keys:
            return plain, ()
        rebuilder = KeyRebuilder(plain, shard_dialer, functools.partial(source, True), self._rebuilder_fences)
        return rebuilder, tuple(f"rebuilder {each}" for each in rebuilder.ready().unfenced)

    def _rebuilder_fences(self) -> tuple[str, ...]:
        # In the key rebuilder: sets up its fences, and returns the names of those that are missing.
        limits = confinement.limit_resources(memory_bytes=REBUILDER_BYTES, cpu_s=self._settings.job_limit_s, files=JOB_FILES)
        # A key is worth more than a prompt, so its memory is locked even if there is no swap now: swap could be added during the
        # job.
        kept = confinement.lock_memory(), confinement.avoid_swap()
        alone = confinement.filter_calls(forks=False, writes=_quotes_by_files(self._settings))
        return _missing(confinement.deny_inspection(), *kept, alone, limits)

    def announce(self, ready: ProcessReady) -> None:
        """In the supervisor: logs that the enclave has started, checks its fences and writes the ready file. It runs when the
        first process waits for a job."""
        about = {"model": self._loaded.model_id, "evidence": self._settings.evidence.value, "unfenced": ready.unfenced}
        # An enclave reads no chain. Its evidence is valid for key epochs of this label only; shards refuse it for others.
        told = warning(SIMULATED if self._settings.evidence is EvidenceType.SIMULATED else HARDWARE)
        telemetry.log("enclave.started", **about, **({"warning": told} if told else {}))
        _require(self._settings, ready.unfenced)
        if self._settings.ready_file is not None:
            self._settings.ready_file.write_text(self._loaded.model_id.hex())


def _quotes_by_files(settings: EnclaveSettings) -> bool:
    # The kernel's interface to hardware evidence is a file that is written (`bytewise.tee.quoters`).
    return settings.evidence is not EvidenceType.SIMULATED


def _fences(settings: EnclaveSettings, engine: AnyEngine, writes: bool = False, ends: tuple[int, ...] = ()) -> list[Fence]:
    # Fences of a process with a job or a cross-check. A GPU's driver opens its devices for writing.
    alone = confinement.filter_calls(forks=False, writes=writes or settings.device != "cpu", ends=ends)
    fences = [confinement.avoid_swap(), alone]
    if settings.device != "cpu":
        # A GPU's driver maps more addresses than any machine has memory.
        return [*fences, Fence("bounded", f"not on {settings.device}")]
    cache = engine.allowance if isinstance(engine, ExactEngine) else 0
    # Opening the engine has already used some processor time. Twice the time of a job, and a minute, leave enough for the job.
    cpu_s = 2 * settings.job_limit_s * settings.threads + 60
    return [*fences, confinement.limit_resources(memory_bytes=cache + settings.working_bytes, cpu_s=cpu_s, files=JOB_FILES)]


def _missing(*fences: Fence) -> tuple[str, ...]:
    for each in fences:
        if each.missing:
            telemetry.log("fence.failed", name=each.name, why=each.missing)
    return tuple(each.name for each in fences if each.missing)


def _require(settings: EnclaveSettings, unfenced: tuple[str, ...]) -> None:
    if settings.require_fences and unfenced:
        raise ConfigurationError("require_fences", f"these fences cannot be set up here: {', '.join(unfenced)}")


def _environment(settings: EnclaveSettings) -> Environment | None:
    path = settings.environment_file
    if path is None:
        return None
    try:
        return decode(Environment, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(path.name, str(error.strerror)) from None
    except Fault as error:
        raise ConfigurationError(
            path.name, f"is no environment ({error}): name the registered Environment as canonical JSON"
        ) from None


def _simulator(model_id: Digest, platform_file: Path) -> Quoter:
    # Imported here only, because a production enclave must not load the simulator.
    from bytewise.tee_simulated.quoter import SimulatedQuoter

    return SimulatedQuoter.of_this_program(platform_file, model=model_id)


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=stop.set, daemon=True).start()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    return stop
