"""Prints the results of `bytewise key log`: as plain JSON data, or as tables for people."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bytewise.protocol.address_book import DealtShares
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import RELEASES, Decision
from bytewise.protocol.keys.release_log import SignedRelease
from bytewise.protocol.records.statements import TicketKind
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import Address, Digest, hex0x
from cli.key.log_audit import ShardLogAudit
from cli.output import OutputFormat, emit, moment, plain, print_warning
from kms.release_log.opening_report import OpeningReport, ReportedRelease, SharesHistory

_NO_TICKET = "the shards kept no ticket"


def print_found(record: EpochRecord, found: list[ShardLogAudit], failure: str, output: OutputFormat) -> None:
    """Prints the findings about each shard of a key epoch, and the epoch's assurance label. `failure` is the reason why no
    release could be judged, or empty."""
    rows = [{**_row_of(each), "assurance": record.assurance} for each in found]
    emit(output, rows, lambda: _print_rows(record, rows))
    if failure:
        Console(stderr=True).print(plain(f"no right was judged: {failure}", "yellow"), soft_wrap=True)


def print_progress(audit: ShardLogAudit) -> None:
    """Prints the findings about one shard to standard error, so that the user sees them while the command reads the next
    shards."""
    console, row = Console(stderr=True), _row_of(audit)
    console.print(f"looked at shard {row['shard']}, {row['address']}: {row['records']} records", style="dim", soft_wrap=True)
    for line, style in _lines(row):
        console.print(plain(f"  {line}", style), soft_wrap=True)


def _print_rows(record: EpochRecord, rows: list[dict[str, Any]]) -> None:
    title = f"release logs of key epoch {record.epoch}, assurance {record.assurance}"
    # Cells fold and have no padding, so that a terminal of 80 columns cuts off no text, for example no date in the column
    # "newest".
    console, table = Console(), Table(title=title, title_justify="left", padding=0)
    headings = ("shard", "versions", "records", "released", "refused", "without ticket", "without grounds", "newest")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "newest" else "right", overflow="fold")
    for row in rows:
        newest = moment(row["newest"]) if row["newest"] else ""
        cells = {**row, "versions": ", ".join(map(str, row["versions"])), "newest": newest}
        table.add_row(*(str(cells[each.replace(" ", "_")]) for each in headings))
    console.print(table)
    for row in rows:
        for line, style in _lines(row):
            console.print(plain(line, style), soft_wrap=True)
    print_warning(console, record.assurance)


def _lines(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    shard = f"former shard {row['shard']}, {row['address']}," if row["former"] else f"shard {row['shard']}"
    for line in row["broken"]:
        yield f"{shard}: {line}", "red"
    if row["unusable"]:
        yield f"{shard} could not be looked at: {row['unusable']}", "red"
    for reason, count in row["unjudged"].items():
        yield f"{shard} has {count} releases that were not judged: {reason}", "yellow"
    if row["failure"]:
        yield f"{shard} was not judged to the end: {row['failure']}", "yellow"
    if row["undated"]:
        records = ", ".join(map(str, row["undated"]))
        yield f"{shard}: whether records {records} came in time is not judged: that takes an archive node", "yellow"
    if row["silent"] and not row["former"]:
        yield f"{shard} shows no log: {row['silent']}", "yellow"
    elif row["untold"]:
        versions = ", ".join(map(str, row["untold"]))
        yield f"{shard} shows no log: what it released of version {versions} cannot be told: {row['silent']}", "yellow"


class Subject(NamedTuple):
    """The key epoch of a report about a receipt."""

    epoch: int
    """Number of the key epoch."""
    assurance: str
    """Assurance label of the key epoch."""
    history: SharesHistory
    """The shards that hold each version of the epoch's shares."""
    asked: bool
    """True if the holders come from the chain, False if they come from the address book."""


