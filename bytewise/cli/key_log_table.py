"""What `bytewise kms log` tells: plain data, and tables for people."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bytewise.cli.labels import warn
from bytewise.cli.verify import Output
from bytewise.protocol.jobs import EpochRecord, ShardRecord
from bytewise.protocol.keys import GIVEN, Decision, SignedRelease
from bytewise.protocol.messages import TicketKind
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import Digest, hex0x

_LAST_YEAR = 253_402_300_799
"""Last second that a calendar of four-digit years can name: a shard may sign any number."""

_NO_TICKET = "the shards kept no ticket"
_SHARE = Decision.SHARE_RELEASED.name.lower()
_GIVEN = {Decision(each).name.lower() for each in GIVEN}


class Looked(NamedTuple):
    """What was found at one shard."""

    shard: ShardRecord
    """Which."""
    entries: tuple[SignedRelease, ...]
    """All that is kept of its log."""
    broken: list[str]
    """What is wrong with it, provably."""
    silent: str
    """Why it showed nothing; empty if it did."""


def told(shard: ShardRecord, signed: SignedRelease) -> dict[str, Any]:
    """A record as `print_story` tells it."""
    record = signed.record
    return {
        "decided_at": record.decided_at,
        "shard": shard.index,
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


def print_found(epoch: int, assurance: str, found: list[Looked], output: Output) -> None:
    """Prints what was found at each shard of a key epoch, and the epoch's label."""
    rows = [{**_row(each), "assurance": assurance} for each in found]
    if output is Output.JSON:
        print(json.dumps(rows, indent=2))
        return
    title = f"release logs of key epoch {epoch}, assurance {assurance}"
    console, table = Console(), Table(title=title, title_justify="left")
    for heading in ("shard", "records", "released", "refused", "without ticket", "without grounds", "newest"):
        table.add_column(heading, justify="left" if heading == "newest" else "right")
    for row in rows:
        table.add_row(
            *(str(row[each]) for each in ("shard", "records", "released", "refused", "without_ticket", "without_grounds")),
            _time(row["newest"]) if row["newest"] else "",
        )
    console.print(table)
    for row in rows:
        for line in row["broken"]:
            console.print(f"shard {row['shard']}: {line}", style="red", markup=False, soft_wrap=True)
        if row["silent"]:
            console.print(f"shard {row['shard']} shows no log: {row['silent']}", style="yellow", markup=False, soft_wrap=True)
    warn(console, assurance)


def print_story(
    receipt: Digest, record: EpochRecord, story: list[dict[str, Any]], good: list[dict[str, Any]], output: Output
) -> None:
    """Prints the records of one receipt, oldest first, and who opened it. `good`: all records of what opens it, `story` among
    them; where enclaves rebuild the key these are the epoch's."""
    reach, threshold = _reach(good), record.threshold
    openings, shards = list(_opened(story, reach, threshold)), _gave(good)
    owners = [voter for voter, got in reach.items() if is_rebuilt(record.epoch) and len(got) >= threshold]
    about = {
        "receipt": hex0x(receipt), "epoch": record.epoch, "assurance": record.assurance, "threshold": threshold,
        "key_given_to": owners, "opened": bool(owners) or any(each["opened"] for each in openings),
        "openable_together": len(shards) >= threshold, "shards": shards,
    }  # fmt: skip
    if output is Output.JSON:
        print(json.dumps({**about, "openings": openings, "records": story}, indent=2))
        return
    console = Console()
    for line in _summary(about, story, reach):
        console.print(line, style="bold", markup=False, soft_wrap=True)
    for each in openings:
        word = ("key of the epoch rebuilt" if each["rebuilt"] else "opened") if each["opened"] else "not opened"
        word += " together with other tickets of the same voter" if each["opened"] and len(each["shards"]) < threshold else ""
        of = f"shards {each['shards']} released, {threshold} are needed"
        console.print(f"{word} by {each['voter']}: {each['why']}; {of}", style="bold", markup=False, soft_wrap=True)
    for each in story:
        console.print(f"{_time(each['decided_at'])}  {_line(each)}", markup=False, soft_wrap=True)
    warn(console, record.assurance)


def _enclave(signed: SignedRelease) -> dict[str, Any] | None:
    """What the shard found of the enclave; None in records of before shards kept that."""
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
    return f"shard {each['shard']} {each['decision']}{reason} to {each['voter']}, evidence {each['evidence']}: {found}"


def _summary(about: dict[str, Any], story: list[dict[str, Any]], reach: dict[str, set[int]]) -> Iterator[str]:
    # What is to be said of the receipt itself, whoever asked for it.
    if about["key_given_to"]:
        owners = ", ".join(about["key_given_to"])
        yield f"the epoch's key was given to {owners}: it opens every receipt of key epoch {about['epoch']}"
    elif about["openable_together"] and not about["opened"]:
        yield f"could be opened if these seats worked together: {', '.join(reach)}; shards {about['shards']} released to them"
    if not story:
        yield f"no shard has a record of receipt {about['receipt']} in key epoch {about['epoch']}"


def _why(signed: SignedRelease) -> str:
    if signed.right is None:
        return _NO_TICKET
    ticket = signed.right.ticket
    if ticket.kind == TicketKind.AUDIT.value:
        return "light audit"
    if ticket.kind != TicketKind.DISPUTE.value:
        return f"ticket of unknown kind {ticket.kind}"
    return f"round {ticket.round} of dispute {hex0x(ticket.subject)}"


def _reach(good: list[dict[str, Any]]) -> dict[str, set[int]]:
    """Shards that gave each voter something."""
    reach: dict[str, set[int]] = {}
    for each in good:
        if each["decision"] in _GIVEN:
            reach.setdefault(each["voter"], set()).add(each["shard"])
    return reach


def _opened(story: list[dict[str, Any]], reach: dict[str, set[int]], threshold: int) -> Iterator[dict[str, Any]]:
    # What shards give is sealed to the enclave that asked: tickets of one voter add up, those of several only if these collude.
    for ticket, voter in dict.fromkeys((each["ticket"], each["voter"]) for each in story):
        same = [each for each in story if (each["ticket"], each["voter"]) == (ticket, voter)]
        given, key = _gave(same), any(each["decision"] == _SHARE for each in same)
        why = next((each["why"] for each in same if each["why"] != _NO_TICKET), _NO_TICKET)
        opened = bool(given) and len(reach[voter]) >= threshold
        yield {"ticket": ticket, "voter": voter, "why": why, "shards": given, "opened": opened, "rebuilt": key and opened}


def _gave(story: list[dict[str, Any]]) -> list[int]:
    return sorted({each["shard"] for each in story if each["decision"] in _GIVEN})


def _row(looked: Looked) -> dict[str, Any]:
    released = sum(each.record.decision in GIVEN for each in looked.entries)
    return {
        "shard": looked.shard.index,
        "address": looked.shard.address,
        "records": len(looked.entries),
        "released": released,
        "refused": len(looked.entries) - released,
        "without_ticket": sum(each.right is None for each in looked.entries),
        "without_grounds": sum(each.grounds is None for each in looked.entries),
        "newest": looked.entries[-1].record.decided_at if looked.entries else 0,
        "broken": looked.broken,
        "silent": looked.silent,
    }


def _time(seconds: int) -> str:
    if seconds > _LAST_YEAR:
        return f"{seconds} s"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
