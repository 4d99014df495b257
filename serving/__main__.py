"""`python -m serving --config FILE`: an operator in mode plain (`bytewise operator run`).

Exit codes: `bytewise.service.exit_codes`.
"""

import sys
from collections.abc import Sequence

from bytewise.service.entry_point import Parser, run_entry
from bytewise.service.settings import load_settings
from serving.settings import OperatorSettings
from serving.wiring import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the settings and runs the operator. Returns the exit code of the process."""
    config = Parser("serving", __doc__).parse_args(arguments).config
    return run_entry("operator", lambda: run(load_settings(OperatorSettings, config), config=config))


if __name__ == "__main__":
    sys.exit(main())
