"""Verifies a receipt or a saved answer.

It finds each receipt, checks it, and compares the members of the file with the signed records. This is the paper's Algorithm 3.
The caller may pass a function that opens the receipt's model (`OpenModel`). With the model, the text is compared and the answer
is computed again. Without it, only the public records are checked.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from bytewise.protocol.errors.actors import CannotExecute, ConfigurationError
from bytewise.protocol.records.answer import AnswerTokenizer, several
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.seal import Payload
from bytewise.protocol.units import Digest, hex0x
from bytewise.service.exit_codes import Exit
from bytewise_client import checks
from bytewise_client.checks import Conclusion, ReceiptCheck, Rerun, Seen, Texts
from bytewise_client.connection import Connection
from bytewise_client.receipt_search import Found, SearchProgress, find_receipt
from bytewise_client.saved_answer import (
    Choice,
    Comparison,
    SavedAnswer,
    compare_answer,
    compare_choice,
    compare_rest,
    expected_answer,
)

_NO_TEXT = ReceiptCheck("shown answer", checks.UNKNOWN, "the file has only the opening: no shown text to compare")


class VerifyTokenizer(AnswerTokenizer, Protocol):
    """The part of the artifact's tokenizer that a verification uses."""

    def text_with_control(self, token_ids: tuple[int, ...]) -> str:
        """Returns the text of tokens, with the names of control tokens."""
        ...


class Model(Protocol):
    """The model of a receipt, opened on this machine."""

    @property
    def tokenizer(self) -> VerifyTokenizer:
        """The model's tokenizer."""
        ...

    def rerun(self, receipt: Receipt, payload: Payload) -> Rerun:
        """Computes the answer of an opening again with the model, and compares it with the opening and the receipt. Raises
        `CannotExecute` if this machine cannot run the model."""
        ...


OpenModel = Callable[[Found], Model]
"""Function that opens the model of a receipt. It raises `CannotExecute` if this machine does not have the model."""

_WORST_FIRST = (Exit.MISMATCH, Exit.UNAVAILABLE, Exit.NOT_FOUND, Exit.INCONCLUSIVE, Exit.OK)


class VerificationReport(NamedTuple):
    """Result of verifying one or several receipts."""

    seen: tuple[Seen, ...]
    """Findings for each receipt, at least one."""

    @property
    def end(self) -> Conclusion:
        """The worst conclusion of all receipts.

        A mismatch is worse than an unavailable service, and that is worse than a missing receipt.
        """
        return min((each.end for each in self.seen), key=lambda each: _WORST_FIRST.index(each.exit))

    def as_json(self) -> dict[str, Any]:
        """Returns the result as one JSON object. For several receipts, its member `receipts` has one object for each."""
        if len(self.seen) == 1:
            return _as_json(self.seen[0])
        whole = {"result": self.end.word, "exit_code": int(self.end.exit), "reason": self.end.reason}
        return {**whole, "receipts": [_as_json(each) for each in self.seen]}


def no_model(found: Found) -> Model:
    """Function for `OpenModel` that opens no model. It raises `CannotExecute` with the model's id."""
    raise CannotExecute(f"model_missing: give the artifact of model {hex0x(found.checked.signed.receipt.model_id)}")


def no_progress(done: int, total: int) -> None:
    """Function for `SearchProgress` that shows nothing."""


def verify_answer(
    connection: Connection, saved: SavedAnswer, open_model: OpenModel = no_model, progress: SearchProgress = no_progress
) -> VerificationReport:  # fmt: skip
    """Verifies every receipt of a saved answer, and each member that the file shows.

    Raises `ConfigurationError` if the file does not name the receipt of each choice.
    """
    named = [(each.receipt_id, each) for each in saved.choices if each.receipt_id is not None]
    if len(named) < len(saved.choices):
        raise ConfigurationError("answer", "names no receipt (receipt.receipt_id)")
    verifier = _Verifier(connection, saved, True, open_model, progress)
    seen = [verifier.look(identifier, choice) for identifier, choice in named]
    if saved.is_several:
        seen[0] = _with_rest(seen, saved)
    return VerificationReport(tuple(seen))


