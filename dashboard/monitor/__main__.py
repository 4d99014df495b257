"""`python -m dashboard.monitor run --config FILE`: checks the invariants of a network (`bytewise monitor run`).

Other exit codes: `bytewise.service.exit_codes`.
"""

import sys
from collections.abc import Sequence

from bytewise.service.entry_point import Parser, run_entry
from bytewise.service.schedule import stop_on_signals
from bytewise.service.settings import load_settings
from dashboard.monitor.settings import MonitorSettings
from dashboard.monitor.wiring import Monitor


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks the invariants until SIGTERM and returns the exit code."""
    config = Parser("monitor", __doc__, ("run",)).parse_args(arguments).config
    return run_entry("monitor", lambda: Monitor(load_settings(MonitorSettings, config)).run(stop_on_signals()))


if __name__ == "__main__":
    sys.exit(main())
