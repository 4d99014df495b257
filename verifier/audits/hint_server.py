"""The HTTPS server on which a watchtower receives hints. Anybody may connect, so every resource of a connection is bounded.

A connection has one thread, one request and `EXCHANGE_S` seconds. At most `MAX_CONNECTIONS` are open at a time, and at most
`MAX_FROM_ONE` of them from one address. The server looks up a sender only in `KnownVerifiers`, so no sender can make it read the
chain.
"""

import io
import re
import socket
import ssl
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.units import Address, Digest
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.connections import AddressSlots, seconds_left
from bytewise.service.node_files.certificates import verify_server_certificate
from verifier.audits.audit_hints import PATH, AuditHint, HintBox
from verifier.watch.records import Records

REFRESH_BLOCKS = 32
"""Blocks after which the pools are read again. A new verifier has no weight before the next stake epoch, and on a public network
a stake epoch is longer than this."""


class StakedAccount(Protocol):
    """An account that joined a pool, with its stake."""

    @property
    def account(self) -> Address:
        """Address of the account."""
        ...

    @property
    def stake(self) -> int:
        """Stake in wei."""
        ...


class PoolReader(Protocol):
    """The part of the chain from which pool members are read."""

    def pool_of(self, environment: Digest, block: int) -> Digest:
        """Returns the pool that judges an environment, or zero if there is no such environment."""
        ...

    def verifiers(self, pool: Digest, block: int) -> Sequence[StakedAccount]:
        """Returns all accounts that ever joined the pool, with their stake."""
        ...


class KnownVerifiers:
    """The set of verifiers whose hints are accepted. It contains the accounts with stake in the pools that judge receipts which
    can still be disputed. Implements `node.NodePart`, but decides no action."""

    def __init__(self, chain: PoolReader, records: Records) -> None:
        self._chain = chain
        self._records = records
        self._known: frozenset[Address] = frozenset()
        self._environments: frozenset[Digest] = frozenset()
        self._read_at = 0

    def __contains__(self, who: object) -> bool:
        return who in self._known

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Reads the pools again every `REFRESH_BLOCKS` blocks, and when receipts of a new environment can be disputed. Returns no
        action."""
        environments = frozenset(live.header.environment for live in self._records.live)
        aged = snapshot.number - self._read_at >= REFRESH_BLOCKS or snapshot.number < self._read_at
        if aged or not environments <= self._environments:
            pools = {self._chain.pool_of(each, snapshot.number) for each in environments}
            found = [each for pool in pools for each in self._chain.verifiers(pool, snapshot.number)]
            self._known = frozenset(each.account for each in found if each.stake > 0)
            self._environments, self._read_at = environments, snapshot.number
        return ()


MAX_HINT_BYTES = 4096
"""Largest accepted hint in bytes. A usual hint has about 700 bytes."""
MAX_CONNECTIONS = 32
"""Most connections that are open at one time."""
MAX_FROM_ONE = 4
"""Most open connections from one address. An auditor uses one connection, and several auditors may share an address."""
EXCHANGE_S = 5.0
"""Seconds for a whole connection, including the TLS handshake."""


class HintServer:
    """An HTTPS server that receives hints in threads of its own, from its construction until `close`. The construction raises
    `ConfigurationError` if the certificate or the address cannot be used."""

    def __init__(self, box: HintBox, host: str, port: int, certificate: Path, key: Path, exchange_s: float = EXCHANGE_S) -> None:
        verify_server_certificate(certificate, key)
        try:
            self._server = _Server((host, port), _Handler)
        except OSError as error:
            why = f"{host}:{port}: {error.strerror}; name an address of this machine and a free port"
            raise ConfigurationError("hint_listener", why) from None
        self._server.box, self._server.exchange_s = box, exchange_s
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        # The handshake happens in the connection's own thread, so that a silent client does not block the others.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, name="hints", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """TCP port on which the server listens."""
        return int(self._server.server_address[1])

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return self._server.slots.in_use

    def close(self) -> None:
        """Stops the server. Open connections end within their time limit."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    box: HintBox
    exchange_s: float

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.slots = AddressSlots(MAX_CONNECTIONS, MAX_FROM_ONE)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread for the connection if the limits of connections allow it. Closes the connection otherwise."""
        who = str(client_address[0])
        if not self.slots.take(who):
            metrics.HINTS_REFUSED.labels(reason="connections").inc()
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.slots.leave(who)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles the connection in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.leave(str(client_address[0]))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Counts a connection that failed. The library would print a stack trace, although only the client is affected."""
        metrics.HINTS_REFUSED.labels(reason="broken").inc()


class _Until(io.RawIOBase):
    """A reader of a socket that stops at a fixed moment, so that a client that sends single bytes gets no extra time."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        super().__init__()
        self._connection = connection
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        self._connection.settimeout(seconds_left(self._until))
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.exchange_s)
        until = monotonic_s() + self.server.exchange_s
        self.rfile = io.BufferedReader(_Until(self.connection, until))

    def do_POST(self) -> None:
        """Receives one hint and puts it into the box. Answers 204 for an accepted hint. Answers 403 for a refused one, or for a
        body that is no hint. Answers 400 if the path is another one, or if the length of the body is missing or too large."""
        length = self.headers.get("Content-Length", "")
        if self.path != PATH or not re.fullmatch("[0-9]{1,4}", length) or int(length) > MAX_HINT_BYTES:
            self._answer(400)
            return
        try:
            self.server.box.put(decode(AuditHint, self.rfile.read(int(length))))
            self._answer(204)
        except BytewiseError as error:
            metrics.HINTS_REFUSED.labels(reason=type(error).__name__).inc()
            telemetry.log_error("hint.refused", error)
            self._answer(403)

    def log_message(self, *args: object) -> None:
        """Logs nothing, because the process itself logs the events that matter."""

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()
