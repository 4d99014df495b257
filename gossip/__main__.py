"""`python -m gossip --config FILE`: the gossip process of one member. It runs in its own environment (`make gossip-venv`).

Exit codes: 0 after SIGTERM or when it wants to be restarted, 2 for bad settings.
"""

import argparse
import sys
from pathlib import Path

from gossip.messages import GossipRefused
from gossip.settings import read_settings


def main() -> int:
    """Runs until SIGTERM; the exit code."""
    parser = argparse.ArgumentParser("gossip", description="The gossip process of one member.")
    parser.add_argument("--config", type=Path, required=True, help="settings file (TOML)")
    parser.add_argument("--identity", action="store_true", help="print the peer key, which the account signs, and end")
    arguments = parser.parse_args()
    try:
        settings = read_settings(arguments.config)
        from gossip.node import peer_key, run

        if arguments.identity:
            print(peer_key(settings.key_file))
            return 0
        return run(settings)
    except GossipRefused as error:
        print(f"gossip: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
