"""A process keeps few connections to its chain node, however many threads it has had."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from chain.client.rpc import ChainClient
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil

THREADS = 20


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_connections_to_a_node_do_not_grow_with_threads(anvil: Anvil) -> None:
    """web3 keeps a session, with a connection, for each of the last hundred threads."""
    client, together, turn = ChainClient(anvil.url, CHAIN_ID, 10), threading.Barrier(THREADS), threading.Lock()
    client.head()
    before = descriptors()

    def ask(_: int) -> None:
        together.wait(10)
        with turn:
            client.head()
        together.wait(10)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(ask, range(THREADS)))
    assert descriptors() <= before + 2
