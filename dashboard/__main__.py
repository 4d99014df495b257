"""`python -m dashboard run --config FILE`: pages and read API over an index that follows the chain (`bytewise dashboard run`).

Other exit codes: `bytewise.service.exit_codes`.
"""

import sys
from collections.abc import Sequence

from bytewise.service.entry_point import Parser, run_entry
from bytewise.service.schedule import stop_on_signals
from bytewise.service.settings import load_settings
from dashboard.settings import DashboardSettings
from dashboard.wiring import DashboardProcess


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves pages and API until SIGTERM and returns the exit code."""
    config = Parser("dashboard", __doc__, ("run",)).parse_args(arguments).config
    return run_entry("dashboard", lambda: DashboardProcess(load_settings(DashboardSettings, config), stop_on_signals()).run())


if __name__ == "__main__":
    sys.exit(main())
