"""Reads the state of a node that `bytewise status` shows, as plain data. Amounts are in wei, digests are 0x-hex, and times are in
seconds of the protocol clock."""

from collections import Counter
from dataclasses import replace
from typing import Any

from bytewise.protocol.attention.score import ScoredTest, score_tests
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.units import hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.readiness import Check
from bytewise.storage.archive import LightAudits
from bytewise.storage.duties import PENDING, Duties
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.outbox import OPEN, Outbox, OutboxState
from bytewise.storage.protection import Protection
from chain.reads.attention import read_reveal, scored_range
from chain.reads.earnings import Earnings, earnings
from chain.reads.history import CourtHistory
from cli.attention.score import account_row
from cli.node.checks import chain as chain_checks
from cli.node.checks import host as host_checks
from cli.node.checks import shard as shard_checks
from cli.node.doctor import checked
from cli.node.roles import JUDGES, NodeRole
from cli.node.view import CheckOfNode, NodeView
from dashboard.monitor.settings import MonitorSettings
from dashboard.monitor.wiring import Monitor, MonitorReport
from verifier.settings import NodeSettings

SENT = {
    OutboxState.CONFIRMED: "transactions confirmed",
    OutboxState.FINAL: "transactions final",
    OutboxState.REVERTED: "transactions reverted",
}
"""Names under which the state counts transactions that are in a block, by their state in the outbox."""


def node_state(view: NodeView) -> dict[str, Any]:
    """Reads the whole state of a node that is not a monitor. If a part cannot be read, its numbers are zero or empty, and the
    list of problems names it."""
    process, problems = _health(view)
    found = _of_chain(view, problems)
    found |= _of_database(view, problems, found["clock"])
    found |= {"attention": _of_attention(view)}
    return found | _summary(view, process, problems)


def node_health(view: NodeView) -> dict[str, Any]:
    """Reads whether a node is healthy, with all problems. Unlike `node_state` it reads no history of the chain, so it stays fast
    on an old network."""
    return _summary(view, *_health(view))


def _health(view: NodeView) -> tuple[Check, list[Check]]:
    """Runs the checks of a node. Returns the check whether its process runs, and all checks that fail."""
    _ = view.settings
    problems = [check for check in (checked(each, view) for each in _vital_checks(view)) if not check.ok]
    process = _process(view)
    return process, problems if process.ok else [process, *problems]


def _summary(view: NodeView, process: Check, problems: list[Check]) -> dict[str, Any]:
    return {
        "role": view.role, "chain_id": view.network.chain_id, "account": view.account, "process": process.value,
        "healthy": not problems, "problems": [each.document() for each in problems],
    }  # fmt: skip


def _vital_checks(view: NodeView) -> tuple[CheckOfNode, ...]:
    """Returns the checks of `bytewise doctor` that may begin to fail while a node runs."""
    role = view.role
    staked = (chain_checks.registration, chain_checks.stake) if role in (*JUDGES, NodeRole.OPERATOR) else ()
    own = () if role is NodeRole.SHARD else (host_checks.lease, host_checks.da)
    paying = (chain_checks.balance,) if role not in (NodeRole.SHARD, NodeRole.MONITOR) else ()
    enclave = (host_checks.enclave_answers, host_checks.measurement_approved) if role in JUDGES else ()
    judging = (chain_checks.registered_measurement,) if role in JUDGES else ()
    other = {NodeRole.OPERATOR: (chain_checks.serving,), NodeRole.SHARD: (shard_checks.share, shard_checks.policy)}.get(role, ())
    return (host_checks.database, host_checks.disk, *own, chain_checks.head_age, *staked, *judging, *paying, *other, *enclave)


def _process(view: NodeView) -> Check:
    """Checks that the node runs. A shard must answer at its port. For other roles a process must have the account's nonce lease,
    which a running node renews all the time."""
    advice = "Start it: `bytewise run`."
    if view.role is NodeRole.SHARD:
        return shard_checks.process(view)
    try:
        until = NonceLease(view.database, SystemClock(), view.network.chain_id, view.account).leased_until()
    except BytewiseError as error:
        return Check("process", False, str(error), "a running process", advice)
    left = until - SystemClock().now()
    return Check("process", left > 0, "running" if left > 0 else "not running", "a running process", advice)


def _of_chain(view: NodeView, problems: list[Check]) -> dict[str, Any]:
    empty = {
        "block": 0, "balance_wei": 0, "worst_case_wei": 0, "credit_wei": 0, "stake_wei": 0, "credited_wei": {}, "paid_wei": {},
        "net_wei": 0, "seats": [], "clock": 0,
    }  # fmt: skip
    try:
        head, account = view.head, view.account
        history, first = CourtHistory(view.reader), int(view.network.deploy_block)
        snapshot = view.reader.snapshot(account, head, view.reader.opened(first, head))
        sums: Earnings = earnings(history, account, first, head)
        worst = 0 if view.role is NodeRole.SHARD else chain_checks.worst_case_wei(view)
    except BytewiseError as error:
        problems.append(Check("chain", False, str(error), "an answer", "Is the node up, and is [chain] right?"))
        return empty
    return {
        "block": head, "balance_wei": snapshot.me.balance_wei, "worst_case_wei": worst, "credit_wei": snapshot.me.credit_wei,
        "stake_wei": snapshot.me.stake_wei, "credited_wei": sums.credited, "paid_wei": sums.paid, "net_wei": sums.net_wei,
        "seats": _seats(view, snapshot), "clock": snapshot.clock,
    }  # fmt: skip


