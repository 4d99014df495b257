"""`python -m gossip --config FILE`: the gossip process of one member. It runs in its own environment (`make gossip-venv`).

The exit code is 0 after SIGTERM or SIGINT, and also when the process ends so that its supervisor restarts it. The exit code is 2
for bad settings, and if `peers.json` cannot be read.
"""

import argparse
import sys
from pathlib import Path

from gossip.messages import GossipRefused
from gossip.settings import read_settings


def main() -> int:
    """Runs the gossip process until SIGTERM or until a restart is due, and returns the exit code. With `--identity` it prints the
    peer key and its signature instead."""
    parser = argparse.ArgumentParser("gossip", description="The gossip process of one member.")
    parser.add_argument("--config", type=Path, required=True, help="settings file (TOML)")
    parser.add_argument(
        "--identity", metavar="ACCOUNT", help="print peer_key and peer_proof for [gossip] of this account, and end"
    )
    arguments = parser.parse_args()
    try:
        settings = read_settings(arguments.config)
        from gossip.node import identity, run

        if arguments.identity:
            key, proof = identity(settings.key_file, arguments.identity)
            print(f'peer_key = "{key}"\npeer_proof = "{proof}"')
            return 0
        return run(settings)
    except GossipRefused as error:
        print(f"gossip: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
