"""Reads a saved answer of a client, and compares its members with the values that receipt, opening and tokens determine.

A saved answer has the members that it shows, its receipts, and their openings. All of it is untrusted. The expected answer is
made with the operator's code (`bytewise.protocol.records.answer`) from checked data: the anchored receipt, the registered
environment, the chain's label, and an opening that hashes to the receipt. All other members are listed as unchecked.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bytewise.protocol.encoding import from_json, parse_typed
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.records.answer import AnswerTokenizer, completion, opened_members, public_members
from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.records.seal import Payload
from bytewise.protocol.signing import verify_signature
from bytewise.protocol.units import Digest, digest, hex0x, unhex
from bytewise_client.receipt_search import Found

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
    """The choices of the file, at least one: the entries of the member `answers`, or the answer itself as a single choice."""

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
    # A signed receipt that cannot be read counts as missing: the file then shows it as a member, and the comparison with the
    # anchored receipt finds the flaw.
    try:
        return from_json(SignedReceipt, value)
    except Fault:
        return None


NOTHING = ("tool_calls", "function_call", "audio", "annotations", "reasoning_content", "reasoning")
"""Members of a message that clients show beside the text. In this version no tokens decode to them, so they must be empty."""
BY_WORDS = ("content", "logprobs")
"""Members of a choice that can be computed only with the model's tokenizer."""
LOCATORS = ("eigendalink", "receipt.signed.locator")
"""Members that may differ from the list, because a locator can change without a new signature (design section 4)."""
EXCERPT = 60
"""Most characters that are shown of a text that differs."""


class MemberDifference(NamedTuple):
    """A member that the file shows and that differs from the signed records."""

    member: str
    """Path of the member in the file, such as `choices[0].message.content`."""
    shown: str
    expected: str
    """Excerpts of both values in Python's notation, which has no control characters. Excerpts of texts begin shortly before the
    first difference."""


@dataclass(slots=True)
class Comparison:
    """Result of comparing the members that a file shows."""

    compared: int = 0
    """Number of members that were compared."""
    differences: list[MemberDifference] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    """Paths of the members that the available data do not determine."""
    has_text: bool = False
    """Whether the file shows a text and the text was compared."""

    @property
    def leaves_text_open(self) -> bool:
        """Whether a member of a choice in the file, such as its text, was not compared."""
        return any("choices" in path for path in self.unchecked)

    def add(self, shown: object, expected: object, path: str) -> None:
        """Compares a shown value, and all values inside it, with the expected value. `path` is its place in the file."""
        if isinstance(shown, dict) and isinstance(expected, Mapping):
            for name, value in shown.items():
                shown_name = _UNSAFE.sub(lambda found: f"\\x{ord(found[0]):02x}", name)[:EXCERPT]
                self._add_member(value, expected, name, f"{path}.{shown_name}" if path else shown_name)
        elif isinstance(shown, list) and isinstance(expected, list):
            self._add_list(shown, expected, path)
        else:
            self._add_value(shown, expected, path)

    def merge(self, other: "Comparison") -> None:
        """Adds the result of comparing another part of the same file."""
        self.compared += other.compared
        self.differences += other.differences
        self.unchecked += other.unchecked
        self.has_text |= other.has_text

    def _add_member(self, value: object, expected: Mapping[str, Any], name: str, path: str) -> None:
        if name in expected:
            self.add(value, expected[name], path)
        elif "choices[" in path and name not in BY_WORDS:
            # All members of a choice are known. A client could show an additional member as its text.
            self.add(value, None, path)
        elif value is not None:
            # The official client adds members that were not sent, with the value null.
            self.unchecked.append(path)

    def _add_list(self, shown: list[Any], expected: list[Any], path: str) -> None:
        for i, (have, want) in enumerate(zip(shown, expected, strict=False)):
            self.add(have, want, f"{path}[{i}]")
        if len(shown) != len(expected):
            self.compared += 1
            where = f"{path}[{len(expected)}]" if len(shown) > len(expected) else path
            self.differences.append(MemberDifference(where, f"{len(shown)} items", f"{len(expected)} items"))

    def _add_value(self, shown: object, expected: object, path: str) -> None:
        self.compared += 1
        self.has_text |= path.endswith(".message.content")
        is_same = shown == expected and isinstance(shown, bool) == isinstance(expected, bool)
        if not is_same and not (expected is None and shown in ("", [], {})):
            self.differences.append(MemberDifference(path, *_excerpts(shown, expected)))


