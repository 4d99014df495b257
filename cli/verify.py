"""`bytewise verify`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.padding import Padding
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from bytewise.protocol.errors.actors import CannotExecute, ConfigurationError
from bytewise.protocol.records.compare import DivergenceClass
from bytewise.protocol.records.seal import Payload
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Digest, hex0x
from bytewise.service.exit_codes import Exit
from cli.assurance import warn
from cli.connect import (
    DA_URLS,
    NETWORK_FILE,
    RPC_URLS,
    Connection,
    DaOption,
    NetworkOption,
    RpcOption,
    connected,
    receipt_argument,
)
from cli.output import OutputFormat, OutputOption, emit, escaped, plain
from cli.receipt import check as receipt_check
from cli.receipt.check import FAIL, PASS, Conclusion, Model, ReceiptCheck, Rerun, Seen, Standing, Texts
from cli.receipt.saved_answer import Choice, SavedAnswer, read_answer
from cli.receipt.search import Found
from cli.receipt.show import not_found, progress, receipt_named, search_with_progress
from cli.receipt.shown_members import compare_answer, compare_choice, compare_rest, expected_answer
from serving.answer import several

# How a verification is told: tables for people, JSON for programs.

MEANING = {
    DivergenceClass.TOKEN: "the text was altered after the computation, or could come from none",
    DivergenceClass.SAMPLER: "the right model ran, under another seed or other decoding settings",
    DivergenceClass.MODEL: "another model ran, or another prompt was answered",
    DivergenceClass.LENGTH: "the answer ends elsewhere",
    DivergenceClass.STOP: "the tokens are right; the finish reason, the counts or the blind are not",
    DivergenceClass.TRACE: "the answer is right, but the receipt commits to another computation",
}
_COLOURS = {Exit.OK: "bold green", Exit.MISMATCH: "bold red"}
_RESULTS = {PASS: "green", FAIL: "red"}


def as_json(seen: list[Seen], end: Conclusion) -> dict[str, Any]:
    """One JSON object, of several receipts with one object each in `receipts`; `exit_code` repeats the process's."""
    if len(seen) == 1:
        return _as_json(seen[0])
    whole = {"result": end.word, "exit_code": int(end.exit), "reason": end.reason}
    return {**whole, "receipts": [_as_json(each) for each in seen]}


def show_report(console: Console, seen: list[Seen]) -> None:
    """Prints of each receipt the checks, what the chain says, the decoded texts, and the conclusion."""
    for each in seen:
        _show(console, each)


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


def _show(console: Console, seen: Seen) -> None:
    console.print(Text(f"receipt {hex0x(seen.identifier)}", style="italic"))
    table = Table()
    for heading in ("check", "result", "detail"):
        table.add_column(heading)
    for check in seen.checks:
        table.add_row(check.name, Text(check.result, style=_RESULTS.get(check.result, "yellow")), plain(check.detail))
    if seen.standing is not None:
        for name, told in _standing_rows(seen.standing):
            table.add_row(name, "", told)
    console.print(table)
    if seen.texts is not None:
        for name, text in (("prompt", seen.texts.prompt), ("answer", seen.texts.answer)):
            console.print(Text(f"{name}, as the signed tokens decode:", style="bold"))
            # Indented, line by line: no text can look like a line of this report.
            console.print(Padding(Text(escaped(text)), (0, 0, 0, 4)))
    for each in () if seen.shown is None else seen.shown.differences:
        console.print(plain(f"differs: {each.member}", "red"))
        console.print(plain(f"  the file shows: {each.shown}"))
        console.print(plain(f"  signed was:     {each.expected}"))
    for line in () if seen.outcome is None else _outcome_lines(seen.outcome):
        console.print(plain(line))
    console.print(plain(f"{seen.end.word}: {seen.end.reason}", _COLOURS.get(seen.end.exit, "bold yellow")))
    if seen.standing is not None:
        warn(console, seen.standing.assurance)


def _standing_rows(standing: Standing) -> list[tuple[str, str]]:
    dispute = "none"
    if standing.dispute is not None:
        stated = standing.dispute.verdict
        dispute = "running" if stated is Verdict.NONE else stated.name.lower()
        if stated is not standing.verdict:
            dispute += ", not final yet"
    return [
        ("audits posted", ", ".join(f"{count} {name}" for name, count in standing.audits.items())),
        ("dispute", dispute),
        ("accepted for good", "yes" if standing.final else standing.open_reason),
    ]


def _outcome_lines(outcome: Rerun) -> list[str]:
    lines = [f"{name} of the receipt is not what the re-execution gives" for name in outcome.fields]
    where = outcome.divergence
    if where is None:
        return lines
    if where.expected is None and where.claimed is None:
        # The tokens are equal to the end: there is none to show.
        return [*lines, f"all {where.position} tokens are equal ({where.kind.value}): {MEANING[where.kind]}"]
    lines.append(f"first divergence: token {where.position} ({where.kind.value}): {MEANING[where.kind]}")
    lines.append(f"  re-execution: {_token(where.expected, outcome.expected_text)}")
    lines.append(f"  receipt:      {_token(where.claimed, outcome.claimed_text)}")
    if where.gap is not None:
        lines.append(f"  the model's best logit is {float(where.gap):.6g} above its second")
    return lines


