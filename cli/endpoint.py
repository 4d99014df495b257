"""A client of an OpenAI-compatible endpoint that hands over whole answers, for verbs that look at every byte of them."""

import threading
from collections.abc import Mapping
from pathlib import Path
from ssl import create_default_context
from typing import Any, NamedTuple

import httpx2

from bytewise.protocol.encoding import parse_typed
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import NotCanonical
from bytewise.service.clock import monotonic_s

TIMEOUT_S = 120.0
"""Of one answer."""
PATIENCE_S = 60.0
"""How long an endpoint may answer that it is busy or not ready."""
MAX_ANSWER_BYTES = 4 * 2**20
"""Of one answer, decompressed: some ten thousand tokens with everything that is said of each."""
BUSY = frozenset({429, 503})
PAUSE_S = 0.5

Body = dict[str, Any]
"""A JSON object."""


class _Answer(NamedTuple):
    status: int
    content: bytes

    @property
    def start(self) -> str:
        return self.content[:200].decode(errors="replace")


class Endpoint:
    """An OpenAI-compatible endpoint; usable from several threads."""

    def __init__(self, url: str, certificate: Path | None, api_key: str) -> None:
        """`certificate` is trusted instead of the system's; `ConfigurationError` if it or the URL cannot be used."""
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError("URL", "must begin with https:// or http://")
        self._base = url.rstrip("/").removesuffix("/v1") + "/v1"
        try:
            trust = create_default_context(cafile=None if certificate is None else str(certificate))
        except OSError as error:
            raise ConfigurationError("--certificate", f"{certificate}: {error.strerror or error}") from None
        self._http = httpx2.Client(verify=trust, timeout=TIMEOUT_S, headers={"authorization": f"Bearer {api_key}"})

    def model(self) -> str:
        """Name of the first model that is served."""
        listed = self._send("GET", "/models").get("data")
        if not isinstance(listed, list) or not listed or not isinstance(listed[0], dict):
            raise ConfigurationError("URL", "the endpoint lists no model; name one with --model")
        return str(listed[0].get("id"))

    def ask(self, body: Body, key: str) -> Body:
        """The whole answer. `key` makes it a request of its own: an endpoint that remembers answers must compute it anew."""
        return self._send("POST", "/chat/completions", body, {"idempotency-key": key})

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def _send(self, method: str, path: str, body: Body | None = None, headers: Mapping[str, str] | None = None) -> Body:
        deadline, pause = monotonic_s() + PATIENCE_S, threading.Event()
        while True:
            answer = self._answer(method, path, body, headers)
            if answer.status not in BUSY:
                return _object(answer)
            if monotonic_s() > deadline:
                raise TryAgain(self._base, f"busy for {PATIENCE_S:.0f} s: {answer.start}")
            pause.wait(PAUSE_S)

    def _answer(self, method: str, path: str, body: Body | None, headers: Mapping[str, str] | None) -> _Answer:
        until, content = monotonic_s() + TIMEOUT_S, bytearray()
        try:
            with self._http.stream(method, self._base + path, json=body, headers=headers, timeout=TIMEOUT_S) as reply:
                for chunk in reply.iter_bytes():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise ConfigurationError("endpoint", f"its answer is larger than {MAX_ANSWER_BYTES} bytes")
                    if monotonic_s() > until:
                        raise TryAgain(self._base, f"no whole answer in {TIMEOUT_S:.0f} s")
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise ConfigurationError("URL", str(error)) from None
        except httpx2.HTTPError as error:
            raise TryAgain(self._base, f"{type(error).__name__} {error}"[:200]) from None
        return _Answer(reply.status_code, bytes(content))


def _object(answer: _Answer) -> Body:
    if answer.status >= 500:
        raise TryAgain("endpoint", f"HTTP {answer.status}: {answer.start}")
    if answer.status != 200:
        raise ConfigurationError("endpoint", f"refused the request with HTTP {answer.status}: {answer.start}")
    try:
        value = parse_typed(answer.content)
    except NotCanonical as error:
        raise ConfigurationError("endpoint", f"its answer is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigurationError("URL", "answers no JSON object: is it an OpenAI-compatible endpoint?")
    return value