def verify_receipt(
    connection: Connection,
    identifier: Digest,
    saved: SavedAnswer | None = None,
    open_model: OpenModel = no_model,
    progress: SearchProgress = no_progress,
) -> VerificationReport:
    """Verifies one receipt. If the caller passes a saved answer (`saved`), this function uses the opening in it, and compares the
    members that it shows with the signed records."""
    choice = None if saved is None else saved.of_receipt(identifier)
    return VerificationReport((_Verifier(connection, saved, False, open_model, progress).look(identifier, choice),))


class _Verifier(NamedTuple):
    """State of one verification: its sources, the saved answer, and the function that opens the model."""

    connection: Connection
    saved: SavedAnswer | None
    is_whole: bool
    """Whether the whole file is checked, and not only one receipt of it."""
    open_model: OpenModel
    progress: SearchProgress

    def look(self, identifier: Digest, choice: Choice | None) -> Seen:
        """Finds a receipt and checks it. If the search finds no receipt, uses only the facts that the chain shows."""
        search = find_receipt(self.connection, identifier, self.progress, None if choice is None else choice.signed)
        standing, missing = checks.chain_standing(self.connection, search, identifier), checks.not_found(search)
        if choice is not None and choice.signed is not None and (search.found is None or not search.found.is_listed):
            missing = checks.with_promise(self.connection, choice.signed, identifier, search.head, missing)
        if search.found is None and not search.unread and standing.dispute is None:
            return Seen(identifier, [], missing)
        if search.found is None:
            uncompared = Comparison(unchecked=["choices"]) if self._shows_choices(choice) else None
            return Seen(identifier, [], checks.without_list(standing, missing, None, uncompared), standing)
        seen = self._check(search.found, choice, Seen(identifier, [], missing, standing))
        opened = next((each.result == checks.PASS for each in seen.checks if each.name == "opening"), None)
        points = checks.completeness(self.connection, search.found, standing, opened, seen.outcome)
        seen = seen._replace(completeness=points)
        if search.found.is_listed or seen.end.exit is Exit.MISMATCH:
            return seen
        return seen._replace(end=checks.without_list(standing, missing, seen.outcome, seen.shown))

    def _shows_choices(self, choice: Choice | None) -> bool:
        shown = [None if self.saved is None else self.saved.shown, None if choice is None else choice.shown]
        return any("choices" in each for each in shown if each is not None)

    def _check(self, found: Found, choice: Choice | None, seen: Seen) -> Seen:
        """Checks a receipt that was found. `seen` has its state on the chain."""
        standing = seen.standing
        assert standing is not None, "read by the caller"
        seen = seen._replace(checks=checks.public_checks(self.connection, found))
        model, failure = None, ""
        if choice is not None and choice.payload is not None:
            check, early = checks.check_opening(found, seen.identifier, choice.payload)
            seen.checks.append(check)
            if early is not None:
                return seen._replace(end=early)
            model, failure = self._model(found)
        if choice is not None:
            seen = self._compare(found, choice, None if model is None else model.tokenizer, seen)
            if model is not None and choice.payload is not None:
                outcome, failure = _rerun(found, choice.payload, model)
                seen = seen._replace(outcome=outcome)
        end = checks.conclude(seen.checks, standing, seen.outcome, seen.shown)
        if failure:
            seen.checks.append(ReceiptCheck("re-execution", checks.UNKNOWN, failure))
            end = end._replace(reason=failure) if end.exit is Exit.INCONCLUSIVE else end
        return seen._replace(end=end)

    def _model(self, found: Found) -> tuple[Model | None, str]:
        """Opens the receipt's model. Returns None and the reason if this machine cannot open it."""
        try:
            return self.open_model(found), ""
        except CannotExecute as error:
            return None, str(error.values[0])

    def _compare(self, found: Found, choice: Choice, words: VerifyTokenizer | None, seen: Seen) -> Seen:
        """Compares the file with the values that the receipt and its opening determine. With `words`, it also compares the
        text."""
        label = "" if seen.standing is None else seen.standing.assurance
        expected = expected_answer(found, seen.identifier, label, choice.payload, words, choice.signed)
        if words is not None and choice.payload is not None:
            content = expected["choices"][0]["message"]["content"]
            seen = seen._replace(texts=Texts(words.text_with_control(choice.payload.request.prompt), content))
        if choice.shown is None or self.saved is None or self.saved.shown is None:
            seen.checks.append(_NO_TEXT)
            return seen
        is_several = self.saved.is_several
        shown = compare_answer(choice.shown, expected, f"answers[{choice.place}]" if is_several else "")
        if is_several and choice.payload is not None:
            shown.merge(compare_choice(self.saved.shown, choice.place, expected))
        elif is_several and "choices" in self.saved.shown:
            shown.unchecked.append(f"choices[{choice.place}]")
        if is_several and not self.is_whole:
            shown.unchecked.append("what the file has beside this choice")
        seen.checks.append(checks.check_shown(shown, words is not None))
        return seen._replace(shown=shown, expected=expected)


