"""`python -m serving --config FILE`: an operator in mode plain."""

import argparse
import sys
from pathlib import Path

from bytewise.protocol.errors import BytewiseError
from bytewise.service.settings import load_settings
from serving.settings import OperatorSettings
from serving.wiring import run


def main() -> int:
    """Reads the settings and serves; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m serving", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="TOML file with the settings of `serving.settings`")
    try:
        return run(load_settings(OperatorSettings, parser.parse_args().config))
    except BytewiseError as error:
        print(error, file=sys.stderr)
        return 78  # EX_CONFIG of sysexits: nothing was started


if __name__ == "__main__":
    sys.exit(main())
