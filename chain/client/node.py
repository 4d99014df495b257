"""HTTP to one node: single calls through web3, and several calls in one round trip, with answers matched by id."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from eth_typing import URI
from requests import Session
from requests.adapters import HTTPAdapter
from requests.exceptions import HTTPError, RequestException
from web3 import HTTPProvider
from web3.types import RPCEndpoint, RPCResponse

from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.records import TooLarge
from bytewise.service import metrics
from bytewise.service.clock import monotonic_s
from bytewise.service.settings import verify_http_url

_NO_BATCHES = "if it stays so, this node takes no JSON-RPC batches, or none so long: have it take them, or name another node"
_WRONG_IDS = "this node, or a proxy before it, mixes answers up: name another node if it stays so"

MAX_CONNECTIONS = 32
"""Largest number of idle connections to one endpoint that are kept open. More requests at the same moment open more
connections."""

_BROKEN = (RequestException, ValueError, OSError, TooLarge)
"""Exceptions for a missing answer, or for one that is no JSON."""


class NodeHTTPProvider(HTTPProvider):
    """One endpoint. A failure raises `TryAgain`, with advice if a later try would not help.

    Answers are returned unchanged. The caller checks whether an answer is a refusal.
    """

    place = 0
    """Position of this endpoint in the list of the settings."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """`timeout_s` limits the wait for the connection, and the wait for each further piece of the answer. It does not limit
        the whole request.

        All threads share one session, because web3 would otherwise keep a session with its own connections for each of the last
        hundred threads.
        """
        session = Session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(pool_maxsize=MAX_CONNECTIONS))
        super().__init__(url, request_kwargs={"timeout": timeout_s}, session=session, exception_retry_configuration=None)

    def single(self, method: str, params: Sequence[Any]) -> Any:
        """Makes one call and returns its answer."""
        with self._measured(method):
            try:
                return self.make_request(RPCEndpoint(method), list(params))
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
        """Parses the answer's JSON. Raises `TooLarge` if it is nested so deeply that parsing it would end the process."""
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
            at = URI(str(self.endpoint_uri))
            return self.decode_rpc_response(
                self._request_session_manager.make_post_request(at, body, **self.get_request_kwargs())
            )
        except HTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            advice = f"; {_NO_BATCHES}" if 400 <= status < 500 and status != HTTPStatus.TOO_MANY_REQUESTS else ""
            raise TryAgain("chain", f"a batch of {len(batch)} calls was not answered: HTTP {status}{advice}") from error
        except _BROKEN as error:
            raise TryAgain("chain", type(error).__name__) from error


def verify_url(url: str) -> str:
    """Returns the URL of a node if it is valid. Raises `ConfigurationError` if it is not, because no later try would help."""
    return verify_http_url("rpc", url, "a node")


def _error(answer: Any) -> str | None:
    """Returns the text of an error that a node gives instead of answers. Returns None if there is no error."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if error is None:
        return None
    return f": {str(error.get('message', '') if isinstance(error, dict) else error)[:200]}"
