"""How a verification is told: tables for people, JSON for programs."""

import json
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bytewise.protocol.records.compare import DivergenceClass
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import hex0x
from cli.exits import Exit
from cli.labels import warn
from cli.receipt_check import FAIL, PASS, Conclusion, Rerun, Seen, Standing
from cli.terminal import escaped, plain

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


def as_json(seen: list[Seen], end: Conclusion) -> str:
    """One JSON object, of several receipts with one object each in `receipts`; `exit_code` repeats the process's."""
    if len(seen) == 1:
        return json.dumps(_as_json(seen[0]), indent=2)
    whole = {"result": end.word, "exit_code": int(end.exit), "reason": end.reason}
    return json.dumps({**whole, "receipts": [_as_json(each) for each in seen]}, indent=2)


def show(console: Console, seen: list[Seen]) -> None:
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
    table = Table(title=f"receipt {hex0x(seen.identifier)[:18]}…", title_justify="left")
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