_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
"""Characters of a member's name that a report escapes. The name comes from the file, and blanks in it could look like the end of
a line of the report."""


def expected_answer(
    found: Found,
    identifier: Digest,
    label: str,
    payload: Payload | None,
    words: AnswerTokenizer | None,
    signed: SignedReceipt | None,
) -> dict[str, Any]:
    """Returns the expected answer of a receipt, as far as the data determine it.

    Without an opening (`payload`) it has only the public members. Without the tokenizer `words` it has all members except the
    text. `signed` is the signed receipt in the file. Its signature is expected if it is valid, because an operator may sign one
    receipt twice with different signatures.
    """
    stated = _stated(found, identifier, signed)
    answer = public_members(identifier, stated, found.environment, label)
    if payload is None:
        return answer
    if words is None:
        answer |= opened_members(payload, found.environment)
    else:
        answer = completion(identifier, stated, payload, found.environment, words, label)
    answer["choices"][0]["message"] |= dict.fromkeys(NOTHING)
    return answer


def compare_answer(shown: Mapping[str, Any], expected: Mapping[str, Any], path: str = "") -> Comparison:
    """Compares every member of a shown answer with the expected answer. `path` is the place of the answer in the file."""
    found = Comparison()
    found.add(dict(shown), expected, path)
    locators = tuple(f"{path}.{name}" if path else name for name in LOCATORS)
    found.unchecked += [each.member for each in found.differences if each.member in locators]
    found.differences = [each for each in found.differences if each.member not in locators]
    return found


def compare_choice(whole: Mapping[str, Any], place: int, expected: Mapping[str, Any]) -> Comparison:
    """Compares one entry of the member `choices`, in an answer with several choices. `place` is its position in that list."""
    found, choices = Comparison(), whole.get("choices")
    if isinstance(choices, list) and place < len(choices):
        found.add(choices[place], {**expected["choices"][0], "index": place}, f"choices[{place}]")
    return found


def compare_rest(whole: Mapping[str, Any], expected: Mapping[str, Any]) -> Comparison:
    """Compares the members of an answer with several choices that belong to no single choice, such as the usage.

    It also compares the number of choices. `expected` is the expected answer to the whole request.
    """
    apart = ("choices", "answers")
    found = compare_answer({k: v for k, v in whole.items() if k not in apart}, expected)
    for name in apart:
        if isinstance(shown := whole.get(name), list):
            found.add([None] * len(shown), [None] * len(expected[name]), name)
        elif shown is not None:
            found.add(shown, expected[name], name)
    return found


def _stated(found: Found, identifier: Digest, signed: SignedReceipt | None) -> SignedReceipt:
    listed = found.checked.signed
    if signed is None or signed.receipt != listed.receipt:
        return listed
    try:
        verify_signature("receipt", identifier, signed.signature, listed.receipt.operator)
    except Fault:
        return listed
    return SignedReceipt(listed.receipt, signed.signature, listed.locator)


def _excerpts(shown: object, expected: object) -> tuple[str, str]:
    if not (isinstance(shown, str) and isinstance(expected, str)):
        return ascii(shown)[:EXCERPT], ascii(expected)[:EXCERPT]
    start = next((i for i, (a, b) in enumerate(zip(shown, expected, strict=False)) if a != b), min(len(shown), len(expected)))
    start, lead = max(0, start - EXCERPT // 4), "..." if start > EXCERPT // 4 else ""
    return lead + ascii(shown[start : start + EXCERPT]), lead + ascii(expected[start : start + EXCERPT])
