"""The watchtower, which disputes receipts (design section 3).

It shows its strategy the present state and checks the strategy's proposals. It has no key share and runs no model. It judges
receipts by the posted results of publicly drawn auditors.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from bytewise.ports import AccountView, AuditView, BlockView, CourtSender, SnapshotView, TermsView
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.commitments import alt_commit, dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.sortition import BEACON_DELAY_BLOCKS, seats_in_audit_draw
from bytewise.protocol.decisions.actions import Action, OpenDispute
from bytewise.protocol.decisions.audits import AuditedReceipt, PostedAudit, count_audits, results_in
from bytewise.protocol.decisions.disputes import Alternative, decide_challenger
from bytewise.protocol.decisions.snapshot import AnchoredBatch, Dispute, Snapshot
from bytewise.protocol.decisions.strategies import (
    DEFEND,
    AuditEvent,
    DisputeEvent,
    DisputeProposal,
    ReceiptEvent,
    ReceiptTerms,
    Refusal,
    RefusedProposal,
    Spending,
    WatchEvent,
    WatchPolicy,
    built_in,
    decide_proposals,
)
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.records.statements import AuditOutcome, AuditResult
from bytewise.protocol.signing import ALTERNATIVE, Signer, labelled_preimage
from bytewise.protocol.units import U256, Address, Digest
from bytewise.service import metrics, telemetry
from bytewise.storage.duties import Duties
from verifier.audits.audit_hints import HintBox
from verifier.disputes.own_disputes import OwnDisputes
from verifier.disputes.strategist import LocalStrategy, Strategist
from verifier.watch.absence_check import HAND_IN_S
from verifier.watch.chain_events import EventFollower
from verifier.watch.records import LiveReceipt, Records

DISPUTE = "dispute"
"""Kind of the duty that `bytewise dispute open` stores. The duty's subject is the receipt, and its deadline is the end of the
receipt's window."""


class WatchtowerChain(BlockView, SnapshotView, TermsView, AuditView, AccountView, Protocol):
    """The part of the chain that a watchtower reads."""


class SeenPost(NamedTuple):
    """A posted audit result, with the time of its audit."""

    post: PostedAudit
    made_at: int
    """Chain time of the audit, as the verifier states it. It is never later than the time of the block at which this process read
    the result: a later statement is replaced by that time."""


