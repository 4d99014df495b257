"""`python -m enclave --config FILE`: confines the process, then loads its libraries, verifies the model and takes jobs.

`bytewise enclave run` starts it. Exit codes: `bytewise.service.exit_codes`.
"""

import sys
from collections.abc import Sequence

from bytewise.service import telemetry
from bytewise.service.entry_point import Parser
from bytewise.service.exit_codes import exit_of
from bytewise.service.settings import load_settings
from bytewise.tee import confinement
from enclave import import_blocker
from enclave.forked_process import report_failure
from enclave.settings import EnclaveSettings


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the enclave until SIGTERM or SIGINT. Returns the exit code of the process."""
    config = Parser("enclave", __doc__).parse_args(arguments).config
    telemetry.configure("enclave", details=False)
    sys.excepthook = report_failure
    try:
        return _run(load_settings(EnclaveSettings, config, "enclave"))
    except Exception as failure:  # noqa: BLE001  (a traceback shows values, and values here can be plaintext)
        report_failure(type(failure), failure, failure.__traceback__)
        return exit_of(failure)


def _run(settings: EnclaveSettings) -> int:
    # Before any thread exists, and before libraries load that could use a network.
    fences = [confinement.isolate_network(), confinement.deny_inspection()]
    import_blocker.block_imports()
    from enclave.wiring import run

    return run(settings, fences)


if __name__ == "__main__":
    sys.exit(main())
