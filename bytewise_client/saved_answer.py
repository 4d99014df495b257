"""An answer that a client saved: what it shows, which receipts it names, and what opens them. Nothing in it is believed."""

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
"""An object with one of these is an answer; any other can only be an opening alone."""


class Choice(NamedTuple):
    """One receipt of a file, with what the file has about it."""

    place: int
    """Index among the choices of the answer."""
    shown: dict[str, Any] | None
    """The answer that this choice is alone; None where the file is an opening alone."""
    receipt_id: Digest | None
    """As the file names it; None if it names none."""
    signed: SignedReceipt | None
    """As the file has it; None if it has none that can be read."""
    payload: Payload | None
    """What opens the receipt; None if the file has no opening."""


class SavedAnswer(NamedTuple):
    """A file."""

    shown: dict[str, Any] | None
    """The whole answer; None where the file is an opening alone."""
    choices: tuple[Choice, ...]
    """Its receipts, at least one: those of `answers`, or the one of the answer itself."""

    @property
    def is_several(self) -> bool:
        """Whether it is an answer to a request with `n`, which has a receipt for each choice."""
        return bool(_several(self.shown))

    def of_receipt(self, identifier: Digest) -> Choice:
        """The choice that names this receipt, or else the first: whether it is of this receipt is checked afterwards."""
        return next((each for each in self.choices if each.receipt_id == identifier), self.choices[0])


def read_answer(path: Path) -> SavedAnswer:
    """The answer, or the opening alone, in a file; `ConfigurationError` as of `parse_answer`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(path.name, str(error.strerror)) from None
    return parse_answer(content, path.name)


def parse_answer(content: bytes, name: str = "answer") -> SavedAnswer:
    """The answer, or the opening alone, in a body of JSON.

    `ConfigurationError` with this name if it is neither, or a piece of a streamed answer.
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
    # Only a help where DA is away: whatever is wrong with it is found when it is compared with the anchored one.
    try:
        return from_json(SignedReceipt, value)
    except Fault:
        return None
