"""A sender that dies at a chosen point: `crashing_sender.py URL NETWORK FOLDER before|after`; run by `test_sender`.

It anchors one batch and kills itself with SIGKILL before its bytes reach the node, or after the node has them and
before the outbox knows.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from chain.client.address_book import read_network
from chain.client.rpc import ChainClient
from tests.anvil import CHAIN_ID, Anvil
from tests.devnet import FEE_WEI, batch, sender, signer


class DyingClient(ChainClient):
    """Ends the process around the broadcast."""

    def __init__(self, url: str, point: str) -> None:
        super().__init__(url, CHAIN_ID)
        self._point = point

    def rpc(self, method: str, *params: Any) -> Any:
        """As the client, but no broadcast is survived."""
        if method != "eth_sendRawTransaction":
            return super().rpc(method, *params)
        if self._point == "after":
            super().rpc(method, *params)
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Plans one batch, and dies of sending it."""
    url, book, folder, point = sys.argv[1:]
    anvil = Anvil(url)
    network = read_network(Path(book))
    posted = batch(network, signer(1), 1, 2, anvil.client.head().timestamp)
    anvil.client = DyingClient(url, point)
    operator = sender(anvil, network, signer(1), Path(folder), ttl_s=1)
    operator.anchor(posted.header, FEE_WEI)
    operator.pump()


if __name__ == "__main__":
    main()
