"""Reads the public state of a network. Anybody can do this with the URL of a chain node and the address book.

The result is plain JSON data: amounts are decimal strings in wei, digests are 0x-hex. Everything is read at one block.
"""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bytewise.protocol.address_book import Network
from bytewise.protocol.assurance import HARDWARE
from bytewise.protocol.court.commitments import claim_of
from bytewise.protocol.court.params import BPS, ParamSet
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import SeatSettledEvent
from bytewise.protocol.decisions.audits import AuditStage, PostedAudit
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Dispute, Seat, Snapshot
from bytewise.protocol.digests import out_hash
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy
from bytewise.protocol.evidence.claims import ChainClaims, ResultStatement, differing_claims, named_evidence
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.records.statements import AuditOutcome, Outcome, Verdict
from bytewise.protocol.signing import Domain
from bytewise.protocol.suites import kind_of
from bytewise.protocol.units import U256, ZERO_ADDRESS, ZERO_DIGEST, Address, Digest, digest, hex0x, unhex
from bytewise.tee.appraisal import decode_result_quote, verify_result_quote
from chain.reads.history import ChainClaimHistory, CourtHistory, DisputeEndedEvent, RevealEvent
from chain.reads.reader import RegistryDocuments, SnapshotReader
from chain.reads.records import MoneyTotals


class Labels:
    """Reads assurance labels from the chain at one block: of key epochs, and of receipts by their key epoch.

    Each epoch is read once.
    """

    def __init__(self, reader: SnapshotReader, block: int) -> None:
        self._reader, self._block = reader, block
        self.of_epoch = functools.cache(self._of_epoch)

    def _of_epoch(self, epoch: int) -> str:
        return self._reader.epoch_on_chain(epoch, self._block).assurance

    def of_receipts(
        self, audits: Sequence[PostedAudit], disputes: Sequence[Dispute], batches: Sequence[BatchHeader]
    ) -> Mapping[Digest, str]:
        """Returns the label of each receipt that an audit or a dispute names. The label is empty if it is unknown.

        The contract accepts an audit result that names a wrong batch, but pays only results that name the receipt's batch.
        Therefore an unpaid audit cannot raise a label to `hardware` if the batches have different labels.
        """
        disputed = {each.receipt_id: self.of_epoch(int(each.key_epoch)) for each in disputes}
        audited: dict[Digest, dict[Address, int]] = {}
        for result, _, batch in audits:
            if result.receipt_id not in disputed:
                audited.setdefault(result.receipt_id, {})[result.verifier] = batch
        labels = {each.batch_id: self.of_epoch(int(each.key_epoch)) for each in batches}
        if len(set(labels.values())) == 1:
            # This is the usual case, and no receipt must be read.
            return dict.fromkeys(audited, next(iter(labels.values()))) | disputed
        return {receipt: self._of_audited(receipt, by, labels) for receipt, by in audited.items()} | disputed

    def _of_audited(self, receipt: Digest, named: Mapping[Address, int], labels: Mapping[int, str]) -> str:
        """Returns the label of the batch that a paid audit names.

        If no audit is paid, returns the label of a named batch that is not `hardware`, or an empty label if there is none. So
        nobody can make a receipt look like hardware by posting an audit for another batch.
        """
        weaker = sorted({labels[batch] for batch in named.values()} - {HARDWARE})
        for who, batch in named.items():
            if self._reader.audit_stage(receipt, batch, who, self._block) is AuditStage.PAID:
                return labels[batch]
        return weaker[0] if weaker else ""


# The next functions judge the result quote of a vote: they appraise it under the round's policy, and compare it with vote and
# chain.


def registered_policy(documents: RegistryDocuments, digest: Digest, block: int) -> AppraisalPolicy | None:
    """Returns the appraisal policy with this digest from the chain.

    Returns None if no policy is registered, or if the registered bytes have another digest.
    """
    try:
        policy = decode(AppraisalPolicy, documents.policy_document(digest, block))
    except BytewiseError:
        return None
    return policy if policy.digest == digest else None


