"""Writes the report on a capsule as one HTML page for paper (`bytewise capsule print`). The page has no scripts and fetches
nothing."""

import base64
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from bytewise.protocol.digests import sha256
from bytewise.protocol.keys.epochs import Decision
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import hex0x
from chain.capsule.conclusion import conclude, preflight_of
from chain.capsule.report import CapsuleReport, Group
from chain.capsule.schema import CertifiedVote, RevealedVote
from cli.output import printable

_STYLE = """
@page { size: A4; margin: 20mm 15mm 22mm; }
@page { @bottom-right { content: counter(page) " of " counter(pages); font: 8pt sans-serif; } }
:root { color-scheme: light; }
body { max-width: 48rem; margin: 2rem auto; padding: 0 1rem; background: #fff; color: #111;
  font: 1rem/1.5 system-ui, "Liberation Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 2px solid #111; break-after: avoid; }
p, li { max-width: 44rem; }
.word { border: 3px double #111; padding: .75rem 1rem; }
.word strong { font-size: 1.3rem; letter-spacing: .05em; }
.running { font-size: .8rem; color: #333; margin: 0 0 .5rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { border: 1px solid #777; padding: .3rem .5rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
thead { display: table-header-group; }
tr { break-inside: avoid; }
code { font: .85em/1.4 ui-monospace, "Liberation Mono", monospace; overflow-wrap: anywhere; }
@media print { body { margin: 0; padding: 0; max-width: none; font-size: 10pt; } h1 { font-size: 16pt; } }
"""

LAST_SECOND = 253_402_300_799
"""The last second of the year 9999, as Unix time."""

_MEANING = {
    "VALID": "every proof holds",
    "INVALID": "a proof does not hold",
    "UNVERIFIABLE": "it holds under the conditions below",
}


def report_page(report: CapsuleReport) -> str:
    """Returns a capsule's report as an HTML page. Its order is conclusion, conditions, limits, facts, votes, release records,
    journals, checks, completeness. If the capsule is invalid, facts, votes, records and journals are left out."""
    end = conclude(report)
    # If one proof of a capsule does not hold, the page shows no claim of that capsule as proven.
    opened = [] if end.word == "INVALID" else [_facts(report), _votes(report), _releases(report), _journals(report)]
    sections = [*opened, _checks(report), _completeness(report)]
    running = _running(report, end.word)
    body = [
        f"<header><h1>Evidence capsule: {_text(end.word)}</h1>{running}"
        f'<p class="word"><strong>{_text(end.word)}</strong>: {_text(_MEANING[end.word])}.</p></header>',
        _list("What it shows", end.shows),
        _list("On what this rests" if end.shows else "Why", end.conditions or ("The reader named the network and its block.",)),
        _list("What it does not show", end.limits),
        *(f"{each}{running}" for each in sections if each),
    ]
    style = base64.b64encode(sha256(_STYLE.encode())).decode()
    policy = f"default-src 'none'; style-src 'sha256-{style}'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Evidence capsule: {_text(end.word)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _running(report: CapsuleReport, word: str) -> str:
    """Returns the line below the header and every section from the facts on: the result, the assurance, and the hash of the
    capsule's file. So each part of a printed report names its capsule."""
    label = "" if report.facts is None else f" · evidence of the machines: {report.facts.assurance.upper()}"
    return f'<p class="running">{_text(word)}{_text(label)} · capsule SHA-256 {_hash(hex0x(report.digest))}</p>'