def _rerun(found: Found, payload: Payload, model: Model) -> tuple[Rerun | None, str]:
    try:
        return model.rerun(found.checked.signed.receipt, payload), ""
    except CannotExecute as error:
        return None, str(error.values[0])


def _with_rest(seen: list[Seen], saved: SavedAnswer) -> Seen:
    """Compares the members that concern all choices, and adds the result to the first receipt of the file."""
    first, answers = seen[0], [each.expected for each in seen if each.expected is not None and "choices" in each.expected]
    if first.shown is None or saved.shown is None or len(answers) < len(seen):
        return first
    rest = compare_rest(saved.shown, several(answers))
    first.shown.merge(rest)
    found = [each for each in first.checks if each.name != "shown answer"]
    found.append(checks.check_shown(first.shown, first.texts is not None))
    is_worse = rest.differences and first.end.exit is not Exit.MISMATCH
    return first._replace(checks=found, end=checks.altered(first.shown) if is_worse else first.end)


def _as_json(seen: Seen) -> dict[str, Any]:
    standing, shown, texts = seen.standing, seen.shown, seen.texts
    return {
        "receipt_id": hex0x(seen.identifier),
        "result": seen.end.word,
        "exit_code": int(seen.end.exit),
        "reason": seen.end.reason,
        "checks": [check._asdict() for check in seen.checks],
        "divergence": None if seen.outcome is None else _divergence(seen.outcome),
        "differing_fields": None if seen.outcome is None else list(seen.outcome.fields),
        "shown": None if shown is None else {
            "compared": shown.compared, "has_text": shown.has_text, "unchecked": shown.unchecked,
            "differences": [each._asdict() for each in shown.differences],
        },
        "prompt": None if texts is None else texts.prompt,
        "answer": None if texts is None else texts.answer,
        "assurance": None if standing is None else standing.assurance,
        "preflight": None if seen.completeness is None else {
            "points": {point.name.lower(): mark.value for point, mark in seen.completeness.marks},
            "claim": seen.completeness.claim,
        },
        "chain": None if standing is None else {
            "final": standing.final, "verdict": None if standing.dispute is None else standing.verdict.name,
            "audits": standing.audits,
        },
    }  # fmt: skip


def _divergence(outcome: Rerun) -> dict[str, Any] | None:
    where = outcome.divergence
    if where is None:
        return None
    told = {"expected": where.expected, "claimed": where.claimed, "gap": where.gap}
    return {"position": where.position, "kind": where.kind.value, **told}