class Quoted(NamedTuple):
    """Result of judging the published quote of a vote."""

    passes: int | None
    """Number of teacher-forced passes of the vote, as its enclave attests. It is None unless the finding is `holds`."""
    finding: str
    """`holds` if the quote is valid. Otherwise the flaw."""


HOLDS, NONE, ANOTHER = "holds", "none", "says another vote"
"""The fixed findings about a quote. Any other finding names the refusal, or the host claims that the chain contradicts."""


Policies = Callable[[Digest], AppraisalPolicy | None]
"""Function that returns the registered appraisal policy with a digest, even if it is not in force. It returns None if the chain
does not have the policy's bytes."""


def judged(
    policies: Policies, disputes: Domain, receipt_id: Digest, opening: RevealEvent, chain: ChainClaims, assurance: str
) -> Quoted:
    """Judges the published quote of a vote. Returns the finding, and the number of passes if the quote holds.

    The quote holds under three conditions. It is valid, it is for this vote, and every fact about the chain that the enclave
    took from its host is true. `assurance` is the chain's label of the receipt's key epoch; the evidence must have the same
    label. The quote is appraised under the policy that it names, if that policy was in force during the round. Later changes do
    not count.
    """
    if not opening.quote:
        return Quoted(None, NONE)
    try:
        quote = decode_result_quote(opening.quote)
        said, shown = quote.statement, named_evidence(quote.evidence).assurance
        if said.premises.policy in chain.policies:
            policy = policies(said.premises.policy)
            if policy is None:
                return Quoted(None, "no policy on the chain to judge it by")
            verify_result_quote(policy, opening.quote, disputes.chain_id)
    except BytewiseError as error:
        return Quoted(None, f"refused: {type(error).__name__}")
    vote = opening.vote
    expected = ResultStatement(
        U256(disputes.chain_id), disputes.contract, vote.dispute, vote.round, receipt_id, vote.voter, vote.outcome, vote.code,
        vote.tokens_hash, vote.trace_root, vote.round_digest, said.verify_passes, said.premises,
    )  # fmt: skip
    if said != expected:
        return Quoted(None, ANOTHER)
    if shown != assurance:
        return Quoted(None, f"{shown} evidence, and the key epoch is {assurance}")
    # A quote whose policy was not in force in the round is not appraised. The policy is then one of the contradicted claims, so
    # the quote does not hold.
    wrong = differing_claims(said.premises, chain)
    return (
        Quoted(None, f"rests on what the chain does not say: {', '.join(wrong)}") if wrong else Quoted(said.verify_passes, HOLDS)
    )


_Seat = tuple[Digest, int, Address]
"""Key of a member's seats: dispute, round and account."""


def collect(reader: SnapshotReader) -> dict[str, Any]:
    """Reads the whole public state at the newest block."""
    block, first = reader.head(), reader.network.deploy_block
    history, snapshot, labels = CourtHistory(reader), whole_snapshot(reader, block), Labels(reader, block)
    audits = reader.audits(first, block)
    batches = reader.batches(first, block)
    endings = history.endings(first, block)
    money = reader.money(block)
    return {
        "chain_id": reader.network.chain_id,
        "block": block,
        "timestamp": snapshot.timestamp,
        "clock": snapshot.clock,
        "batches": [_batch(each, snapshot, labels) for each in batches],
        "receipts": _receipts(audits, snapshot.disputes, labels.of_receipts(audits, snapshot.disputes, batches)),
        "disputes": _disputes(reader, snapshot, endings, labels),
        "accounts": _accounts(reader, snapshot),
        "pools_not_added": pools_not_added(reader, block),
        "money": {name: str(getattr(money, name)) for name in MoneyTotals.__dataclass_fields__},
        "key_epoch": snapshot.active_epoch,
        "key_kind": kind_of(snapshot.active_epoch) if snapshot.active_epoch else "",
        "assurance": labels.of_epoch(snapshot.active_epoch),
        "money_sums": money.sums and all(ending.sums for ending in endings),
    }


