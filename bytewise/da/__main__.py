"""`python -m bytewise.da serve --config FILE`: the store as a process (`bytewise da run`). SIGTERM ends it with exit code 0.

Other exit codes: `bytewise.service.exit_codes`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from bytewise.da.settings import StoreSettings
from bytewise.da.store import build_app
from bytewise.service import metrics, schedule, telemetry
from bytewise.service.clock import SystemClock
from bytewise.service.entry_point import Parser, run_entry
from bytewise.service.exit_codes import Exit
from bytewise.service.listener import serve_metrics
from bytewise.service.metrics import Actor
from bytewise.service.readiness import ReadinessRegistry, watch_disk
from bytewise.service.schedule import stop_on_signals
from bytewise.service.settings import load_settings

_DRAIN_S = 5
"""Longest time in seconds for which the store waits for open requests when it shuts down."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM and returns the exit code."""
    config = Parser("bytewise.da", __doc__, ("serve",)).parse_args(arguments).config
    return run_entry("da", lambda: _serve(config))


def _serve(config: Path) -> int:
    settings = load_settings(StoreSettings, config)
    # uvicorn raises the signal again after its own shutdown; our handler then makes that a clean end.
    stop_on_signals()
    readiness = ReadinessRegistry()
    with serve_metrics(settings.metrics, Actor.DA, readiness):
        store = build_app(settings, SystemClock())
        watch_disk(readiness, settings.directory)
        metrics.CONFIG_INFO.labels(network="", role="da", strategy="").set(1)
        server_config = uvicorn.Config(
            store, host=settings.host, port=settings.port, log_config=None, access_log=False,
            timeout_graceful_shutdown=_DRAIN_S, h11_max_incomplete_event_size=64 * 1024,
            callback_notify=schedule.beat_http, timeout_notify=schedule.HTTP_BEAT_S,
        )  # fmt: skip
        server = uvicorn.Server(server_config)
        telemetry.log("da.starting", port=settings.port)
        readiness.started()
        server.run()
    telemetry.log("da.stopped")
    return Exit.OK if server.started else Exit.USAGE


if __name__ == "__main__":
    sys.exit(main())
