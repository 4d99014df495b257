"""`python -m bytewise.da serve --config FILE`: the store as a process. SIGTERM ends it with exit code 0.

Other exit codes: `bytewise.service.exit_codes`.
"""

import sys
from pathlib import Path

import uvicorn

from bytewise.da.settings import StoreSettings
from bytewise.da.store import build_app
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service import telemetry
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Parser, exit_of
from bytewise.service.schedule import stop_on_signals
from bytewise.service.settings import load_settings

_DRAIN_S = 5
"""Longest wait for open requests at shutdown."""


def main() -> int:
    """Serves until SIGTERM; returns the exit code."""
    parser = Parser(prog="python -m bytewise.da", description=__doc__)
    parser.add_argument("command", choices=("serve",))
    parser.add_argument("--config", type=Path, required=True)
    settings = load_settings(StoreSettings, parser.parse_args().config)
    telemetry.configure("da")
    # uvicorn raises the signal again after its own shutdown; our handler then makes that a clean end.
    stop_on_signals()
    config = uvicorn.Config(
        build_app(settings, SystemClock()), host=settings.host, port=settings.port, log_config=None, access_log=False,
        timeout_graceful_shutdown=_DRAIN_S, h11_max_incomplete_event_size=64 * 1024,
    )  # fmt: skip
    server = uvicorn.Server(config)
    telemetry.log("da.starting", port=settings.port)
    server.run()
    telemetry.log("da.stopped")
    return 0 if server.started else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BytewiseError as failure:
        telemetry.log_error("start.failed", failure)
        sys.exit(exit_of(failure))
