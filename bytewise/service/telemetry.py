"""Writes the log of a process as JSON lines. A line has an event name and fields, and no free text.

No line contains a secret: `Secret` values, known secrets inside texts, and fields with names like `plaintext` are replaced by
`[redacted]`.
"""

import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import structlog

from bytewise.protocol.assurance import warning
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service.clock import SystemClock
from bytewise.service.secret import Secret, scrub

_EVENT = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_PRIVATE = re.compile(r"(^|_)(secret|password|passphrase|prompt|plaintext|messages|token_ids|private_key)($|_)")
_LONGEST_FIELD = 500
"""Most characters of one field. A log line is for people and must not store payloads."""


class _Lines:
    """Prints lines to a stream. Without a stream it uses the current standard error, which another module may replace and
    close."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        print(line, file=self._stream or sys.stderr, flush=True)


class Telemetry:
    """The log of one process. `configure` sets where lines go and whether they show the values of errors."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._on_error: Callable[[str], object] = lambda _: None
        self._epoch: tuple[int, str] | None = None
        self._details = True
        self._logger: Any = None

    def configure(self, component: str, stream: TextIO | None = None, details: bool = True) -> None:
        """Sets the component name of each line. Forgets which key epoch was logged last, so the next call of `key_epoch` logs it
        again.

        An enclave sets `details` to False, because the values of errors may quote plaintext.
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
        """Writes one line: the name of the event (`noun.verb_past`) and its fields.

        Raises `ValueError` if the name is not made of lower-case words, digits, underscores and dots.
        """
        if not _EVENT.fullmatch(event):
            raise ValueError("an event has a name, not a sentence")
        if self._logger is None:
            self.configure("bytewise")
        clean = _plain_fields(fields)
        with self._lock:
            self._logger.msg(event, at=SystemClock().now(), **clean)

    def log_error(self, event: str, error: BaseException, **fields: object) -> None:
        """Writes one line about an error: class, rule, reason if the rule has several, and values unless details are off.

        For an error whose text may quote plaintext, use `log_foreign_error`.
        """
        about: dict[str, object] = {"error": type(error).__name__}
        if isinstance(error, BytewiseError):
            about["rule"] = error.rule
            if error.reason:
                about["reason"] = error.reason
        if self._details:
            about["detail"] = str(error)
        self._on_error(event)
        self.log(event, **about, **fields)

    def log_foreign_error(self, event: str, error: BaseException, **fields: object) -> None:
        """Writes one line about an error of a library or of Python: only its class, and the line of code that raised it. The text
        of such an error may quote plaintext."""
        self._on_error(event)
        self.log(event, error=type(error).__name__, where=raised_at(error), **fields)

    def on_error(self, report: Callable[[str], object]) -> None:
        """Sets the function that is called for each line about an error. The function gets the event name of the line.

        `bytewise.service.metrics` sets a function that counts errors. This module does not import metrics, because an enclave
        logs but serves no metrics.
        """
        self._on_error = report

    def key_epoch(self, epoch: int, assurance: str) -> None:
        """Logs the key epoch of this process and its assurance, if one of the two differs from the last call
        (`metrics.set_key_epoch`)."""
        with self._lock:
            known, self._epoch = self._epoch, (epoch, assurance)
        if known != (epoch, assurance):
            told = warning(assurance)
            self.log("key_epoch.reported", epoch=epoch, assurance=assurance, **({"warning": told} if told else {}))


def raised_at(error: BaseException) -> str:
    """Returns the file name and the line number at which an error was raised; empty if it was never raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"


_PROCESS = Telemetry()
configure = _PROCESS.configure
log = _PROCESS.log
log_error = _PROCESS.log_error
log_foreign_error = _PROCESS.log_foreign_error
key_epoch = _PROCESS.key_epoch
on_error = _PROCESS.on_error


def _plain_fields(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: "[redacted]" if _PRIVATE.search(name) else _plain(value) for name, value in fields.items()}


def _plain(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, Secret):
        return "[redacted]"
    if isinstance(value, bytes):
        return scrub("0x" + value.hex())[:_LONGEST_FIELD]
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value[:50]]
    if isinstance(value, dict):
        return _plain_fields({str(name): item for name, item in itertools.islice(value.items(), 50)})
    return scrub(str(value))[:_LONGEST_FIELD]