class Watchtower:
    """The part of a node that collects posted audit results and opens disputes. If there are hints, the watchtower commits with
    each dispute to the answer that the hints name. It opens that commitment if the answer wins. After a restart it reads
    everything except the hints from the chain again."""

    def __init__(
        self,
        chain: WatchtowerChain,
        network: Network,
        records: Records,
        signer: Signer,
        policy: WatchPolicy,
        hints: HintBox | None = None,
        strategist: Strategist | None = None,
        orders: Duties | None = None,
    ) -> None:
        """Without a strategist the strategy is `defend`. `orders` stores the disputes that a person ordered."""
        self._orders = orders
        self._chain = chain
        self._network = network
        self._records = records
        self._signer = signer
        self._hints = hints
        self._first_block = int(network.deploy_block)
        self._events = EventFollower(chain, self._first_block, "audits")
        self._policy = policy
        self._strategist = strategist or Strategist(LocalStrategy(built_in(DEFEND, policy.mismatches)))
        self._own = OwnDisputes(chain, network, signer.address)
        self._ordered: dict[Digest, int] = {}
        """Bonds in wei, by receipt, of disputes that were decided and are not on the chain yet."""
        self._refused: set[tuple[Digest, Refusal]] = set()
        """Refused proposals that were logged and are still refused, by receipt and reason."""
        self._posted: dict[Digest, list[SeenPost]] = {}
        self._beacons: dict[int, Digest] = {}
        self._seats: dict[tuple[int, Address], int] = {}
        self._disputed: set[Digest] = set()
        self._committed: dict[Digest, Digest] = {}

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Reads new audit results and shows the present state to the strategy. Then decides which receipts to dispute. Also
        decides which of this account's commitments to open, because the answer in the commitment won."""
        self._read(snapshot)
        self._forget_closed(snapshot)
        self._own.follow(snapshot)
        self._disputed |= {case.receipt_id for case in snapshot.disputes if case.receipt_id in self._posted}
        self._strategist.show(self._events_at(snapshot))
        openings = decide_challenger(snapshot, self._signer.address, self._alternatives(snapshot))
        return (*self._challenges(snapshot), *openings)

    def _challenges(self, snapshot: Snapshot) -> tuple[OpenDispute, ...]:
        proposals = (*self._ordered_by_hand(snapshot), *self._strategist.proposals)
        named = {each.receipt_id for each in proposals}
        live = {each.seen.receipt_id: each for each in self._records.live if each.seen.receipt_id in named}
        terms = {name: found for name, each in live.items() if (found := self._terms(each, snapshot)) is not None}
        known = self._disputed | {case.receipt_id for case in snapshot.disputes}
        self._ordered = {
            name: bond
            for name, bond in self._ordered.items()
            if name not in known and snapshot.can_question(name, self._batch_of(name))
        }
        spending = Spending(self._opened_wei(snapshot), self._ordered)
        decision = decide_proposals(snapshot, proposals, terms, self._disputed, spending, self._policy)
        self._ordered |= {each.receipt_id: each.bond_wei for each in decision.actions}
        metrics.BONDS.labels(state="open").set(spending.opened_wei)
        metrics.BONDS.labels(state="ordered").set(sum(self._ordered.values()))
        self._report(decision.refused)
        return decision.actions

    def _ordered_by_hand(self, snapshot: Snapshot) -> tuple[DisputeProposal, ...]:
        """Returns proposals for the disputes that a person ordered and that are not on the chain yet. Policy and budget apply to
        them, too."""
        if self._orders is None:
            return ()
        disputed = {case.receipt_id for case in snapshot.disputes}
        found = []
        for order in self._orders.pending():
            receipt = Digest(order.subject)
            if order.kind != DISPUTE:
                continue
            if receipt in disputed or self._own.has(receipt):
                self._orders.done(DISPUTE, order.subject, "on the chain")
            elif snapshot.clock > order.deadline:
                self._orders.miss(DISPUTE, order.subject, "the window was over")
                telemetry.log("dispute.missed", receipt=receipt)
            else:
                found.append(DisputeProposal(receipt, "ordered by a person"))
        return tuple(found)

    def _report(self, refused: tuple[RefusedProposal, ...]) -> None:
        """Logs each refusal once, while it lasts. The refusal that a receipt is disputed already is not logged if this account
        opened that dispute."""
        current = {(each.proposal.receipt_id, each.refusal): each.proposal for each in refused}
        for key in current.keys() - self._refused:
            receipt, refusal = key
            if not (refusal is Refusal.DISPUTED and self._own.has(receipt)):
                fields = {"receipt": receipt, "reason": current[key].reason, "advice": refusal.value}
                telemetry.log("proposal.refused", refusal=refusal.name.lower(), **fields)
        self._refused = set(current)

    def _batch_of(self, receipt_id: Digest) -> int:
        live = self._records.find(receipt_id)
        return -1 if live is None else live.header.batch_id

    def _terms(self, live: LiveReceipt, snapshot: Snapshot) -> ReceiptTerms | None:
        batch = snapshot.batch(live.header.batch_id)
        if batch is None:
            return None
        return ReceiptTerms(batch.batch_id, self._chain.params(batch.params_version, snapshot.number).required_bond)

    def _opened_wei(self, snapshot: Snapshot) -> int:
        """Returns the sum of the bonds, in wei, of this account's disputes within the budget's period that are not won. For a
        dispute that the snapshot lacks, it takes the bond that is required now."""
        versions = {case.id: case.params_version for case in snapshot.disputes}
        since = snapshot.number - self._policy.budget_blocks
        return sum(
            self._chain.params(versions[each], snapshot.number).required_bond if each in versions else snapshot.required_bond_wei
            for each in self._own.unwon_since(since)
        )

    def _events_at(self, snapshot: Snapshot) -> Iterator[WatchEvent]:
        """Yields the present state as events: disputes first, then audited receipts, then receipts. Receipts come in the order in
        which this node read them."""
        if self._strategist.wants(DisputeEvent):
            me = self._signer.address
            for case in snapshot.disputes:
                yield DisputeEvent(
                    case.id, case.receipt_id, case.operator, case.phase.name, case.verdict.name, case.challenger.account == me
                )
        for audited in self._audited(snapshot):
            live, end = self._records.find(audited.receipt_id), snapshot.window_end(audited.receipt_id, audited.batch_id)
            if live is not None and end >= 0:
                mismatches, matches = count_audits(audited)
                yield AuditEvent(
                    audited.receipt_id, audited.batch_id, live.header.operator, mismatches, matches, end, U256(audited.bond_wei)
                )
        if self._strategist.wants(ReceiptEvent):
            for live in self._records.live:
                batch, terms = snapshot.batch(live.header.batch_id), self._terms(live, snapshot)
                if batch is not None and terms is not None:
                    yield ReceiptEvent(
                        live.seen.receipt_id, batch.batch_id, batch.operator, live.seen.signed.receipt.seq,
                        live.header.environment, live.seen.finding,
                        snapshot.window_end(live.seen.receipt_id, batch.batch_id), U256(terms.bond_wei),
                    )  # fmt: skip

    def open(self, action: OpenDispute, sender: CourtSender) -> None:
        """Plans the transaction that opens a dispute, with the receipt and its path to the root. Raises `TryAgain` if this node
        has not read the receipt."""
        live = self._records.find(action.receipt_id)
        if live is None:
            raise TryAgain("archive", f"receipt {action.receipt_id.hex()} was not seen yet")
        signed, batch = live.seen.signed, live.seen.batch_id
        commitment = self._commitment(action.receipt_id, batch)
        sender.open_dispute(signed.receipt, signed.signature, batch, live.seen.proof, commitment, action.bond_wei, HAND_IN_S)

    def _commitment(self, receipt_id: Digest, batch_id: int) -> Digest:
        """Returns the commitment to the answer that the auditors' hints name. Without a hint it commits to an answer that cannot
        win, and the dispute then brings no opener's share."""
        domain, against = self._network.disputes_domain, self._against(receipt_id, batch_id)
        dispute = dispute_id(domain, receipt_id)
        key = None if self._hints is None else self._hints.key(against)
        telemetry.log("challenge.prepared", receipt=receipt_id, told=key is not None)
        salt = self._salt(dispute)
        return alt_commit(domain, dispute, self._signer.address, salt if key is None else key, salt)

    def _salt(self, dispute: Digest) -> Digest:
        # The salt is a deterministic signature of this account. It needs no storage, and nobody else can compute it.
        return Digest(keccak256(self._signer.sign_preimage(labelled_preimage(ALTERNATIVE, dispute))))

    def _alternatives(self, snapshot: Snapshot) -> dict[Digest, Alternative]:
        """Returns, by dispute, the verdict's answer that this watchtower can open, because it is the challenger and committed to
        that answer."""
        me, domain = self._signer.address, self._network.disputes_domain
        known: dict[Digest, Alternative] = {}
        for case in snapshot.disputes:
            if case.phase is Phase.AIRGAP and (case.challenger.account, case.challenger.knew) == (me, False):
                salt = self._salt(case.id)
                if alt_commit(domain, case.id, me, case.key, salt) == self._committed_to(case, snapshot):
                    known[case.id] = Alternative(case.key, salt)
        return known

    def _committed_to(self, case: Dispute, snapshot: Snapshot) -> Digest | None:
        if case.id not in self._committed:
            found = self._chain.alt_commits(self._signer.address, self._first_block, snapshot.number)
            self._committed |= {each.id: found[each.id] for each in snapshot.disputes if each.id in found}
        return self._committed.get(case.id)

    def _against(self, receipt_id: Digest, batch_id: int) -> list[AuditResult]:
        return [each for each in self._results(receipt_id, batch_id) if each.result == AuditOutcome.MISMATCH.value]

    def _results(self, receipt_id: Digest, batch_id: int) -> tuple[AuditResult, ...]:
        posts = [each.post for each in self._posted.get(receipt_id, [])]
        return tuple(results_in(posts, batch_id).values())

    def _read(self, snapshot: Snapshot) -> None:
        if self._events.is_reset():
            for kept in (self._posted, self._beacons, self._seats, self._committed, self._disputed):
                kept.clear()
        if self._events.next_block > snapshot.number:
            return
        for post in self._chain.audits(self._events.next_block, snapshot.number):
            result = post.result
            self._posted.setdefault(result.receipt_id, []).append(SeenPost(post, min(result.audited_at, snapshot.timestamp)))
            telemetry.log("audit.seen", receipt=result.receipt_id, verifier=result.verifier, result=result.result)
        self._events.mark_read(snapshot.number, snapshot.block_hash)

    def _forget_closed(self, snapshot: Snapshot) -> None:
        """Forgets audit results whose receipts can no longer be challenged. Age decides, because a result is always younger than
        its batch, even if that batch was not fetched yet."""
        oldest = min(
            (each.anchored_at for each in snapshot.batches if snapshot.has_open(each.batch_id)), default=snapshot.timestamp
        )
        young = {name: [each for each in kept if each.made_at >= oldest] for name, kept in self._posted.items()}
        self._posted = {name: kept for name, kept in young.items() if kept}
        self._disputed &= self._posted.keys()
        self._beacons = {batch: kept for batch, kept in self._beacons.items() if snapshot.has_open(batch)}
        self._seats = {key: kept for key, kept in self._seats.items() if snapshot.has_open(key[0])}
        current = {case.id for case in snapshot.disputes}
        self._committed = {dispute: kept for dispute, kept in self._committed.items() if dispute in current}

    def _audited(self, snapshot: Snapshot) -> tuple[AuditedReceipt, ...]:
        found = []
        for live in self._records.live:
            receipt_id, header = live.seen.receipt_id, live.header
            batch, at = snapshot.batch(header.batch_id), header.block + BEACON_DELAY_BLOCKS
            if receipt_id not in self._posted or receipt_id in self._disputed or at > snapshot.number or batch is None:
                continue
            if header.batch_id not in self._beacons:
                self._beacons[header.batch_id] = self._chain.block_hash(at)
            found.append(self._one(live, batch, snapshot))
        return tuple(found)

    def _one(self, live: LiveReceipt, batch: AnchoredBatch, snapshot: Snapshot) -> AuditedReceipt:
        receipt_id = live.seen.receipt_id
        results = self._results(receipt_id, batch.batch_id)
        params = self._chain.params(batch.params_version, snapshot.number)
        for who in {each.verifier for each in results}:
            if (batch.batch_id, who) not in self._seats:
                stake = self._chain.stake_at(who, live.header.block, snapshot.number)
                # The contract accepts results only from members of the judging pool that joined before the batch that the post
                # names. These posts name this batch, so each verifier is a member.
                self._seats[(batch.batch_id, who)] = seats_in_audit_draw(stake, params.money.audit_unit, is_member=True)
        seats = tuple((each.verifier, self._seats[(batch.batch_id, each.verifier)]) for each in results)
        beacon = self._beacons[batch.batch_id]
        rate, bond = params.shares.audit_rate_bps, params.required_bond
        return AuditedReceipt(receipt_id, batch.batch_id, beacon, seats, rate, results, bond)
