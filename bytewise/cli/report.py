"""How a verification is told: a table for people, JSON for programs."""

import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bytewise.cli.checking import PASS, Check, Conclusion, Rerun, Standing
from bytewise.cli.exits import Exit
from bytewise.cli.labels import warn
from bytewise.cli.terminal import plain
from bytewise.protocol.compare import DivergenceClass
from bytewise.protocol.messages import Verdict
from bytewise.protocol.units import Digest, hex0x

MEANING = {
    DivergenceClass.TOKEN: "the text was altered after the computation, or could come from none",
    DivergenceClass.SAMPLER: "the right model ran, under another seed or other decoding settings",
    DivergenceClass.MODEL: "another model ran, or another prompt was answered",
    DivergenceClass.LENGTH: "the answer ends elsewhere",
    DivergenceClass.STOP: "the tokens are right; the finish reason, the counts or the blind are not",
    DivergenceClass.TRACE: "the answer is right, but the receipt commits to another computation",
}
_VERDICTS = {verdict: verdict.name.lower() for verdict in Verdict} | {Verdict.NONE: "running"}
_COLOURS = {Exit.OK: "bold green", Exit.MISMATCH: "bold red"}


def as_json(identifier: Digest, checks: list[Check], standing: Standing | None, outcome: Rerun | None, end: Conclusion) -> str:
    """One JSON object; `exit_code` repeats the process's."""
    value: dict[str, Any] = {
        "receipt_id": hex0x(identifier),
        "result": end.word,
        "exit_code": int(end.exit),
        "reason": end.reason,
        "checks": [check._asdict() for check in checks],
        "divergence": None,
        "assurance": None if standing is None else standing.assurance,
        "chain": None,
    }
    if outcome is not None and outcome.divergence is not None:
        where = outcome.divergence
        value["divergence"] = {
            "position": where.position, "kind": where.kind.value, "expected": where.expected, "claimed": where.claimed,
            "gap": where.gap,
        }  # fmt: skip
    if standing is not None:
        verdict = None if standing.dispute is None else Verdict(standing.dispute.verdict).name
        value["chain"] = {"final": standing.final, "verdict": verdict, "audits": standing.audits}
    return json.dumps(value, indent=2)


def show(
    console: Console, identifier: Digest, checks: list[Check], standing: Standing | None, outcome: Rerun | None, end: Conclusion
) -> None:
    """Prints the checks, what the chain says, and the conclusion."""
    table = Table(title=f"receipt {hex0x(identifier)[:18]}…", title_justify="left")
    for heading in ("check", "result", "detail"):
        table.add_column(heading)
    for check in checks:
        table.add_row(check.name, Text(check.result, style="green" if check.result == PASS else "red"), plain(check.detail))
    if standing is not None:
        told = ", ".join(f"{count} {name}" for name, count in standing.audits.items())
        verdict = "none" if standing.dispute is None else _VERDICTS[Verdict(standing.dispute.verdict)]
        table.add_row("audits posted", "", told)
        table.add_row("dispute", "", verdict)
        table.add_row("final on-chain", "", "yes" if standing.final else "no")
    console.print(table)
    if outcome is not None and outcome.divergence is not None:
        where = outcome.divergence
        console.print(Text(f"first divergence: token {where.position} ({where.kind.value}): {MEANING[where.kind]}"))
        console.print(Text(f"  re-execution: {where.expected} {outcome.expected_text!r}"))
        console.print(Text(f"  receipt:      {where.claimed} {outcome.claimed_text!r}"))
        if where.gap is not None:
            console.print(Text(f"  the model's best logit is {float(where.gap):.6g} above its second"))
    console.print(plain(f"{end.word}: {end.reason}", _COLOURS.get(end.exit, "bold yellow")))
    if standing is not None:
        warn(console, standing.assurance)
