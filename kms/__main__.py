"""`python -m kms deal --config FILE` (ceremony, once) and `python -m kms serve --config FILE` (one shard)."""

import argparse
import secrets
import sys
from pathlib import Path

from bytewise.service import telemetry
from bytewise.service.settings import load_settings
from kms.dealer import deal
from kms.settings import DealSettings


def main() -> int:
    """Runs one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m kms", description=__doc__)
    parser.add_argument("command", choices=("deal",))
    parser.add_argument("--config", type=Path, required=True)
    given = parser.parse_args()
    telemetry.configure(f"kms-{given.command}")
    document = deal(load_settings(DealSettings, given.config), secrets.token_bytes)
    telemetry.log("kms.dealt", epoch=document.record.epoch, shards=len(document.record.shards))
    return 0


if __name__ == "__main__":
    sys.exit(main())
