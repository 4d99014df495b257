"""`python -m verifier --config FILE`: a watchtower, or a verifier that audits without voting (`bytewise verifier run`).

Exit codes: `bytewise.service.exit_codes`.
"""

import sys
from collections.abc import Sequence

from bytewise.service.entry_point import Parser, run_entry
from bytewise.service.schedule import stop_on_signals
from bytewise.service.settings import load_settings
from verifier.settings import NodeSettings
from verifier.wiring import build_node, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the role that the settings name. Returns the exit code of the process."""
    config = Parser("verifier", __doc__).parse_args(arguments).config

    def work() -> int:
        settings = load_settings(NodeSettings, config)
        return run(settings.role.value, settings, build_node, stop_on_signals(), config)

    return run_entry("verifier", work)


if __name__ == "__main__":
    sys.exit(main())