def whole_snapshot(reader: SnapshotReader, block: int) -> Snapshot:
    """Reads a snapshot with all disputes and batches since the deployment. Its fields about one account are those of the zero
    address."""
    snapshot = reader.snapshot(ZERO_ADDRESS, block, reader.opened(reader.network.deploy_block, block))
    batches = list[AnchoredBatch]()
    while len(batches) < snapshot.batch_count and (page := reader.anchored(len(batches), block)):
        batches += page
    return replace(snapshot, batches=tuple(batches))


def _batch(header: BatchHeader, snapshot: Snapshot, labels: Labels) -> dict[str, Any]:
    anchored = snapshot.batch(header.batch_id)
    assert anchored is not None, "read at the same block"
    return {
        "batch": header.batch_id,
        "operator": header.operator,
        "first_seq": header.first_seq,
        "count": header.count,
        "anchored_at": header.anchored_at,
        "window_end": anchored.window_end,
        "window_over": snapshot.clock > anchored.window_end,
        "released": anchored.released,
        "key_epoch": header.key_epoch,
        "assurance": labels.of_epoch(header.key_epoch),
    }


def _receipts(
    audits: Sequence[PostedAudit], disputes: Sequence[Dispute], labels: Mapping[Digest, str]
) -> list[dict[str, Any]]:  # fmt: skip
    """Returns the receipts that the chain names, because they were audited or disputed.

    Each verifier counts with the last result that it posted, for whatever batch. Only the receipt's own batch shows whether the
    verifier is drawn.
    """
    verdicts = {dispute.receipt_id: verdict_of(dispute) for dispute in disputes}
    named: dict[Digest, dict[Address, str]] = {}
    for audit, _, _ in audits:
        named.setdefault(audit.receipt_id, {})[audit.verifier] = AuditOutcome(audit.result).name.lower()
    found = []
    for identifier, auditors in (named | {each: named.get(each, {}) for each in verdicts}).items():
        results = Counter(auditors.values())
        verdict = verdicts.get(identifier)
        said = {outcome.name.lower(): results[outcome.name.lower()] for outcome in AuditOutcome}
        found.append({
            "receipt": hex0x(identifier), "audits": said, "auditors": auditors,
            "verdict": None if verdict is None else verdict.name, "assurance": labels[identifier],
        })  # fmt: skip
    return found


def audited_receipts(reader: SnapshotReader) -> list[dict[str, Any]]:
    """Reads the receipts with posted audits, the newest first, each with its results and its verdict."""
    block = reader.head()
    snapshot, labels = whole_snapshot(reader, block), Labels(reader, block)
    audits = reader.audits(reader.network.deploy_block, block)
    batches = reader.batches(reader.network.deploy_block, block)
    rows = _receipts(audits, snapshot.disputes, labels.of_receipts(audits, snapshot.disputes, batches))
    return [each for each in rows if each["auditors"]][::-1]


def verdict_of(case: Dispute) -> Verdict:
    """Returns the verdict of a dispute.

    Returns NONE until the dispute is over, because the verdict may be appealed or refunded before.
    """
    return case.verdict if case.phase is Phase.FINAL else Verdict.NONE


def disputes(reader: SnapshotReader) -> list[dict[str, Any]]:
    """Reads all disputes with their votes and money, the newest first."""
    block = reader.head()
    endings = CourtHistory(reader).endings(reader.network.deploy_block, block)
    return _disputes(reader, whole_snapshot(reader, block), endings, Labels(reader, block))[::-1]