def _list(title: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{_text(each)}</li>" for each in lines)
    return f"<section><h2>{_text(title)}</h2><ul>{items}</ul></section>" if lines else ""


def _facts(report: CapsuleReport) -> str:
    """Returns the section of facts: the capsule's claims, and the facts that its proofs show. Returns an empty text if the report
    has no capsule or no facts."""
    capsule, facts = report.capsule, report.facts
    if capsule is None or facts is None:
        return ""
    claim, receipt = capsule.claim, capsule.receipt
    rows = [
        ("Receipt", _hash(hex0x(claim.receipt_id))),
        ("Operator", _hash(receipt.operator)),
        ("Number and batch", _text(f"{receipt.seq} in batch {capsule.membership.batch_id}")),
        ("Anchored", _text(f"{_moment(facts.batch.anchored_at)}, block {facts.batch.block}")),
        ("Model", _hash(hex0x(receipt.model_id))),
        ("Environment", _hash(hex0x(receipt.environment))),
        ("Claimed output", _hash(hex0x(claim.out_hash))),
        ("Verdict", _text(claim.verdict)),
        ("Replaced by", "nothing" if claim.replaced_by is None else _hash(hex0x(claim.replaced_by))),
        ("Accepted for good", "yes" if claim.accepted else _text(f"no: {facts.open_reason}")),
        ("Evidence of the machines", _text(claim.assurance.upper())),
        ("Dispute", _hash(hex0x(claim.dispute)) if capsule.rounds else "none"),
        ("Chain and block", _text(f"{claim.chain_id}, block {claim.block}")),
        ("Block hash", _hash(hex0x(claim.block_hash))),
        ("Deployment", _hash(hex0x(capsule.deployment.digest))),
    ]
    return f"<section><h2>Facts</h2>{_table('', ('Fact', 'Value'), rows)}</section>"


def _votes(report: CapsuleReport) -> str:
    capsule, facts = report.capsule, report.facts
    if capsule is None or facts is None or not facts.rounds or not report.passes(Group.VOTES):
        return ""
    tables = []
    for drawn, listed in zip(facts.rounds, capsule.rounds, strict=True):
        votes = {each.seat: each for each in listed.votes}
        rows = []
        for member in sorted(drawn.members, key=lambda each: each.mask & -each.mask):
            first = (member.mask & -member.mask).bit_length() - 1
            certified = listed.certificate if member.mask & drawn.certified else None
            rows.append((_hash(member.voter), str(member.mask.bit_count()), _said(votes.get(first) or certified)))
        caption = f"Round {drawn.number}: {drawn.seats} seats, {drawn.quorum} make a verdict"
        tables.append(_table(caption, ("Voter", "Seats", "Vote"), rows))
    return f"<section><h2>Votes</h2>{''.join(tables)}</section>"


def _said(vote: RevealedVote | CertifiedVote | None) -> str:
    if vote is None:
        return "not revealed"
    outcome = Outcome(vote.outcome).name.lower().replace("_", " ")
    if Outcome(vote.outcome) is Outcome.EXECUTED:
        return f"{outcome}: tokens {_hash(hex0x(vote.tokens_hash))}, trace {_hash(hex0x(vote.trace_root))}"
    return _text(f"{outcome}, code {vote.code}" if vote.code else outcome)


def _releases(report: CapsuleReport) -> str:
    """Returns the section of release records: which accounts asked the key shards to open the receipt. Returns an empty text if
    there are no records or a check of them did not pass."""
    capsule, facts = report.capsule, report.facts
    if capsule is None or facts is None or not capsule.releases or not report.passes(Group.RELEASES):
        return ""
    rows = [
        (
            _hash(each.record.shard),
            _hash(each.record.voter),
            Decision(each.record.decision).name.lower().replace("_", " "),
            _moment(each.record.decided_at),
            str(each.record.index),
            _text(
                "; ".join(
                    ["no shard of the epoch now: anybody may have signed this"] * (each.record.shard not in facts.shards)
                    + ["no ticket"] * (each.right is None)
                )
            ),
        )
        for each in capsule.releases
    ]
    headings = ("Shard", "Asked by", "Decision", "Time, by the shard", "Record", "Remark")
    return f"<section><h2>Release records</h2>{_table('Who asked the key shards to open the receipt', headings, rows)}</section>"


def _journals(report: CapsuleReport) -> str:
    """Returns the section of journals: entries that nodes wrote about the receipt. Returns an empty text if there are no journals
    or a check of them did not pass."""
    if report.capsule is None or not report.capsule.journals or not report.passes(Group.JOURNALS):
        return ""
    headings = ("Entry", "Time, by the node", "Kind", "What it recorded")
    tables = [
        _table(
            f"Journal {i}: {part.keys.fingerprint.hex()}",
            headings,
            [(str(each.number), _moment(each.at), _text(each.kind), f"<code>{_text(each.body)}</code>") for each in part.entries],
        )
        for i, part in enumerate(report.capsule.journals, 1)
    ]
    return f"<section><h2>Journals</h2>{''.join(tables)}</section>"


def _checks(report: CapsuleReport) -> str:
    rows = [
        (
            _text(each.group.value),
            _text(each.result.value),
            _text(each.detail if each.failure is None else f"{each.failure}: {each.detail}"),
        )
        for each in report.checks
    ]
    return f"<section><h2>Checks</h2>{_table('', ('Check', 'Result', 'Detail'), rows)}</section>"


def _completeness(report: CapsuleReport) -> str:
    checklist = preflight_of(report)
    if checklist is None:
        return ""
    rows = [(_text(point.value), _text(mark.value)) for point, mark in checklist.marks]
    table = _table("", ("Point", "Result"), rows)
    return f"<section><h2>Completeness of the record</h2>{table}<p>It supports: {_text(checklist.claim)}.</p></section>"


def _table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{_text(each)}</th>' for each in headings)
    body = "".join(f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{each}</td>" for each in row[1:])}</tr>' for row in rows)
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _hash(text: str) -> str:
    """Formats 0x-hex in groups of four digits, so that it can be read aloud."""
    digits = text.removeprefix("0x")
    return f"<code>0x {' '.join(digits[i : i + 4] for i in range(0, len(digits), 4))}</code>"


def _moment(seconds: int) -> str:
    # The signer of a record chooses its time, so the time may be after the last date that Python can show.
    if seconds > LAST_SECOND:
        return f"{seconds} s"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _text(text: str) -> str:
    return escape(printable(text))