def _seats(view: NodeView, snapshot: Snapshot) -> list[dict[str, Any]]:
    return [
        {"dispute": hex0x(case.id), "round": case.round, "phase": case.phase.name, "seats": mine.seat_mask.bit_count()}
        for case in snapshot.disputes
        for mine in [case.seat_of(view.account)]
        if mine is not None and case.phase is not Phase.FINAL
    ]


def _of_database(view: NodeView, problems: list[Check], now: int) -> dict[str, Any]:
    if view.role is NodeRole.SHARD:
        return {"did": {}, "due": _due_of_shard(view, problems)}
    try:
        clock = SystemClock()
        lease = NonceLease(view.database, clock, view.network.chain_id, view.account)
        duties, sent, audits = Duties(view.database, clock).all(), Outbox(lease).all(), LightAudits(view.database, clock).audits()
        votes = Protection(view.database, clock).rows()
    except BytewiseError as error:
        problems.append(Check("database", False, str(error), "readable", "Look at [db]."))
        return {"did": {}, "due": []}
    states = Counter(each.state for each in sent)
    did = {"votes signed": len(votes), "audits signed": sum(each.result is not None for each in audits)}
    did |= {f"{each.lower()} duties": count for each, count in Counter(each.state for each in duties).items()}
    did |= {words: states[state] for state, words in SENT.items()}
    did |= {"transactions under way": sum(states[each] for each in OPEN)}
    due = sorted((each.deadline, each.kind, hex0x(each.subject)) for each in duties if each.state == PENDING)
    due += sorted((each.deadline, "audit", hex0x(each.receipt_id)) for each in audits if each.state == "PENDING")
    listed = [{"kind": kind, "subject": subject, "in_s": deadline - now} for deadline, kind, subject in due if deadline > now]
    return {"did": did, "due": listed}


def _due_of_shard(view: NodeView, problems: list[Check]) -> list[dict[str, Any]]:
    """Returns the next refresh of a shard's shares, as a list of future duties. Adds a problem to `problems` if the shares are
    too old, or if the chain cannot be read."""
    found = checked(shard_checks.share_age, view)
    if not found.ok:
        problems.append(found)
        return []
    try:
        return shard_checks.next_refresh(view)
    except BytewiseError:  # the check above read the chain and passed, so this error is not reported as a problem
        return []


def _of_attention(view: NodeView) -> dict[str, Any]:
    """Scores the node in revealed attention tests. `refused` in the result names each file that cannot be scored, with the
    reason, for example because it proves nothing or because its range is not over."""
    settings = view.settings
    folder = settings.attention.folder if isinstance(settings, NodeSettings) and settings.attention is not None else None
    records: list[ScoredTest] = []
    refused: dict[str, str] = {}
    ranges = 0
    for path in [] if folder is None else sorted(folder.glob("*.json")):
        try:
            records += scored_range(view.reader, read_reveal(path), only=view.account).records
            ranges += 1
        except BytewiseError as error:
            refused[path.name] = str(error)
    if folder is not None and not folder.is_dir():
        refused[folder.name] = "is no folder: make it, or correct [attention]"
    score = score_tests(records, [view.account])[view.account] if records else None
    return {
        "ranges": ranges, "tests": len(records), "unproven": sum(each.is_false is None for each in records),
        "score": None if score is None else account_row(view.account, score), "refused": refused,
    }  # fmt: skip


# --- a monitor ---


def monitor_state(view: NodeView) -> dict[str, Any]:
    """Reads the whole state of a monitor. It only reads the monitor's index, because the running monitor writes it."""
    settings = view.settings
    assert isinstance(settings, MonitorSettings), "the role says so"
    problems = [check for check in (checked(each, view) for each in _CHECKS_OF_MONITOR) if not check.ok]
    ports = host_checks.ports(view)
    process = Check("process", "in use" in ports.value, f"ports {ports.value}", "a running process", "Start it: `bytewise run`.")
    if not process.ok:
        problems.insert(0, process)
    report = _monitor_report(settings, problems)
    return {
        "role": view.role, "chain_id": view.network.chain_id, "account": None, "process": process.value, "block": report.block,
        "healthy": not problems, "problems": [each.document() for each in problems],
        "invariants": [each.document() for each in report.results],
    }  # fmt: skip


_CHECKS_OF_MONITOR = (host_checks.database, host_checks.disk, chain_checks.head_age)
"""The checks of `bytewise doctor` that may begin to fail while a monitor runs."""


def _monitor_report(settings: MonitorSettings, problems: list[Check]) -> MonitorReport:
    try:
        return Monitor(replace(settings, follow=False)).look()
    except BytewiseError as error:
        problems.append(Check("index", False, str(error), "an index", "Start the monitor, which makes it: `bytewise run`."))
        return MonitorReport(-1, "", ())
