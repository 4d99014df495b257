"""`python -m serving --config FILE`: an operator in mode plain. Exit codes: `bytewise.service.exit_codes`."""

import sys
from pathlib import Path

from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service.exit_codes import Parser, exit_of
from bytewise.service.settings import load_settings
from serving.settings import OperatorSettings
from serving.wiring import run


def main() -> int:
    """Reads the settings and serves; the exit code."""
    parser = Parser(prog="python -m serving", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="TOML file with the settings of `serving.settings`")
    try:
        return run(load_settings(OperatorSettings, parser.parse_args().config))
    except BytewiseError as error:
        print(error, file=sys.stderr)
        return exit_of(error)


if __name__ == "__main__":
    sys.exit(main())
