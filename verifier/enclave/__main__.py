"""`python -m verifier.enclave --config FILE`: loads and verifies the artifact, proves the arithmetic, then takes jobs."""

import argparse
import functools
import gc
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType, TracebackType

from bytewise.inference.model import library
from bytewise.inference.profiles import open_engine
from bytewise.ports import Quoter
from bytewise.protocol.encoding import decode
from bytewise.protocol.environment import Environment
from bytewise.protocol.errors import ArtifactMismatch, BytewiseError, CannotExecute, ConfigurationError, Fault
from bytewise.protocol.units import Digest
from bytewise.service import telemetry
from bytewise.service.settings import load_settings
from bytewise.tee.quoters import open_quoter
from kms.client import ShardKeySource
from verifier.enclave import server
from verifier.enclave.session import Bench
from verifier.enclave.settings import EnclaveSettings
from verifier.enclave.switchboard import Switchboard

EXIT_BUG = 70
"""EX_SOFTWARE of sysexits, as every actor's."""


def main() -> int:
    """Runs the enclave until SIGTERM; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m verifier.enclave", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    telemetry.configure("enclave", details=False)
    sys.excepthook = _report
    settings = load_settings(EnclaveSettings, parser.parse_args().config)
    stop = _stop_on_signals()
    bench = _bench(settings)
    # After each job the heap is searched for what the job left (session.py): libraries and model, which stay, need not be.
    gc.collect()
    gc.freeze()
    with server.listen(settings.socket) as listening:
        telemetry.log("enclave.ready", model=bench.model_id, instance=bench.instance)
        if settings.ready_file is not None:
            settings.ready_file.write_text(bench.model_id.hex())
        server.serve(listening, bench, stop)
    settings.socket.unlink(missing_ok=True)
    return 0


def _bench(settings: EnclaveSettings) -> Bench:
    engine = open_engine(
        settings.artifact, _environment(settings), threads=settings.threads, backend=settings.backend, device=settings.device,
        cache_bytes=settings.cache_bytes,
    )  # fmt: skip
    engine.vectors()
    # Whoever finds a fraud asks torch, too: what that imports is loaded now, not while a deadline runs.
    library()
    quoter = open_quoter(
        settings.evidence, settings.platform_file, settings.endorsements, functools.partial(_simulator, engine.artifact.model_id)
    )
    switchboard = Switchboard()
    keys = ShardKeySource(quoter, timeout_s=settings.key_timeout_s, dial=switchboard.dial)
    return Bench(engine, engine.artifact.model_id, keys, quoter, settings.chain_id, os.urandom, engine.profile, switchboard)


def _simulator(model_id: Digest, platform_file: Path) -> Quoter:
    # Imported here only: a production enclave must not hold it.
    from bytewise.tee_simulated.quoter import SimulatedQuoter

    return SimulatedQuoter.of_this_program(platform_file, model=model_id)


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


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=stop.set, daemon=True).start()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    return stop


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    # A traceback shows values, and values here can be plaintext: only the class and the place are told.
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    rule = error.rule if isinstance(error, BytewiseError) else ""
    # These speak of settings, of the artifact's files and of this machine, never of a job.
    detail = str(error) if isinstance(error, ConfigurationError | ArtifactMismatch | CannotExecute) else ""
    telemetry.log("enclave.bug", error=kind.__name__, where=where, rule=rule, detail=detail)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BytewiseError as failure:
        _report(type(failure), failure, failure.__traceback__)
        sys.exit(EXIT_BUG)
