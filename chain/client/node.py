"""HTTP to one node: single calls through web3, and several calls in one round trip, with answers matched by id."""

import io
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPResponse
from typing import Any

from requests import Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import HTTPError, RequestException
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError
from urllib3.util.connection import create_connection
from web3 import HTTPProvider
from web3.types import RPCEndpoint, RPCResponse

from bytewise.protocol.encoding import MARKS, MAX_MARKS, verify_depth
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.records import TooLarge
from bytewise.service import metrics
from bytewise.service.clock import monotonic_s
from bytewise.service.connections import Deadline, resolve
from bytewise.service.settings import verify_http_url

_NO_BATCHES = "if it stays so, this node takes no JSON-RPC batches, or none so long: have it take them, or name another node"
_WRONG_IDS = "this node, or a proxy before it, mixes answers up: name another node if it stays so"

MAX_CONNECTIONS = 32
"""Largest number of idle connections to one endpoint that are kept open. More requests at the same moment open more
connections."""

MAX_ANSWER_BYTES = 2**27
"""Largest answer in bytes, decompressed. The largest answers are receipts of a whole block: 60 million gas pay for at most
160,000 logs, which are some 100 MB of JSON. Code of a contract is 48 kB of hex, and geth limits answers to a batch to 25 MB."""
_CHUNK_BYTES = 2**14
"""Most bytes that are sent at once: one TLS record, which has one timeout."""

_BROKEN = (RequestException, ValueError, OSError, TooLarge)
"""Exceptions for a missing answer, or for one that is no JSON."""


class NodeHTTPProvider(HTTPProvider):
    """One endpoint. A failure raises `TryAgain`, with advice if a later try would not help.

    Answers are returned unchanged. The caller checks whether an answer is a refusal.
    """

    place = 0
    """Position of this endpoint in the list of the settings."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """`timeout_s` is the longest time of one request, from the connection to the last byte of the answer. All threads share
        one session, because web3 would otherwise keep a session with its own connections for each of the last hundred threads."""
        self._timeout_s = timeout_s
        self._session = Session()
        self._session.hooks["response"].append(_drop_redirect)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _TimedAdapter(pool_maxsize=MAX_CONNECTIONS))
        super().__init__(url, session=self._session, exception_retry_configuration=None)

    def single(self, method: str, params: Sequence[Any]) -> Any:
        """Makes one call and returns its answer."""
        with self._measured(method):
            try:
                return self._post(self.encode_rpc_request(RPCEndpoint(method), list(params)))
            except _BROKEN as error:
                raise TryAgain("chain", type(error).__name__) from error

    def batch(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Mapping[str, Any]]:
        """Makes several calls in one round trip, and returns their answers in the order of the calls.

        web3's own batches sort answers by id without checking the ids, so a doubled id would answer another call.
        """
        if not calls:
            return []
        with self._measured("batch"):
            return self._batch(calls)

    def _batch(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Mapping[str, Any]]:
        """Sends the calls, and sorts the answers by id. Raises `TryAgain` unless each call has exactly one answer."""
        ids = [next(self.request_counter) for _ in calls]
        asked = zip(ids, calls, strict=True)
        said = self._said(
            [{"jsonrpc": "2.0", "id": each, "method": name, "params": list(params)} for each, (name, params) in asked]
        )
        listed = [each for each in said if isinstance(each, dict)] if isinstance(said, list) else []
        by_id = {each["id"]: each for each in listed if type(each.get("id")) is int}
        if isinstance(said, list) and len(said) == len(listed) == len(ids) and set(by_id) == set(ids):
            return [by_id[each] for each in ids]
        # A node that refuses a whole batch answers with one error, or with a list of one, with the id of the first call or
        # none.
        refused = _error(said) or (_error(listed[0]) if len(listed) == 1 else None)
        what = f"a batch of {len(ids)} calls"
        if refused is not None or not isinstance(said, list):
            raise TryAgain("chain", f"{what} was not answered{refused or ''}; {_NO_BATCHES}")
        raise TryAgain("chain", f"answers to {what} have doubled, missing or foreign ids; {_WRONG_IDS}")

    @staticmethod
    def decode_rpc_response(raw_response: bytes) -> RPCResponse:
        """Parses the answer's JSON. Raises `TooLarge` if it is nested so deeply that parsing it would end the process, or has so
        many marks that parsing it would take too long."""
        if sum(raw_response.count(mark) for mark in MARKS) > MAX_MARKS:
            raise TooLarge(f"more than {MAX_MARKS} marks")
        return HTTPProvider.decode_rpc_response(verify_depth(raw_response))

    @contextmanager
    def _measured(self, method: str) -> Iterator[None]:
        """Context manager that counts a request and measures its duration. A refusal by the node counts as an answer."""
        began, result = monotonic_s(), "failed"
        try:
            yield
            result = "ok"
        finally:
            metrics.RPC_REQUESTS.labels(provider=str(self.place), method=method, result=result).inc()
            metrics.RPC_SECONDS.labels(provider=str(self.place), method=method).observe(monotonic_s() - began)

    def _said(self, batch: list[dict[str, Any]]) -> Any:
        """Sends a batch and returns the node's answer, which may be anything that JSON can express."""
        body = json.dumps(batch).encode()
        try:
            return self._post(body)
        except HTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            advice = f"; {_NO_BATCHES}" if 400 <= status < 500 and status != HTTPStatus.TOO_MANY_REQUESTS else ""
            raise TryAgain("chain", f"a batch of {len(batch)} calls was not answered: HTTP {status}{advice}") from error
        except _BROKEN as error:
            raise TryAgain("chain", type(error).__name__) from error

    def _post(self, body: bytes) -> RPCResponse:
        """Sends the body of a request, and parses the answer. Raises one of `_BROKEN` if there is no usable answer in time."""
        _DEADLINE.start(self._timeout_s)
        url, headers, content = str(self.endpoint_uri), self.get_request_headers(), bytearray()
        with self._session.post(url, body, headers=headers, timeout=self._timeout_s, stream=True) as response:
            for chunk in response.iter_content(_CHUNK_BYTES):
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise TooLarge(f"more than {MAX_ANSWER_BYTES} bytes")
            response.raise_for_status()
        return self.decode_rpc_response(bytes(content))


