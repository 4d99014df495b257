"""JSON log lines, counters and health of a process. A line has an event name and fields, and no free text.

Nothing secret gets out: `Secret` values, live secrets inside text, and fields named like plaintext are blanked.
"""

import re
import sys
import threading
from collections.abc import Mapping
from typing import Any, TextIO

import structlog

from bytewise.protocol.assurance import warning
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.service.secret import Secret, scrub

_EVENT = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_PRIVATE = re.compile(r"(^|_)(secret|password|passphrase|prompt|plaintext|messages|token_ids|private_key)($|_)")
EPOCH_GAUGE = "bytewise_key_epoch_info"
"""Gauge that is always 1. Its labels say which kind of key epoch all other figures rest on."""
_LONGEST_FIELD = 500
"""Most characters of one field. A log line is for reading, not for storing payloads."""


class _Lines:
    """Prints lines to a stream. Without one it uses the current standard error, which may be replaced and closed."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        print(line, file=self._stream or sys.stderr, flush=True)


class Telemetry:
    """Log and counters of one process. `configure` sets where lines go and whether error values are shown."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._beats: dict[str, float] = {}
        self._epoch: tuple[int, str] | None = None
        self._details = True
        self._logger: Any = None

    def configure(self, component: str, stream: TextIO | None = None, details: bool = True) -> None:
        """Sets the component name of each line, and forgets the key epoch.

        An enclave sets `details` to False, because error values may quote plaintext.
        """
        self._details = details
        self._epoch = None
        self._logger = structlog.wrap_logger(
            _Lines(stream),
            processors=[structlog.processors.JSONRenderer(sort_keys=True, separators=(",", ":"))],
            wrapper_class=structlog.BoundLogger,
            component=component,
        )

    def log(self, event: str, **fields: object) -> None:
        """Writes one line: the event's name (`noun.verb_past`) and its fields."""
        if not _EVENT.fullmatch(event):
            raise ValueError("an event has a name, not a sentence")
        if self._logger is None:
            self.configure("unnamed")
        clean = {name: "[redacted]" if _PRIVATE.search(name) else _plain(value) for name, value in fields.items()}
        with self._lock:
            self._logger.msg(event, at=SystemClock().now(), **clean)

    def log_error(self, event: str, error: BaseException, **fields: object) -> None:
        """Writes one line about an error: class, rule, the reason if the rule has several, and its values unless details are
        off."""
        about: dict[str, object] = {"error": type(error).__name__}
        if isinstance(error, BytewiseError):
            about["rule"] = error.rule
            if error.reason:
                about["reason"] = error.reason
        if self._details:
            about["detail"] = str(error)
        self.log(event, **about, **fields)

    def key_epoch(self, epoch: int, assurance: str) -> None:
        """Sets the key epoch of this process and its label. Logs them if they are new, and exposes them as a metric."""
        with self._lock:
            known, self._epoch = self._epoch, (epoch, assurance)
        if known != (epoch, assurance):
            told = warning(assurance)
            self.log("key_epoch.reported", epoch=epoch, assurance=assurance, **({"warning": told} if told else {}))

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Adds to a counter. Labels must have few values, so never ids."""
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + by

    def counters(self) -> dict[str, int]:
        """Every counter by its exposition name, `name{label="value"}`."""
        with self._lock:
            return {_exposed(name, labels): value for (name, labels), value in sorted(self._counts.items())}

    def metrics_text(self) -> str:
        """Counters and key epoch in Prometheus' text format."""
        told = dict(self.counters())
        with self._lock:
            if self._epoch is not None:
                epoch, assurance = self._epoch
                told[_exposed(EPOCH_GAUGE, (("assurance", assurance), ("epoch", str(epoch))))] = 1
        return "".join(f"{name} {value}\n" for name, value in told.items())

    def beat(self, name: str) -> None:
        """Records that the loop `name` is alive now."""
        with self._lock:
            self._beats[name] = monotonic_s()

    def health(self, limits_s: Mapping[str, float]) -> dict[str, bool]:
        """For each named loop, whether its last beat is within its limit in seconds."""
        with self._lock:
            now = monotonic_s()
            return {name: now - self._beats.get(name, float("-inf")) <= limit for name, limit in limits_s.items()}


_PROCESS = Telemetry()
configure = _PROCESS.configure
log = _PROCESS.log
log_error = _PROCESS.log_error
key_epoch = _PROCESS.key_epoch
count = _PROCESS.count
counters = _PROCESS.counters
metrics_text = _PROCESS.metrics_text
beat = _PROCESS.beat
health = _PROCESS.health


def _plain(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, Secret):
        return "[redacted]"
    if isinstance(value, bytes):
        return scrub("0x" + value.hex()[:_LONGEST_FIELD])
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value[:50]]
    return scrub(str(value))[:_LONGEST_FIELD]


def _exposed(name: str, labels: tuple[tuple[str, str], ...]) -> str:
    inner = ",".join(f'{key}="{value}"' for key, value in labels)
    return f"{name}{{{inner}}}" if inner else name
