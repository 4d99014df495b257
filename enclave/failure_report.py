"""Failure reports of the enclave's processes. They contain class, rule and place of an error, but no values, because values can
be plaintext."""

from pathlib import Path
from types import TracebackType

from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute, ConfigurationError
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service import telemetry
from enclave.import_blocker import ImportBlocked


def report_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Writes one log line about an error. It is also used as `sys.excepthook`, because a traceback would show values, and values
    here can be plaintext."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    rule = error.rule if isinstance(error, BytewiseError) else ""
    # These errors name settings, files of the artifact, modules and this machine, never a job.
    detail = str(error) if isinstance(error, ConfigurationError | ArtifactMismatch | CannotExecute | ImportBlocked) else ""
    telemetry.log("process.failed", error=kind.__name__, where=where, rule=rule, detail=detail)
