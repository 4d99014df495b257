"""Reads a saved answer of a client: the members that it shows, its receipts, and their openings. All of it is untrusted."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from bytewise.protocol.encoding import from_json, parse_typed
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.records.seal import Payload
from bytewise.protocol.units import Digest, digest, hex0x, unhex

_MEMBERS = frozenset({"choices", "receipt", "opening", "answers"})
"""Members of an answer. An object with none of them can only be an opening."""


class Choice(NamedTuple):
    """One choice of a saved answer: its receipt, its opening, and the members that the file shows."""

    place: int
    """Position of the choice in the answer, from 0."""
    shown: dict[str, Any] | None
    """The answer with this choice only. It is None if the file has only an opening."""
    receipt_id: Digest | None
    """Receipt id that the file names. It is None if the file names none."""
    signed: SignedReceipt | None
    """Signed receipt in the file. It is None if the file has none that can be read."""
    payload: Payload | None
    """Opening of the receipt. It is None if the file has none."""


class SavedAnswer(NamedTuple):
    """Content of a file with a saved answer or an opening."""

    shown: dict[str, Any] | None
    """The whole answer. It is None if the file has only an opening."""
    choices: tuple[Choice, ...]
    """The receipts of the file, at least one: those in the member `answers`, or the single receipt of the answer."""

    @property
    def is_several(self) -> bool:
        """Whether the file has several choices, each with its own receipt. A request with `n` above 1 gets such an answer."""
        return bool(_several(self.shown))

    def of_receipt(self, identifier: Digest) -> Choice:
        """Returns the choice that names this receipt, or else the first choice.

        A later check compares that choice with the receipt.
        """
        return next((each for each in self.choices if each.receipt_id == identifier), self.choices[0])


def read_answer(path: Path) -> SavedAnswer:
    """Reads a file that has an answer or only an opening.

    Raises `ConfigurationError` if the file cannot be read, and the errors of `parse_answer`.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(path.name, str(error.strerror)) from None
    return parse_answer(content, path.name)


def parse_answer(content: bytes, name: str = "answer") -> SavedAnswer:
    """Parses JSON that is an answer or only an opening.

    `name` is the file's name for error messages. Raises `ConfigurationError` if the bytes are neither, or are a piece of a
    streamed answer.
    """
    if re.match(rb"\s*(data|event|id|retry)?:", content):
        raise ConfigurationError(name, "is a stream of events; save the whole answer, which has receipt and opening")
    try:
        value = parse_typed(content)
        if isinstance(value, dict) and value.get("object") == "chat.completion.chunk":
            raise ConfigurationError(name, "is a piece of a streamed answer; save the whole one, with receipt and opening")
        if not isinstance(value, dict) or not _MEMBERS & value.keys():
            return SavedAnswer(None, (Choice(0, None, None, None, from_json(Payload, value)),))
        return SavedAnswer(value, tuple(_choice(i, each) for i, each in enumerate(_several(value) or [value])))
    except Fault as error:
        raise ConfigurationError(name, f"is neither an answer nor an opening: {error}") from None


def _several(value: dict[str, Any] | None) -> list[dict[str, Any]]:
    answers = None if value is None else value.get("answers")
    return [each for each in answers if isinstance(each, dict)] if isinstance(answers, list) else []


def _choice(place: int, shown: dict[str, Any]) -> Choice:
    opening, receipt = shown.get("opening"), shown.get("receipt")
    payload = None if opening is None else from_json(Payload, opening)
    named = receipt if isinstance(receipt, dict) else {}
    return Choice(place, shown, _identifier(named.get("receipt_id")), _signed(named.get("signed")), payload)


def _identifier(value: object) -> Digest | None:
    try:
        found = digest(unhex(str(value)))
    except Fault:
        return None
    return found if value == hex0x(found) else None


def _signed(value: object) -> SignedReceipt | None:
    # The signed receipt is used only if DA is down. A flaw in it shows when it is compared with the anchored receipt.
    try:
        return from_json(SignedReceipt, value)
    except Fault:
        return None
