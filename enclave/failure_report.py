"""How a process of the enclave says that it failed: the class, the rule and the place, never what a traceback would show."""

from pathlib import Path
from types import TracebackType

from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute, ConfigurationError
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service import telemetry
from enclave.import_blocker import KeptOut


def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """One log line; for `sys.excepthook`, too. A traceback shows values, and values here can be plaintext."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    rule = error.rule if isinstance(error, BytewiseError) else ""
    # These speak of settings, of the artifact's files, of modules and of this machine, never of a job.
    detail = str(error) if isinstance(error, ConfigurationError | ArtifactMismatch | CannotExecute | KeptOut) else ""
    telemetry.log("enclave.bug", error=kind.__name__, where=where, rule=rule, detail=detail)
