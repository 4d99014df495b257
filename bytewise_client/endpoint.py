"""Checks whether an OpenAI-compatible endpoint answers a seeded request with the same bytes each time.

Two such requests are repeated, alone and among other traffic (`Plan.probes`). The first differing byte ends the run.
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from ssl import create_default_context
from typing import Any, NamedTuple

import httpx2

from bytewise.protocol.encoding import parse_typed
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import NotCanonical
from bytewise.service.clock import monotonic_s

TIMEOUT_S = 120.0
"""Longest time of one answer, in seconds."""
PATIENCE_S = 60.0
"""Seconds for which an endpoint may answer that it is busy or not ready, before the gate gives up."""
MAX_ANSWER_BYTES = 4 * 2**20
"""Most bytes of an answer, decompressed. They hold some ten thousand tokens with all members about each token."""
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
    """An OpenAI-compatible endpoint. Several threads may use it."""

    def __init__(self, url: str, certificate: Path | None, api_key: str) -> None:
        """Creates the client. `certificate` is a file that is trusted instead of the system's certificates.

        Raises `ConfigurationError` if the certificate or the URL cannot be used.
        """
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError("URL", "must begin with https:// or http://")
        self._base = url.rstrip("/").removesuffix("/v1") + "/v1"
        try:
            trust = create_default_context(cafile=None if certificate is None else str(certificate))
        except OSError as error:
            raise ConfigurationError("--certificate", f"{certificate}: {error.strerror or error}") from None
        self._http = httpx2.Client(verify=trust, timeout=TIMEOUT_S, headers={"authorization": f"Bearer {api_key}"})

    def model(self) -> str:
        """Returns the name of the first model that the endpoint serves. Raises `ConfigurationError` if the endpoint lists no
        model, and the errors of `ask`."""
        listed = self._send("GET", "/models").get("data")
        if not isinstance(listed, list) or not listed or not isinstance(listed[0], dict):
            raise ConfigurationError("URL", "the endpoint lists no model; name one with --model")
        return str(listed[0].get("id"))

    def ask(self, body: Body, key: str) -> Body:
        """Sends a request and returns the whole answer. `key` is the idempotency key of the request.

        With a new key, an endpoint that stores answers must compute the answer again. Raises `TryAgain` if the endpoint cannot be
        reached, fails, or stays busy for `PATIENCE_S` seconds. Raises `ConfigurationError` if it refuses the request, or if its
        answer is too large or no JSON object.
        """
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


CONTEXT_BYTES = 32
"""Number of bytes that are shown before and after the first differing byte."""

Told = Callable[[int, int], None]
"""Function that is called with the number of answers so far, and the number of all answers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The requests of one run of the gate."""

    model: str
    """Name of the served model."""
    runs: int
    """Number of identical requests of each kind that are sent alone. The same number is sent among traffic."""
    traffic: int
    """Number of different requests that are in progress beside each request among traffic."""
    tokens: int
    """Most new tokens in each answer (`max_tokens`)."""
    seed: int
    """Sampler seed of the identical requests."""

    @property
    def probes(self) -> dict[str, Body]:
        """The two requests that the gate repeats, by name: `greedy` and `sampled`. The answer to `sampled` has two choices."""
        text = "Count the ships in the harbour, and say of each where it came from and what it carries."
        return {"greedy": self._body(text, 0, self.seed), "sampled": {**self._body(text, 0.8, self.seed), "n": 2}}

    @property
    def total(self) -> int:
        """The number of all answers of the run."""
        return len(self.probes) * self.runs * (1 + 1 + self.traffic)

    def different(self, number: int) -> Body:
        """Returns the request with this number of the traffic. Text and seed differ for each number; lengths and temperatures
        repeat."""
        text = f"Question {number}: " + "what is written on the other side of this page? " * (1 + number % 4)
        return self._body(text, 0.25 * (number % 5), self.seed + 1 + number)

    def _body(self, text: str, temperature: float, seed: int) -> Body:
        asked = {"max_tokens": self.tokens, "temperature": temperature, "top_p": 0.95 if temperature else 1, "seed": seed}
        return {"model": self.model, "messages": [{"role": "user", "content": text}], **asked}


@dataclass(frozen=True, slots=True)
class DifferentAnswer:
    """The first byte in which an answer differs from the first answer to the same request."""

    request: str
    """Name of the request: `greedy` or `sampled`."""
    answer: str
    """The answer that differs from the first one, for example `2 alone`."""
    part: str
    """Member of the answer that differs."""
    byte: int
    """Offset of the first differing byte in that member."""
    expected: str
    """Bytes of the first answer around the offset, as text."""
    found: str
    """Bytes of the differing answer around the offset, as text."""


@dataclass(frozen=True, slots=True)
class GateFinding:
    """Result of the gate."""

    answers: int
    """Number of received answers, traffic included."""
    compared: int
    """Number of answers that were found equal to the first answer to the same request."""
    bytes: int
    """Number of bytes in these equal answers."""
    difference: DifferentAnswer | None
    """The first difference that was found, or None if there is none."""
    replayed: bool
    """Whether two answers have the same receipt. Then the endpoint repeated an answer without computing it."""

    def as_json(self) -> dict[str, Any]:
        """Returns the result as plain data."""
        return {"identical": self.difference is None and not self.replayed, **asdict(self)}


def comparable(reply: Body) -> dict[str, bytes]:
    """Returns the parts of an answer that the request alone determines, in the order in which they are compared. Raises
    `ConfigurationError` if the answer has no choices, or another form than OpenAI's."""
    parts: dict[str, bytes] = {}
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
        raise ConfigurationError("endpoint", "its answer has no choices")
    for i, choice in enumerate(choices):
        parts[f"choices[{i}].message.content"] = _bytes(str(_member(choice, "message").get("content")))
        parts[f"choices[{i}]"] = _canonical(choice)
    usage = _member(reply, "usage")
    parts["usage"] = _canonical({name: usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")})
    answers = _answers(reply)
    for where, answer in zip([f"answers[{i}]." for i in range(len(answers))] if len(answers) > 1 else [""], answers, strict=True):
        parts[f"{where}opening.output.token_ids"] = _canonical(_token_ids(answer))
        parts[f"{where}determinism"] = _canonical(answer.get("determinism"))
    for name in ("model", "system_fingerprint"):
        parts[name] = _canonical(reply.get(name))
    return parts


def first_difference(request: str, answer: str, first: dict[str, bytes], other: dict[str, bytes]) -> DifferentAnswer | None:
    """Returns the first byte in which the parts of two answers differ, or None if they are equal."""
    for part in [*first, *(name for name in other if name not in first)]:
        left, right = first.get(part, b""), other.get(part, b"")
        if left != right:
            at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
            return DifferentAnswer(request, answer, part, at, _around(left, at), _around(right, at))
    return None


def run(endpoint: Endpoint, plan: Plan, told: Told) -> GateFinding:
    """Sends the requests of the plan, stops at the first difference, and returns the result. `told` shows progress."""
    seen = _Seen()
    try:
        for how, fired in (("alone", _alone), ("among traffic", _among_traffic)):
            for name, reply in fired(endpoint, plan):
                seen.compare(name, how, reply)
                told(seen.answers, plan.total)
    except _Differs as found:
        return GateFinding(seen.answers, seen.compared, seen.bytes, found.difference, seen.replayed)
    return GateFinding(seen.answers, seen.compared, seen.bytes, None, seen.replayed)


def _alone(endpoint: Endpoint, plan: Plan) -> Iterator[tuple[str | None, Body]]:
    for name, body in plan.probes.items():
        for _ in range(plan.runs):
            yield name, endpoint.ask(body, _key())


def _among_traffic(endpoint: Endpoint, plan: Plan) -> Iterator[tuple[str | None, Body]]:
    number = 0
    with ThreadPoolExecutor(plan.traffic + 1) as pool:
        for round_number in range(plan.runs):
            for name, body in plan.probes.items():
                asked: list[tuple[str | None, Body]] = [(None, plan.different(number + i)) for i in range(plan.traffic)]
                # Each time, the request has a different place in the queue and different requests beside it.
                asked.insert(round_number % (plan.traffic + 1), (name, body))
                number += plan.traffic
                futures = [(who, pool.submit(endpoint.ask, what, _key())) for who, what in asked]
                yield from ((who, future.result()) for who, future in futures)


class _Differs(Exception):
    def __init__(self, difference: DifferentAnswer) -> None:
        self.difference = difference


class _Seen:
    """The first answer to each request, and the number of answers that were equal to it."""

    def __init__(self) -> None:
        self._first: dict[str, dict[str, bytes]] = {}
        self._runs: dict[str, int] = {}
        self._receipts: set[str] = set()
        self.answers = self.compared = self.bytes = 0
        self.replayed = False

    def compare(self, name: str | None, how: str, reply: Body) -> None:
        """Compares an answer to the named request with the first answer to it.

        If `name` is None, the answer is traffic. It is only counted, and its receipts are remembered, to find repeated answers.
        Raises `_Differs` at the first difference.
        """
        self.answers += 1
        for answer in _answers(reply):
            receipt = _member(answer, "receipt").get("receipt_id")
            self.replayed |= receipt is not None and receipt in self._receipts
            self._receipts.add(str(receipt))
        if name is None:
            return
        parts, number = comparable(reply), self._runs.get(name, 0) + 1
        self._runs[name] = number
        if self._first.setdefault(name, parts) is parts:
            return
        difference = first_difference(name, f"{number} ({how})", self._first[name], parts)
        if difference is not None:
            raise _Differs(difference)
        self.compared += 1
        self.bytes += sum(len(part) for part in parts.values())


def _answers(reply: Body) -> list[Body]:
    """Returns the answer of each choice, with its own receipt and opening. For a single choice, returns the reply itself."""
    answers = reply.get("answers")
    if isinstance(answers, list) and answers and all(isinstance(answer, dict) for answer in answers):
        return answers
    return [reply]


def _member(body: Body, name: str) -> Body:
    """Returns an object in an answer, or an empty object if the answer has none with this name."""
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise ConfigurationError("endpoint", f"{name} of its answer is no object")
    return value or {}


def _token_ids(reply: Body) -> Any:
    opening = reply.get("opening")
    output = opening.get("output") if isinstance(opening, dict) else None
    return output.get("token_ids") if isinstance(output, dict) else None


def _canonical(value: Any) -> bytes:
    return _bytes(json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")))


def _bytes(text: str) -> bytes:
    # An escape can encode half of a surrogate pair. Such halves are compared, too.
    return text.encode(errors="surrogatepass")


def _around(data: bytes, at: int) -> str:
    return data[max(0, at - CONTEXT_BYTES) : at + CONTEXT_BYTES].decode(errors="replace")


def _key() -> str:
    return f"gate-{secrets.token_hex(16)}"
