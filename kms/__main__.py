"""`python -m kms deal --config FILE` (ceremony, once) and `python -m kms serve --config FILE` (one shard)."""

import argparse
import secrets
import sys
from pathlib import Path

from bytewise.protocol.errors import BytewiseError
from bytewise.service import telemetry
from bytewise.service.schedule import EXIT_BUG, EXIT_CLEAN
from bytewise.service.settings import load_settings
from chain.access import open_chain
from chain.book import read_network, verify_code
from chain.reader import DocketReader
from kms import keyring
from kms.chain_view import ChainKeyView
from kms.dealer import deal
from kms.serve import serve_shard
from kms.settings import DealSettings, ShardSettings


def main() -> int:
    """Runs one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m kms", description=__doc__)
    parser.add_argument("command", choices=("deal", "serve"))
    parser.add_argument("--config", type=Path, required=True)
    given = parser.parse_args()
    telemetry.configure(f"kms-{given.command}")
    try:
        return _deal(given.config) if given.command == "deal" else _serve(given.config)
    except BytewiseError as error:
        telemetry.log_error("kms.stopped", error)
        return EXIT_BUG


def _deal(config: Path) -> int:
    document = deal(load_settings(DealSettings, config), secrets.token_bytes)
    telemetry.log("kms.dealt", epoch=document.record.epoch, shards=len(document.record.shards))
    return EXIT_CLEAN


def _serve(config: Path) -> int:
    settings = load_settings(ShardSettings, config)
    network = read_network(settings.network_file)
    client = open_chain(*settings.rpc, network.chain_id)
    reader = DocketReader(client, verify_code(client, network), settings.finality)
    view = ChainKeyView(reader, keyring.signer(settings.folder).address)
    return serve_shard(settings, network.contracts, view)


if __name__ == "__main__":
    sys.exit(main())