def _token(token: int | None, text: str) -> str:
    return "no token: the answer has ended" if token is None else f"{token} {text!a}"


if TYPE_CHECKING:
    from bytewise.inference.tokenizer import Tokenizer


OpeningOption = Annotated[Path | None, typer.Option("--opening", help="What the client kept: the answer, or its opening.")]
ArtifactOption = Annotated[Path | None, typer.Option("--artifact", help="Folder of the model's artifact, to re-execute.")]


SubjectArgument = Annotated[
    str,
    typer.Argument(metavar="RECEIPT_ID|FILE", help="The file of a saved answer; or a receipt's id, 0x-hex, or its first digits."),
]


class Asked(NamedTuple):
    """What the user asks about, and has beside it."""

    receipts: list[tuple[Digest, Choice | None]]
    """At least one, each with what the file has of it."""
    saved: SavedAnswer | None
    """None without a file."""
    is_whole: bool
    """Whether everything that the file shows is asked about, not one receipt of it."""
    artifact: Path | None
    beginning: str = ""
    """First digits of a receipt's id, where that was all that was typed: `receipts` is empty then."""


def verify(
    subject: SubjectArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, da: DaOption = DA_URLS,
    opening: OpeningOption = None, artifact: ArtifactOption = None, output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Check an answer or a receipt, by re-running it if you hold its opening.

    This is the paper's Algorithm 3.

    Of a saved answer every shown member is compared with what was signed. With --artifact DIR its text is compared with what the
    receipt's tokens decode to, and the answer is recomputed: VERIFIED, or the first divergence. Without opening or artifact,
    everything public is checked and the chain's verdict or the drawn audits are reported; else INCONCLUSIVE: no right to open. A
    file whose text was not compared is INCONCLUSIVE, too.

    Exit codes: 0 verified, 2 mismatch, altered answer or defect proven, 3 inconclusive, 4 not found, 5 a service is down (for DA
    this waits 5 s in all), 64 wrong input. Of several receipts in one answer 2 goes before 5, 5 before 4, and 4 before 3.
    """
    asked = _asked(subject, opening, artifact)
    with connected(network, rpc, da) as connection, progress() as bars:
        if asked.beginning:
            asked = asked._replace(receipts=[_with_opening(receipt_named(connection, asked.beginning), asked.saved)])
        seen = [_look(connection, identifier, choice, asked, bars) for identifier, choice in asked.receipts]
    if asked.is_whole and asked.saved is not None and asked.saved.is_several:
        seen[0] = _with_rest(seen, asked.saved)
    end = min((each.end for each in seen), key=lambda each: _WORST_FIRST.index(each.exit))
    emit(output, as_json(seen, end), lambda: show_report(Console(), seen))
    raise typer.Exit(int(end.exit))


_WORST_FIRST = (Exit.MISMATCH, Exit.UNAVAILABLE, Exit.NOT_FOUND, Exit.INCONCLUSIVE, Exit.OK)


def _asked(subject: str, opening: Path | None, artifact: Path | None) -> Asked:
    if artifact is not None and not artifact.is_dir():
        raise ConfigurationError("--artifact", f"{artifact} is no folder: name the one that `bytewise model convert` wrote")
    file = Path(subject)
    if _IDENTIFIER.fullmatch(subject) or not file.is_file():
        if not _BEGINNING.fullmatch(subject):
            why = "must be 0x and 64 hex digits or the first of them, or the file of a saved answer; there is no such file"
            raise ConfigurationError("RECEIPT_ID|FILE", why)
        saved = None if opening is None else read_answer(opening)
        whole = _IDENTIFIER.fullmatch(subject) is not None
        receipts = [_with_opening(receipt_argument(subject), saved)] if whole else []
        return Asked(receipts, saved, False, artifact, "" if whole else subject)
    if opening is not None:
        raise ConfigurationError(
            "--opening", f"is for a receipt that is named by its id; {file.name} is read for its own opening"
        )
    saved = read_answer(file)
    named = [(each.receipt_id, each) for each in saved.choices if each.receipt_id is not None]
    if len(named) < len(saved.choices):
        raise ConfigurationError(
            file.name, "names no receipt (receipt.receipt_id): give RECEIPT_ID and `--opening` with this file"
        )
    return Asked(list(named), saved, True, artifact)


_IDENTIFIER = re.compile("0x[0-9a-fA-F]{64}")
_BEGINNING = re.compile("0x[0-9a-fA-F]{1,64}")


def _with_opening(identifier: Digest, saved: SavedAnswer | None) -> tuple[Digest, Choice | None]:
    """A receipt that is named by its id, with what the file of `--opening` has of it."""
    choice = None if saved is None else saved.of_receipt(identifier)
    if choice is not None and choice.payload is None:
        raise ConfigurationError("--opening", "the file has no opening; `bytewise verify FILE` checks what it shows")
    return identifier, choice


def _look(connection: Connection, identifier: Digest, choice: Choice | None, asked: Asked, bars: Progress) -> Seen:
    search = search_with_progress(connection, identifier, choice, bars)
    standing = receipt_check.chain_standing(connection, search, identifier)
    if search.found is None and not search.unread and standing.dispute is None:
        return Seen(identifier, [], not_found(search))
    if search.found is None:
        return Seen(identifier, [], receipt_check.without_list(standing, not_found(search), None), standing)
    seen = _verify(connection, search.found, choice, asked, bars, Seen(identifier, [], not_found(search), standing))
    if search.found.is_listed or seen.end.exit is Exit.MISMATCH:
        return seen
    return seen._replace(end=receipt_check.without_list(standing, not_found(search), seen.outcome, seen.shown))


def _verify(connection: Connection, found: Found, choice: Choice | None, asked: Asked, bars: Progress, seen: Seen) -> Seen:
    """What is seen of a receipt that was found; `seen` has its standing."""
    standing = seen.standing
    assert standing is not None, "read by the caller"
    seen = seen._replace(checks=receipt_check.public_checks(connection, found))
    model, failure = None, ""
    if choice is not None and choice.payload is not None:
        check, early = receipt_check.check_opening(found, seen.identifier, choice.payload)
        seen.checks.append(check)
        if early is not None:
            return seen._replace(end=early)
        model, failure = _model(found, asked.artifact, bars)
    if choice is not None:
        seen = _compare(found, choice, asked, None if model is None else model.words, seen)
        if model is not None and choice.payload is not None:
            outcome, failure = _rerun(found, choice.payload, model)
            seen = seen._replace(outcome=outcome)
    end = receipt_check.conclude(seen.checks, standing, seen.outcome, seen.shown)
    if failure:
        seen.checks.append(ReceiptCheck("re-execution", receipt_check.UNKNOWN, failure))
        end = end._replace(reason=failure) if end.exit is Exit.INCONCLUSIVE else end
    return seen._replace(end=end)


def _model(found: Found, artifact: Path | None, bars: Progress) -> tuple[Model | None, str]:
    """The receipt's model, or why this machine has none."""
    task = bars.add_task("loading the model", total=None)

    def tell(_name: str, done: int, total: int) -> None:
        bars.update(task, completed=done, total=total)

    try:
        return receipt_check.open_model(found, artifact, tell), ""
    except CannotExecute as error:
        return None, str(error.values[0])
    finally:
        bars.remove_task(task)


def _rerun(found: Found, payload: Payload, model: Model) -> tuple[Rerun | None, str]:
    try:
        return receipt_check.rerun(found.checked.signed.receipt, payload, model), ""
    except CannotExecute as error:
        return None, str(error.values[0])


def _compare(found: Found, choice: Choice, asked: Asked, words: "Tokenizer | None", seen: Seen) -> Seen:
    """What the file shows, beside what is determined by the receipt, its opening and, with `words`, its tokens."""
    label = "" if seen.standing is None else seen.standing.assurance
    expected = expected_answer(found, seen.identifier, label, choice.payload, words, choice.signed)
    if words is not None and choice.payload is not None:
        content = expected["choices"][0]["message"]["content"]
        seen = seen._replace(texts=Texts(words.text_with_control(choice.payload.request.prompt), content))
    if choice.shown is None or asked.saved is None or asked.saved.shown is None:
        seen.checks.append(
            ReceiptCheck("shown answer", receipt_check.UNKNOWN, "the file has only the opening: no shown text to compare")
        )
        return seen
    is_several = asked.saved.is_several
    shown = compare_answer(choice.shown, expected, f"answers[{choice.place}]" if is_several else "")
    if is_several and choice.payload is not None:
        shown.merge(compare_choice(asked.saved.shown, choice.place, expected))
    if is_several and not asked.is_whole:
        shown.unchecked.append("what the file has beside this choice")
    seen.checks.append(receipt_check.check_shown(shown, words is not None))
    return seen._replace(shown=shown, expected=expected)


def _with_rest(seen: list[Seen], saved: SavedAnswer) -> Seen:
    """The first receipt of a file, also for what the file shows of all choices together."""
    first, answers = seen[0], [each.expected for each in seen if each.expected is not None and "choices" in each.expected]
    if first.shown is None or saved.shown is None or len(answers) < len(seen):
        return first
    rest = compare_rest(saved.shown, several(answers))
    first.shown.merge(rest)
    checks = [each for each in first.checks if each.name != "shown answer"]
    checks.append(receipt_check.check_shown(first.shown, first.texts is not None))
    is_worse = rest.differences and first.end.exit is not Exit.MISMATCH
    return first._replace(checks=checks, end=receipt_check.altered(first.shown) if is_worse else first.end)
