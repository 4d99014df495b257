"""What a stranger can read of a network with an RPC address and the address book: receipts, verdicts, money.

Plain JSON data: amounts in wei as decimal strings, digests as 0x-hex. Everything is read at one block.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from bytewise.cli.quotes import attested_passes, registered_policy
from bytewise.protocol.dispute import Dispute, Member, Snapshot
from bytewise.protocol.evidence import AppraisalPolicy
from bytewise.protocol.ledger import Charge, Ending
from bytewise.protocol.messages import AuditOutcome, AuditResult, Outcome, Verdict
from bytewise.protocol.network import Network
from bytewise.protocol.receipt import BatchHeader
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest, hex0x
from chain.history import ChainHistory, Commitment, Opening
from chain.reader import ChainReader

CHARGES = {1: "absent", 2: "not revealed", 3: "wrong", 4: "cannot execute"}
"""`MemberCharged.reason`."""


def collect(reader: ChainReader) -> dict[str, Any]:
    """The whole public state at the newest block."""
    block, first = reader.head(), reader.network.deploy_block
    history = ChainHistory(reader)
    snapshot = reader.snapshot(reader.network.addresses.disputes, block)
    batches = reader.batches(first, block)
    audits = [result for result, _ in reader.audits(first, block)]
    endings = history.endings(first, block)
    money = reader.money(block)
    return {
        "chain_id": reader.network.chain_id,
        "block": block,
        "timestamp": snapshot.timestamp,
        "batches": [_batch(each, snapshot) for each in batches],
        "receipts": _receipts(audits, snapshot.disputes),
        "disputes": _disputes(reader, snapshot, history, endings, block),
        "accounts": _accounts(reader, history, snapshot, block),
        "money": {name: str(getattr(money, name)) for name in money.__dataclass_fields__},
        "money_sums": money.sums and all(ending.sums for ending in endings),
    }


def _batch(header: BatchHeader, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "batch": header.batch_id,
        "operator": header.operator,
        "first_seq": header.first_seq,
        "count": header.count,
        "anchored_at": header.anchored_at,
        "window_over": snapshot.timestamp > header.anchored_at + snapshot.params.window_s,
    }


def _receipts(audits: Sequence[AuditResult], disputes: Sequence[Dispute]) -> list[dict[str, Any]]:
    """Receipts that the chain names: audited or disputed ones."""
    verdicts = {dispute.receipt_id: Verdict(dispute.verdict) for dispute in disputes}
    named = dict.fromkeys([*(audit.receipt_id for audit in audits), *verdicts])
    found = []
    for identifier in named:
        auditors = {audit.verifier: AuditOutcome(audit.result).name.lower() for audit in audits if audit.receipt_id == identifier}
        results = Counter(auditors.values())
        verdict = verdicts.get(identifier)
        said = {outcome.name.lower(): results[outcome.name.lower()] for outcome in AuditOutcome}
        found.append({
            "receipt": hex0x(identifier), "audits": said, "auditors": auditors,
            "verdict": None if verdict is None else verdict.name,
        })  # fmt: skip
    return found


def _disputes(
    reader: ChainReader, snapshot: Snapshot, history: ChainHistory, endings: Sequence[Ending], block: int
) -> list[dict[str, Any]]:
    first = reader.network.deploy_block
    votes = _Votes(
        history.commitments(first, block), history.openings(first, block), history.charges(first, block),
        registered_policy(history, snapshot.policy, block), reader.network,
    )  # fmt: skip
    money = {ending.dispute: ending for ending in endings}
    return [_dispute(each, votes, money.get(each.id)) for each in snapshot.disputes]


class _Votes(NamedTuple):
    """What the chain says of seats."""

    commitments: Sequence[Commitment]
    openings: Sequence[Opening]
    charges: Sequence[Charge]
    policy: AppraisalPolicy | None
    network: Network


def _dispute(dispute: Dispute, votes: _Votes, ending: Ending | None) -> dict[str, Any]:
    return {
        "dispute": hex0x(dispute.id),
        "receipt": hex0x(dispute.receipt_id),
        "operator": dispute.operator,
        "challenger": dispute.challenger,
        "round": dispute.round,
        "seats": dispute.seats,
        "verdict": Verdict(dispute.verdict).name,
        "claimed": hex0x(dispute.claimed_out_hash),
        "replacement": None if dispute.replacement == ZERO_DIGEST else hex0x(dispute.replacement),
        "members": [_member(dispute, member, votes) for member in dispute.members],
        "money": None if ending is None else _ending(ending),
    }


def _member(dispute: Dispute, member: Member, votes: _Votes) -> dict[str, Any]:
    where = (dispute.id, dispute.round, member.voter)
    opened = next((o for o in votes.openings if (o.vote.dispute, o.vote.round, o.vote.voter) == where), None)
    paid = [c for c in votes.charges if (c.dispute, c.round, c.voter) == where]
    return {
        "voter": member.voter,
        "seats": member.seat_mask.bit_count(),
        "commitments": sum((c.dispute, c.round, c.voter) == where for c in votes.commitments),
        "commitment": hex0x(member.commitment),
        "revealed": member.revealed,
        "outcome": Outcome(member.outcome).name if member.revealed else None,
        "out_hash": hex0x(member.out_hash) if member.revealed else None,
        "tokens_hash": None if opened is None else hex0x(opened.vote.tokens_hash),
        "attested_passes": None if opened is None else attested_passes(votes.policy, votes.network, dispute.receipt_id, opened),
        "charged": {CHARGES.get(c.reason, str(c.reason)): str(c.amount_wei) for c in paid},
    }


def _ending(ending: Ending) -> dict[str, str]:
    return {name: str(getattr(ending, name)) for name in ending.__dataclass_fields__ if name.endswith("_wei")}


def _accounts(reader: ChainReader, history: ChainHistory, snapshot: Snapshot, block: int) -> list[dict[str, str]]:
    roles: dict[Address, str] = dict.fromkeys(history.operators(block), "operator")
    roles |= {account: "verifier" for account, _ in snapshot.verifiers}
    for dispute in snapshot.disputes:
        roles.setdefault(dispute.challenger, "challenger")
    return [
        {
            "account": account,
            "role": role,
            "stake_wei": str(reader.stake(account, block)),
            "credit_wei": str(reader.credit(account, block)),
            "balance_wei": str(reader.balance(account, block)),
        }
        for account, role in roles.items()
    ]


def short(identifier: str | Digest) -> str:
    """First eight hex digits of an identifier, for tables."""
    text = identifier if isinstance(identifier, str) else hex0x(identifier)
    return text[2:10]