def print_report(receipt: Digest, subject: Subject, report: OpeningReport, output: OutputFormat) -> None:
    """Prints which voters could open one receipt, then the release records of the receipt, the oldest first, and last the holders
    of each version of the shares."""
    rebuilt, history = is_rebuilt(subject.epoch), subject.history
    about: dict[str, Any] = {
        "receipt": hex0x(receipt), "epoch": subject.epoch, "assurance": subject.assurance,
        "opened": report.opened, "untold": report.is_unknown,
        "openable_together": any(each.is_joint for each in report.reaches),
        "key_given_to": list(dict.fromkeys(voter for each in report.reaches for voter in each.openers)) if rebuilt else [],
        "holders_from": "chain" if subject.asked else "network.json", "strangers": list(report.unknown_shards),
        "shares": [_shares_entry(history, report, each) for each in history.versions],
        "openings": list(_openings(report)), "records": [_record_entry(each) for each in report.records],
    }  # fmt: skip
    emit(output, about, lambda: _print_records(about))


def _print_records(about: dict[str, Any]) -> None:
    console = Console()
    for line in (*_summary(about), *map(_opening_line, about["openings"])):
        console.print(plain(line, "bold"), soft_wrap=True)
    for each in about["records"]:
        console.print(plain(f"{moment(each['decided_at'])}  {_line(each)}"), soft_wrap=True)
    for each in about["shares"]:
        console.print(plain(_shares_line(each, about["holders_from"])), soft_wrap=True)
    print_warning(console, about["assurance"])


def _record_entry(entry: ReportedRelease) -> dict[str, Any]:
    signed, record = entry.signed, entry.signed.record
    return {
        "decided_at": record.decided_at,
        "shard": entry.place,
        "address": record.shard,
        "version": None if entry.shares is None else entry.shares.version,
        "index": record.index,
        "decision": Decision(record.decision).name.lower(),
        "voter": record.voter,
        "why": _why(signed),
        "ticket": hex0x(record.ticket_hash),
        "evidence": hex0x(record.evidence_hash),
        "enclave": _enclave(signed),
        "refusal": "" if signed.grounds is None else signed.grounds.grounds.refusal,
        "transport_key": hex0x(record.transport_key_hash),
    }


def _shares_entry(history: SharesHistory, report: OpeningReport, shares: DealtShares) -> dict[str, Any]:
    reach = report.reach(shares)
    return {
        "version": shares.version,
        "since": shares.since,
        "until": history.superseded_at(shares),
        "threshold": shares.threshold,
        "holders": [each.address for each in shares.holders],
        "released": reach.released,
        "released_to": list(reach.given),
        "opened": bool(reach.openers),
        "openable_together": reach.is_joint,
        "unread": list(reach.missing_logs),
        "untold": reach.is_unknown,
    }


def _enclave(signed: SignedRelease) -> dict[str, Any] | None:
    """Returns the facts about the enclave that the shard stored with its record. Returns None for a record of an older version of
    the shard program, which stored no such facts."""
    if signed.grounds is None:
        return None
    grounds = signed.grounds.grounds
    return {
        "assurance": grounds.evidence.assurance,
        "platform": grounds.platform.value,
        "measurement": hex0x(grounds.measurement),
        "tcb": grounds.status.value,
        "gpu": grounds.gpu.value,
        "policy": grounds.policy,
    }


def _line(each: dict[str, Any]) -> str:
    reason, enclave = f" ({each['refusal']})" if each["refusal"] else "", each["enclave"]
    found = "the shard kept nothing of it" if enclave is None else ", ".join(f"{name} {enclave[name]}" for name in enclave)
    shard = f"shard {each['shard']}" if each["shard"] else each["address"]
    return f"{shard} {each['decision']}{reason} to {each['voter']}, evidence {each['evidence']}: {found}"


def _why(signed: SignedRelease) -> str:
    if signed.right is None:
        return _NO_TICKET
    ticket = signed.right.ticket
    if ticket.kind == TicketKind.AUDIT.value:
        return "light audit"
    if ticket.kind != TicketKind.DISPUTE.value:
        return f"ticket of unknown kind {ticket.kind}"
    return f"round {ticket.round} of dispute {hex0x(ticket.subject)}"