def _disputes(
    reader: SnapshotReader, snapshot: Snapshot, endings: Sequence[DisputeEndedEvent], labels: Labels
) -> list[dict[str, Any]]:
    history, first, block = CourtHistory(reader), reader.network.deploy_block, snapshot.number
    documents = RegistryDocuments(reader)
    policies = functools.cache(lambda digest: registered_policy(documents, digest, block))
    ends: dict[_Seat, list[SeatSettledEvent]] = {}
    for each in history.seats(first, block):
        ends.setdefault((each.dispute, each.round, each.voter), []).append(each)
    votes = _Votes(
        Counter((each.dispute, each.round, each.voter) for each in history.commitments(first, block)),
        {(each.vote.dispute, each.vote.round, each.vote.voter): each for each in reversed(history.openings(first, block))},
        ends, policies, reader.network, ChainClaimHistory(reader, block), labels,
        frozenset((each.finding.dispute, int(each.finding.round)) for each in history.certificates(first, block)),
    )  # fmt: skip
    money = {ending.dispute: ending for ending in endings}
    params = functools.cache(lambda version: reader.params(version, block))
    return [
        _dispute(each, votes, money.get(each.id)) | _outlook(each, params(each.params_version), snapshot.clock)
        for each in snapshot.disputes
    ]


class _Votes(NamedTuple):
    """The votes that the chain shows, by dispute, round and account."""

    commitments: Mapping[_Seat, int]
    """Number of commitments that the account made."""
    openings: Mapping[_Seat, RevealEvent]
    """The first reveal of the account."""
    ends: Mapping[_Seat, Sequence[SeatSettledEvent]]
    policies: Policies
    network: Network
    premises: ChainClaimHistory
    labels: Labels
    certified: frozenset[tuple[Digest, int]]
    """Pairs of dispute and round for which a verdict certificate was posted."""

    def brought_by(self, case: Dispute) -> str | None:
        """Returns how the verdict came to the chain: `certificate` or `votes`. Returns None if there is no verdict yet, or if the
        guardian refunded the dispute."""
        if verdict_of(case) in (Verdict.NONE, Verdict.REFUNDED):
            return None
        return "certificate" if (case.id, case.round) in self.certified else "votes"

    def quote(self, case: Dispute, opened: RevealEvent) -> Quoted:
        """Judges the quote of a revealed vote."""
        label, premises = self.labels.of_epoch(case.key_epoch), self.premises.of(case, opened.block)
        return judged(self.policies, self.network.disputes_domain, case.receipt_id, opened, premises, label)


def _dispute(case: Dispute, votes: _Votes, ending: DisputeEndedEvent | None) -> dict[str, Any]:
    return {
        "dispute": hex0x(case.id),
        "receipt": hex0x(case.receipt_id),
        "operator": case.operator,
        "challenger": case.challenger.account,
        "challenger_knew": case.challenger.knew,
        "phase": case.phase.name,
        "round": case.round,
        "assurance": votes.labels.of_epoch(case.key_epoch),
        "seats": case.seats,
        "verdict": verdict_of(case).name,
        "brought_by": votes.brought_by(case),
        "claim": hex0x(case.claim),
        "replacement": None if case.replacement == ZERO_DIGEST else hex0x(case.replacement),
        "members": [_member(case, member, votes) for member in case.members],
        "paid_out": case.paid and all(each.settled == each.seats for each in case.rounds),
        "money": None if ending is None else _ending(ending),
    }


def phase_end(case: Dispute) -> int | None:
    """Returns the last second of the dispute's phase on the protocol clock.

    Returns None if the phase lasts until somebody acts, or if the dispute is over.
    """
    ends = {
        Phase.COMMIT: case.commit_end,
        Phase.REVEAL: case.reveal_end,
        Phase.APPEAL: case.appeal_end,
        Phase.AIRGAP: case.airgap_end,
    }
    return ends.get(case.phase)


