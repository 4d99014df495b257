"""The connection to a network: its address book, chain nodes and DA proxies. The caller names these sources. Nodes and proxies
are not trusted."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bytewise.da.client import DaClient
from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Unavailable
from bytewise.service.clock import monotonic_s
from bytewise.service.settings import rpc_endpoints, verify_http_url
from chain.client.access import Chain, ReadAheadClient, open_chain
from chain.client.address_book import read_network, verify_code
from chain.reads.history import CourtHistory
from chain.reads.reader import RegistryDocuments, SnapshotReader

PATIENCE_S = 5.0
"""Seconds that all failed reads of a DA store may take together, for any number of blobs."""
TIMEOUT_S = 20.0
"""Longest time of one request to a chain node or DA proxy, in seconds."""

Accept = Callable[[bytes], bool]
"""Function that returns whether bytes are those that the caller needs. A proxy that returns other bytes is skipped."""


class BoundedStore:
    """A reader of a DA store that limits how long all failed reads may take together. Successful reads do not count. Only one
    thread may use it."""

    def __init__(self, get: Callable[[str, Accept | None], bytes], patience_s: float = PATIENCE_S) -> None:
        self._get, self._patience_s, self._left_s = get, patience_s, patience_s

    def get(self, locator: str, accept: Accept | None = None) -> bytes:
        """Reads the bytes at a locator. Errors of the store pass through. An `Unavailable` error makes a read a failed one.

        Raises `TryAgain` if this read takes longer than failed reads may still take. Once failed reads have taken `patience_s`
        seconds together, raises `TryAgain` without asking the store.
        """
        if self._left_s <= 0:
            raise TryAgain("DA", f"brought nothing in {self._patience_s:.0f} s")
        answer: queue.Queue[bytes | Exception] = queue.Queue()
        began = monotonic_s()
        # A daemon thread, because no timeout of the client limits name lookups and retries together. The process can end
        # meanwhile.
        threading.Thread(target=self._ask, args=(locator, accept, answer), daemon=True).start()
        try:
            found = answer.get(timeout=self._left_s)
        except queue.Empty:
            self._left_s = 0
            raise TryAgain("DA", f"brought nothing in {self._patience_s:.0f} s") from None
        if isinstance(found, bytes):
            return found
        if isinstance(found, Unavailable):
            self._left_s -= monotonic_s() - began
        raise found

    def _ask(self, locator: str, accept: Accept | None, answer: "queue.Queue[bytes | Exception]") -> None:
        try:
            answer.put(self._get(locator, accept))
        except Exception as error:  # noqa: BLE001  (raised again by the reader)
            answer.put(error)


class Connection(NamedTuple):
    """The sources from which checks read a network."""

    network: Network
    reader: SnapshotReader
    history: CourtHistory
    documents: RegistryDocuments
    da: BoundedStore


@contextmanager
def connected(network_file: Path, rpc: list[str], da: list[str]) -> Iterator[Connection]:
    """Context manager that connects to the network of an address book file, and yields the connection.

    `rpc` and `da` are URLs. Raises `ConfigurationError` if the file is no address book of that chain, if a contract has other
    code than the address book says, if a node is named twice, or if a URL is malformed.
    """
    for each in da:
        verify_http_url("--da", each, "an EigenDA proxy or store")
    network = read_network(network_file)
    chain = chain_of(rpc, network.chain_id)
    reader = SnapshotReader(chain, verify_code(chain, network))
    with DaClient(tuple(da), TIMEOUT_S) as client:
        yield Connection(network, reader, CourtHistory(reader), RegistryDocuments(reader), BoundedStore(client.get))


def chain_of(rpc: list[str], chain_id: int) -> Chain:
    """Returns the chain that one node serves, or several nodes of which a majority must agree.

    Raises `ConfigurationError` if a node is named twice.
    """
    urls, quorum = rpc_endpoints("", tuple(rpc), 0)
    return open_chain(urls, quorum, chain_id, TIMEOUT_S)


def read_ahead_of(rpc: list[str], chain_id: int) -> Chain:
    """Returns the same chain as `chain_of`, with a client that fetches many views and blocks at a time (`ReadAheadClient`)."""
    urls, quorum = rpc_endpoints("", tuple(rpc), 0)
    return open_chain(urls, quorum, chain_id, TIMEOUT_S, ReadAheadClient)