# The timeouts of `requests` and `urllib3` are for each read, so a node that sends one byte at a time would hold a tick for ever.
# These classes limit the whole request.

_DEADLINE = Deadline()
"""The time by which the request of the current thread must end."""


class _TimedReader(io.RawIOBase):
    """Reads an answer from its socket until the deadline."""

    def __init__(self, peer: socket.socket, stream: io.RawIOBase) -> None:
        self._peer, self._stream = peer, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._peer.settimeout(_DEADLINE.left())
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _TimedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self.fp = io.BufferedReader(_TimedReader(sock, self.fp.detach()))


class _TimedConnection(HTTPConnection):
    response_class = _TimedResponse

    def _new_conn(self) -> socket.socket:
        # A name can have any number of addresses, and the library would give each the whole time.
        try:
            addresses = resolve(self.host, self.port, _DEADLINE)
        except OSError as error:
            raise NewConnectionError(self, f"{self.host}: {error}") from None
        failure: OSError = OSError("no address")
        for after, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                limit_s = _DEADLINE.left() / after
                peer = create_connection((address, self.port), limit_s, self.source_address, self.socket_options)
                peer.settimeout(limit_s * after)  # for the TLS handshake, which other reads and writes follow
            except OSError as error:
                failure = error
            else:
                return peer
        raise NewConnectionError(self, f"{self.host}: {failure}")

    def send(self, data: Any) -> None:
        for at in range(0, len(data), _CHUNK_BYTES):
            if self.sock is not None:
                self.sock.settimeout(_DEADLINE.left())
            super().send(data[at : at + _CHUNK_BYTES])


class _TimedTLSConnection(_TimedConnection, HTTPSConnection):
    pass


class _TimedPool(HTTPConnectionPool):
    ConnectionCls = _TimedConnection


class _TimedTLSPool(HTTPSConnectionPool):
    ConnectionCls = _TimedTLSConnection


_POOLS = {"http": _TimedPool, "https": _TimedTLSPool}


class _TimedAdapter(HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        super().init_poolmanager(*arguments, **named)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **named: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **named)
        if not proxy.lower().startswith("socks"):  # the library's own connections know SOCKS
            manager.pool_classes_by_scheme = _POOLS
        return manager


def _drop_redirect(response: Response, *_: Any, **__: Any) -> None:
    """Closes a redirect. The library would read and decompress its whole body, however large, before it follows the redirect."""
    if response.is_redirect:
        response.close()


def verify_url(url: str) -> str:
    """Returns the URL of a node if it is valid. Raises `ConfigurationError` if it is not, because no later try would help."""
    return verify_http_url("rpc", url, "a node")


def _error(answer: Any) -> str | None:
    """Returns the text of an error that a node gives instead of answers. Returns None if there is no error."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if error is None:
        return None
    return f": {str(error.get('message', '') if isinstance(error, dict) else error)[:200]}"
