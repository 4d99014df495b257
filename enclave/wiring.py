"""What the enclave's processes are made of: a keeper with the verified weights, one process per job, one for second opinions."""

import functools
import gc
import os
import signal
import socket
import threading
from pathlib import Path
from types import FrameType

from bytewise.inference.engine import ExactEngine
from bytewise.inference.model import library
from bytewise.inference.profiles import AnyEngine, Loaded, torch_instead, verify_artifact
from bytewise.ports import KeySource, Quoter
from bytewise.protocol.assurance import HARDWARE, SIMULATED, warning
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.units import Digest
from bytewise.service import frames, telemetry
from bytewise.tee import confinement
from bytewise.tee.confinement import Fence
from bytewise.tee.quoters import open_quoter
from enclave import server
from enclave.cross_check import Doubting, Opened, SecondOpinion
from enclave.forked_process import Ready
from enclave.key_rebuilder import Rebuilder
from enclave.log_continuity import Promises
from enclave.release_client import ShardKeySource
from enclave.session import Bench
from enclave.settings import EnclaveSettings
from enclave.shard_dialer import Switchboard
from enclave.supervisor import Keeper

JOB_FILES = 256
"""Most open files of one job's process."""

REBUILDER_BYTES = 2**30
"""Address space that a process which rebuilds a key may have beyond what it was forked with: an envelope, and threads."""


def run(settings: EnclaveSettings, fences: list[Fence]) -> int:
    """Serves jobs until SIGTERM; the exit code. `fences` are those that stand already."""
    stop = _stop_on_signals()
    loaded = verify_artifact(
        settings.artifact, _environment(settings), threads=settings.threads, backend=settings.backend, device=settings.device,
        cache_bytes=settings.cache_bytes,
    )  # fmt: skip
    slower = torch_instead(settings.artifact, settings.device)
    if slower is not None:
        telemetry.log("engine.torch", why=slower)
    # Before there is a quoter or a socket: a fork has what was there.
    second = _second(settings, loaded)
    if loaded.has_library:
        library()
    simulator = functools.partial(_simulator, loaded.model_id)
    quoter = open_quoter(settings.evidence, settings.platform_file, settings.endorsements, simulator)
    gc.collect()
    gc.freeze()  # what stays need not be searched after each job for what the job left, nor be copied by that
    with server.listen(settings.socket) as listening:
        unfenced = _missing(*fences, confinement.no_sockets(forks=True))
        if second is not None:
            unfenced += tuple(f"second {each}" for each in second.ready().unfenced)
        _require(settings, unfenced)
        parts = _Parts(settings, loaded, quoter, second, unfenced)
        watched = None if second is None else second.process
        keeper = Keeper(listening, parts.bench, parts.promises, settings.job_limit_s, stop, parts.announce, watched)
        code = keeper.run()
    if second is not None:
        second.close()
    settings.socket.unlink(missing_ok=True)
    return code


def _second(settings: EnclaveSettings, loaded: Loaded) -> SecondOpinion | None:
    # An engine that computes with the library anyway asks its second backend where it is.
    if loaded.has_library:
        return None

    def begin() -> tuple[str, ...]:
        missing = _missing(confinement.no_sockets(forks=True))
        library()
        return missing

    def engine() -> Opened:
        opened = loaded.open()
        assert isinstance(opened, ExactEngine)
        opened.second_backend()
        return Opened(opened, _missing(*_fences(settings, opened)))

    return SecondOpinion(engine, begin, settings.job_limit_s)