def _outlook(case: Dispute, params: ParamSet, clock: int) -> dict[str, Any]:
    """Returns the challenger's bond and possible reward, and how long the phase lasts.

    A conviction pays the reward if the challenger knew the answer, unless the verdict is UNAVAILABLE.
    """
    end = phase_end(case)
    return {
        "bond_wei": str(params.required_bond),
        "reward_wei": str(params.money.slash_amount * params.shares.alpha_bps // BPS),
        "phase_end": end,
        "time_left_s": None if end is None else max(0, end - clock),
    }


def _member(case: Dispute, member: Seat, votes: _Votes) -> dict[str, Any]:
    where = (case.id, case.round, member.voter)
    opened, ends = votes.openings.get(where), votes.ends.get(where, ())
    quote = None if opened is None else votes.quote(case, opened)
    charged: Counter[str] = Counter()
    for each in ends:
        if each.penalty:
            charged[each.standing.name.lower().replace("_", " ")] += each.penalty
    return {
        "voter": member.voter,
        "seats": member.seat_mask.bit_count(),
        "commitments": votes.commitments.get(where, 0),
        "revealed": any(member.group),
        "outcome": None if opened is None else Outcome(opened.vote.outcome).name,
        "out_hash": None if opened is None else hex0x(out_hash(opened.vote.tokens_hash, opened.vote.trace_root)),
        "tokens_hash": None if opened is None else hex0x(opened.vote.tokens_hash),
        "attested_passes": None if quote is None else quote.passes,
        "quote": None if quote is None else quote.finding,
        "paid_wei": str(sum(each.pay for each in ends)),
        "charged": {what: str(amount) for what, amount in charged.items()},
    }


def _ending(ending: DisputeEndedEvent) -> dict[str, str]:
    apart = ("dispute", "verdict", "block")
    return {f"{name}_wei": str(value) for name, value in ending._asdict().items() if name not in apart}


def _accounts(reader: SnapshotReader, snapshot: Snapshot) -> list[dict[str, str]]:
    block = snapshot.number
    roles: dict[Address, str] = dict.fromkeys(RegistryDocuments(reader).operators(block), "operator")
    former: list[Address] = []
    for pool in reader.network.pools:
        for each in reader.verifiers(pool.digest, block):
            if each.may_audit(pool.digest, block):
                roles[each.account] = "verifier"
            else:
                former.append(each.account)
    for account in former:
        roles.setdefault(account, "former verifier")
    for case in snapshot.disputes:
        roles.setdefault(case.challenger.account, "challenger")
    return [{"account": account, "role": role, **holdings(reader, account, block)} for account, role in roles.items()]


def pools_not_added(reader: SnapshotReader, block: int) -> list[str]:
    """Returns the pools of the address book that the curator has not added to the registry. They have no verifiers."""
    return [hex0x(each.digest) for each in reader.network.pools if reader.pool(each.digest, block) is None]


def holdings(reader: SnapshotReader, account: Address, block: int) -> dict[str, str]:
    """Reads the stake, credit and balance of an account, in wei."""
    found = reader.holdings(account, block)
    return {
        "stake_wei": str(found.stake_wei),
        "free_wei": str(found.free_wei),
        "unbonding_wei": str(found.unbonding_wei),
        "credit_wei": str(found.credit_wei),
        "balance_wei": str(found.balance_wei),
    }


def seats_for(dispute: Mapping[str, Any]) -> int:
    """Counts the seats whose vote agrees with the final result of a dispute.

    If the verdict replaced the receipt's `outHash`, a seat agrees if it found the new hash. Otherwise a seat agrees if it found
    both hashes of the receipt.
    """
    claim, replacement = dispute["claim"], dispute["replacement"]
    return sum(
        member["seats"]
        for member in dispute["members"]
        if (member["out_hash"] == replacement if replacement else _claim_of(member) == claim)
    )


def _claim_of(member: Mapping[str, Any]) -> str | None:
    """Returns the finding of a member in the form of a receipt's claim, or None if the member revealed no hashes."""
    found = member["tokens_hash"], member["out_hash"]
    return None if None in found else hex0x(claim_of(*(digest(unhex(each)) for each in found)))
