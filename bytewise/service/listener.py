"""HTTP listener of a process: `/metrics`, `/livez`, `/readyz` and `/version`, at the address in section `[metrics]`.

A process without the section has no listener, so that many such processes can run on one machine, as in the demo; `bytewise
init` writes the section. Answers contain public facts about the process and no secret, and no request changes anything. The
listener runs in daemon threads beside the work of the process, so that it still reports when a tick hangs.

Each request occupies a thread for at most `DEADLINE_S` seconds. At most `MAX_CONNECTIONS` requests are served at the same time.
A request with a body is refused.
"""

import contextlib
import http.server
import json
import platform
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service import metrics, schedule, telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.installation import package_version
from bytewise.service.metrics import Actor
from bytewise.service.readiness import ReadinessRegistry, readiness_document
from bytewise.service.sections import MetricsSettings

IDLE_S = 5.0
"""Seconds of silence after which a connection is closed."""
DEADLINE_S = 15.0
"""Seconds after which a connection is closed, whatever was sent. It is longer than all readiness checks together may take."""
MAX_CONNECTIONS = 8
"""Most connections at the same time: a scraper, an orchestrator and people. Any further connection is closed at once."""


def listening_socket(setting: str, host: str, port: int) -> socket.socket:
    """Opens a listening socket at an address and returns it. Raises `ConfigurationError` with the setting's name if that
    fails."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise ConfigurationError(setting, f"{host}:{port}: {why}; name an address of this machine and a free port") from None


class HttpAnswer(NamedTuple):
    """An HTTP answer before it is sent."""

    status: HTTPStatus
    content_type: str
    body: bytes


_JSON = "application/json"


def _json(status: HTTPStatus, document: dict[str, Any]) -> HttpAnswer:
    return HttpAnswer(status, _JSON, json.dumps(document, indent=1).encode() + b"\n")


class Listener(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """The HTTP listener of one process. It occupies its address from its creation until `close`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 16

    def __init__(self, settings: MetricsSettings, actor: Actor, readiness: ReadinessRegistry) -> None:
        """Opens the listening socket. Raises `ConfigurationError` if the address cannot be used."""
        self._actor = actor
        self._readiness = readiness
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        try:
            super().__init__((settings.host, settings.port), _ProbeHandler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            do = "name a free port of this machine, or stop the process that has it"
            raise ConfigurationError("metrics.port", f"{settings.host}:{settings.port}: {why}; {do}") from None
        self._thread = threading.Thread(target=self.serve_forever, name="metrics", daemon=True)

    def start(self) -> None:
        """Starts a thread that serves requests. Also sets the metrics that say that the process is up and which version runs."""
        metrics.UP.set(1)
        metrics.BUILD_INFO.labels(version=package_version(), python=platform.python_version()).set(1)
        self._thread.start()
        host, port, *_ = self.server_address
        telemetry.log("metrics.served", host=str(host), port=port)

    def close(self) -> None:
        """Stops serving and closes the socket."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join(IDLE_S)
        self.server_close()

    @property
    def port(self) -> int:
        """The TCP port of the listener."""
        return int(self.server_address[1])

    def answer(self, path: str) -> HttpAnswer:
        """Returns the answer to a GET of this path."""
        routes: dict[str, Callable[[], HttpAnswer]] = {
            "/metrics": self._metrics,
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/version": self._version,
        }
        route = routes.get(path.partition("?")[0])
        return route() if route is not None else _json(HTTPStatus.NOT_FOUND, {"paths": sorted(routes)})

    def _metrics(self) -> HttpAnswer:
        self._readiness.checks()  # sets `bytewise_readiness`
        return HttpAnswer(HTTPStatus.OK, CONTENT_TYPE_LATEST, metrics.exposition(self._actor))

    def _livez(self) -> HttpAnswer:
        loops = schedule.loop_states()
        alive = all(loop.alive for loop in loops.values())
        status = HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE
        return _json(status, {"alive": alive, "loops": {name: loop._asdict() for name, loop in loops.items()}})

    def _readyz(self) -> HttpAnswer:
        document = readiness_document(self._readiness.checks())
        return _json(HTTPStatus.OK if document["ready"] else HTTPStatus.SERVICE_UNAVAILABLE, document)

    def _version(self) -> HttpAnswer:
        about = {"version": package_version(), "python": platform.python_version(), "actor": self._actor.value}
        return _json(HTTPStatus.OK, about)

    # --- limits ---

    def server_bind(self) -> None:
        """Binds the socket without asking DNS for the name of this machine, as the library would."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread for the connection, or closes the connection if `MAX_CONNECTIONS` are open."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        with self._lock:
            self._open[request] = monotonic_s()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves one request in its thread. After that the connection no longer counts for `MAX_CONNECTIONS`."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)
            self._slots.release()

    def service_actions(self) -> None:
        """Closes connections that are past their deadline. The library calls it twice a second."""
        now = monotonic_s()
        with self._lock:
            late = [request for request, began in self._open.items() if now - began > DEADLINE_S]
        for request in late:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a broken connection. The library would print a traceback for it."""


class _ProbeHandler(http.server.BaseHTTPRequestHandler):
    """Handler of one request. It uses HTTP/1.0, so the connection ends with the answer."""

    server: Listener
    timeout = IDLE_S
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        """Answers a GET request."""
        if self.headers.get("content-length", "0") != "0" or "transfer-encoding" in self.headers:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no body is taken here")
            return
        try:
            answer = self.server.answer(self.path)
        except Exception as error:  # noqa: BLE001  the top of a thread: a defect here must not hide
            telemetry.log_error("metrics.request_failed", error)
            answer = _json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": type(error).__name__})
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(answer.body)

    def version_string(self) -> str:
        """Returns the name of the server, without the versions of the library and of Python."""
        return "bytewise"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
        """Writes nothing to the log, because scrapes come every few seconds."""


@contextlib.contextmanager
def serve_metrics(settings: MetricsSettings | None, actor: Actor, readiness: ReadinessRegistry) -> Iterator[Listener | None]:
    """Context manager that serves the endpoints inside the block and yields the listener. It yields None if `settings` is None.

    Raises `ConfigurationError` at once if the address cannot be used.
    """
    if settings is None:
        yield None
        return
    listener = Listener(settings, actor, readiness)
    listener.start()
    try:
        yield listener
    finally:
        listener.close()
