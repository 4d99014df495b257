"""A watchtower that disputes one honest receipt without any evidence, and loses its bond.

`python -m adversaries.frivolous_challenger --config FILE RECEIPT_ID` takes the same settings file as `bytewise verifier run`.
"""

import argparse
import sys
from pathlib import Path

from bytewise.protocol.decisions.actions import Action, OpenDispute
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.units import Digest, digest, unhex
from bytewise.service.schedule import stop_on_signals
from bytewise.service.settings import load_settings
from verifier.disputes.watchtower import Watchtower
from verifier.node import Node
from verifier.settings import NodeSettings
from verifier.wiring import NodeContext, run


class FrivolousChallenger(Watchtower):
    """Watchtower that disputes the receipt `victim` as soon as it sees the receipt anchored."""

    victim: Digest

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Returns the action that opens the dispute. Returns no action if the receipt is already disputed, or if the watchtower
        has not seen it yet."""
        disputed = any(case.receipt_id == self.victim for case in snapshot.disputes)
        if disputed or self._records.find(self.victim) is None:
            return ()
        return (OpenDispute(self.victim, snapshot.required_bond_wei),)


def main() -> int:
    """Runs the watchtower until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, type=Path, help="settings of a watchtower")
    parser.add_argument("receipt", help="id of the honest receipt, 0x-hex")
    arguments = parser.parse_args()

    def build(world: NodeContext) -> Node:
        settings = world.settings
        spite = FrivolousChallenger(world.chain, world.network, world.records, world.signer, settings.watch)
        spite.victim = digest(unhex(arguments.receipt))
        return world.node(None, spite)

    return run("challenger", load_settings(NodeSettings, arguments.config), build, stop_on_signals())


if __name__ == "__main__":
    sys.exit(main())