class _Parts:
    """What the processes of jobs need; each method says in which process it runs."""

    def __init__(
        self, settings: EnclaveSettings, loaded: Loaded, quoter: Quoter, second: SecondOpinion | None, unfenced: tuple[str, ...]
    ) -> None:
        self._settings, self._loaded, self._quoter, self._second = settings, loaded, quoter, second
        self._unfenced = unfenced
        self.promises = Promises()
        # Shards count the instances that ask about one receipt: each retry must not be another.
        self._instance = Digest(os.urandom(32))

    def bench(self, line: socket.socket) -> Bench:
        """In a job's process: everything for one job, with the fences that the keeper cannot put up for it."""
        switchboard = Switchboard()
        # Before the engine has threads and this process may fork no more.
        keys, unfenced = self._keys(line, switchboard)
        engine = self._loaded.open()
        engine.vectors()
        ends = (keys.pid,) if isinstance(keys, Rebuilder) else ()
        missing = (
            *self._unfenced,
            *unfenced,
            *_missing(*_fences(self._settings, engine, _quotes_by_files(self._settings), ends)),
        )
        judging = Doubting(engine, self._second) if self._second is not None and isinstance(engine, ExactEngine) else engine
        return Bench(
            judging, self._loaded.model_id, keys, self._quoter, self._settings.chain_id, os.urandom, engine.profile, switchboard,
            missing, self._instance, self._settings.job_limit_s, keys.transport if isinstance(keys, Rebuilder) else None,
        )  # fmt: skip

    def _keys(self, line: socket.socket, switchboard: Switchboard) -> tuple[KeySource, tuple[str, ...]]:
        # In a job's process: what opens envelopes, and fences that do not hold around the process that rebuilds keys.
        promises = Promises(lambda promise: frames.send(line, promise), self.promises)

        def source(rebuilds: bool, board: Switchboard) -> KeySource:
            timeout_s = self._settings.key_timeout_s
            return ShardKeySource(self._quoter, timeout_s=timeout_s, dial=board.dial, promises=promises, rebuilds=rebuilds)

        plain = source(False, switchboard)
        if not self._settings.rebuild_keys:
            return plain, ()
        rebuilder = Rebuilder(plain, switchboard, functools.partial(source, True), self._rebuilder_fences)
        return rebuilder, tuple(f"rebuilder {each}" for each in rebuilder.ready().unfenced)

    def _rebuilder_fences(self) -> tuple[str, ...]:
        limits = confinement.bounded(memory_bytes=REBUILDER_BYTES, cpu_s=self._settings.job_limit_s, files=JOB_FILES)
        # A key is worth more than a prompt: no swap now is no word about swap that somebody adds while it is here.
        kept = confinement.locked(), confinement.no_swap()
        alone = confinement.no_sockets(forks=False, writes=_quotes_by_files(self._settings))
        return _missing(confinement.unseen(), *kept, alone, limits)

    def announce(self, ready: Ready) -> None:
        """In the keeper, once the first process waits for a job."""
        about = {"model": self._loaded.model_id, "evidence": self._settings.evidence.value, "unfenced": ready.unfenced}
        # An enclave reads no chain: its evidence fits key epochs of this label only, and shards refuse it for others.
        told = warning(SIMULATED if self._settings.evidence is EvidenceType.SIMULATED else HARDWARE)
        telemetry.log("enclave.ready", **about, **({"warning": told} if told else {}))
        _require(self._settings, ready.unfenced)
        if self._settings.ready_file is not None:
            self._settings.ready_file.write_text(self._loaded.model_id.hex())


def _quotes_by_files(settings: EnclaveSettings) -> bool:
    # The kernel's interface to hardware evidence is a file that is written (`bytewise.tee.quoters`).
    return settings.evidence is not EvidenceType.SIMULATED


def _fences(settings: EnclaveSettings, engine: AnyEngine, writes: bool = False, ends: tuple[int, ...] = ()) -> list[Fence]:
    # Those of a process that has a job or a doubt. A GPU's driver opens its devices for writing.
    alone = confinement.no_sockets(forks=False, writes=writes or settings.device != "cpu", ends=ends)
    fences = [confinement.no_swap(), alone]
    if settings.device != "cpu":
        # A GPU's driver maps more addresses than there is memory anywhere.
        return [*fences, Fence("bounded", f"not on {settings.device}")]
    cache = engine.allowance if isinstance(engine, ExactEngine) else 0
    # Opening the engine took some of it already; as much again is allowed for that.
    cpu_s = 2 * settings.job_limit_s * settings.threads + 60
    return [*fences, confinement.bounded(memory_bytes=cache + settings.working_bytes, cpu_s=cpu_s, files=JOB_FILES)]


def _missing(*fences: Fence) -> tuple[str, ...]:
    for each in fences:
        if each.missing:
            telemetry.log("enclave.fence", name=each.name, why=each.missing)
    return tuple(each.name for each in fences if each.missing)


def _require(settings: EnclaveSettings, unfenced: tuple[str, ...]) -> None:
    if settings.require_fences and unfenced:
        raise ConfigurationError("require_fences", f"not here: {', '.join(unfenced)}")


def _environment(settings: EnclaveSettings) -> Environment | None:
    path = settings.environment_file
    if path is None:
        return None
    try:
        return decode(Environment, path.read_bytes())
    except OSError as error:
        raise ConfigurationError(path.name, str(error.strerror)) from None
    except Fault as error:
        raise ConfigurationError(path.name, f"is no environment: {error}") from None


def _simulator(model_id: Digest, platform_file: Path) -> Quoter:
    # Imported here only: a production enclave must not hold it.
    from bytewise.tee_simulated.quoter import SimulatedQuoter

    return SimulatedQuoter.of_this_program(platform_file, model=model_id)


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=stop.set, daemon=True).start()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    return stop
