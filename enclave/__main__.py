"""`python -m enclave --config FILE`: fences itself in, then loads its libraries, verifies the model, takes jobs."""

import argparse
import sys
from pathlib import Path

from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service import telemetry
from bytewise.service.settings import load_settings
from bytewise.tee import confinement
from enclave import import_blocker
from enclave.failure_report import EXIT_BUG, report
from enclave.settings import EnclaveSettings


def main() -> int:
    """Runs the enclave until SIGTERM; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m enclave", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    telemetry.configure("enclave", details=False)
    sys.excepthook = report
    settings = load_settings(EnclaveSettings, parser.parse_args().config)
    # Before any thread exists, and before libraries that could use a network are loaded.
    fences = [confinement.no_network(), confinement.unseen()]
    import_blocker.keep_out()
    from enclave.wiring import run

    return run(settings, fences)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BytewiseError as failure:
        report(type(failure), failure, failure.__traceback__)
        sys.exit(EXIT_BUG)