def _openings(report: OpeningReport) -> Iterator[dict[str, Any]]:
    # Partials are sealed to the enclave that asked. Partials under several tickets of one voter count together. Partials of
    # several voters count together only if the voters collude. Partials with shares of two versions never count together.
    known = [each for each in report.records if each.shares is not None]
    for ticket, voter, version in dict.fromkeys(map(_key, known)):
        same = [each for each in known if _key(each) == (ticket, voter, version)]
        reach = next(each for each in report.reaches if each.shares.version == version)
        given = sorted({each.place for each in same if each.is_released})
        opened = bool(given) and voter in reach.openers
        untold = not opened and len(reach.given.get(voter, set()) | set(reach.missing_logs)) >= reach.shares.threshold
        share = any(each.signed.record.decision == Decision.SHARE_RELEASED.value for each in same)
        why = next((why for why in map(_why, (each.signed for each in same)) if why != _NO_TICKET), _NO_TICKET)
        yield {
            "ticket": hex0x(ticket), "voter": voter, "why": why, "version": version, "threshold": reach.shares.threshold,
            "shards": given, "opened": opened, "untold": untold, "rebuilt": share and opened,
        }  # fmt: skip


def _key(entry: ReportedRelease) -> tuple[Digest, Address, int]:
    record = entry.signed.record
    return record.ticket_hash, record.voter, -1 if entry.shares is None else entry.shares.version


def _opening_line(each: dict[str, Any]) -> str:
    word = "cannot tell whether it was opened" if each["untold"] else "not opened"
    if each["opened"]:
        word = "key of the epoch rebuilt" if each["rebuilt"] else "opened"
        word += " together with other tickets of the same voter" if len(each["shards"]) < each["threshold"] else ""
    of = f"shards {each['shards']} of version {each['version']} released, {each['threshold']} are needed"
    return f"{word} by {each['voter']}: {each['why']}; {of}"


def _summary(about: dict[str, Any]) -> Iterator[str]:
    # The sentences about the receipt that do not depend on a voter.
    if about["key_given_to"]:
        owners = ", ".join(about["key_given_to"])
        yield f"the epoch's key was given to {owners}: it opens every receipt of key epoch {about['epoch']}"
    for each in about["shares"]:
        if each["openable_together"] and not about["opened"]:
            seats = f"{', '.join(each['released_to'])}; shards {each['released']} of version {each['version']} released to them"
            yield f"could be opened if these seats worked together: {seats}"
        if each["untold"] and not about["opened"]:
            until = "" if each["until"] is None else f" until {moment(each['until'])}"
            gap = f"nobody here has the logs{until} of shards {each['unread']}, and {each['threshold']} open"
            yield f"whether it was opened with shares of version {each['version']} cannot be told: {gap}"
    if about["strangers"] and not about["opened"]:
        which, ask = ", ".join(about["strangers"]), "ask with --rpc, or get the newest book"
        gap = f"{which} released, and {about['holders_from']} names no shares of theirs"
        yield f"whether it was opened cannot be told: {gap}: {ask}"
    if not about["records"]:
        yield f"no copy has a record of receipt {about['receipt']} in key epoch {about['epoch']}"


def _shares_line(each: dict[str, Any], source: str) -> str:
    until = "" if each["until"] is None else f" until {moment(each['until'])}"
    since = f" from {moment(each['since'])}" if each["since"] else ""
    holders = ", ".join(f"{index} {address}" for index, address in enumerate(each["holders"], start=1))
    return f"shares of version {each['version']}{since}{until}, {each['threshold']} open (by {source}): {holders}"


def _row_of(audit: ShardLogAudit) -> dict[str, Any]:
    """Returns the findings about one shard as plain JSON data."""
    entries = audit.copy.entries
    released = sum(each.record.decision in RELEASES for each in entries)
    return {
        "shard": audit.place,
        "address": audit.copy.shard,
        "versions": audit.versions,
        "former": audit.former,
        "records": len(entries),
        "released": released,
        "refused": len(entries) - released,
        "without_ticket": sum(each.right is None for each in entries),
        "without_grounds": sum(each.grounds is None for each in entries),
        "newest": audit.copy.newest,
        "broken": [*audit.broken, *audit.findings.wrong],
        "silent": audit.silent,
        "unusable": audit.unusable,
        "untold": audit.unknown_versions,
        "unjudged": {why.value: count for why, count in audit.findings.unjudged.items()},
        "failure": audit.findings.failure,
        "undated": audit.findings.undated,
    }
