"""Demands data that operators withhold, ends unanswered demands, and disputes receipts whose envelope stayed missing (design
section 9).

An `Unavailable` error accuses nobody. The node demands bytes only if two conditions hold. The fetch deadline is over, and DA
failed several times to give these bytes while it gave other bytes. A demand costs a small bond. The chain then shows whether the
operator answered the demand.

`DemandFollower` fetches demanded envelopes from the place that the answer names. `UnpaidPenalties` takes the unpaid part of a
penalty once the operator has stake again. `OwnDisputes` reads this account's disputes from the chain, so that their cost still
counts after a restart.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from bytewise.ports import AccountView, AuditView, BlockView, DemandSender, DemandView, SnapshotView, TermsView
from bytewise.protocol.address_book import Network
from bytewise.protocol.decisions.actions import Action, DemandAnchor, DemandEnvelope, DemandList, Expire, OpenDispute
from bytewise.protocol.decisions.demands import (
    Demand,
    DemandKind,
    DemandPolicy,
    DemandRecord,
    DemandState,
    MissingItem,
    decide_demands,
    decide_ends,
    is_over,
)
from bytewise.protocol.decisions.disputes import MovePolicy, is_my_turn
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.actors import NotServed, TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.records.receipt import BatchHeader, SignedReceipt, anchor_subject, list_subject
from bytewise.protocol.units import Address, Digest
from bytewise.service import metrics, telemetry
from verifier.audits.auditor import AuditSortition
from verifier.disputes.own_disputes import OwnDisputes
from verifier.refusals import Refusals
from verifier.watch.absence_check import HAND_IN_S, AbsenceCheck, DaHealth
from verifier.watch.blob_fetcher import Backlog
from verifier.watch.chain_events import EventCounter
from verifier.watch.open_windows import DemandIndex
from verifier.watch.receipt_inbox import ReceiptInbox
from verifier.watch.records import FETCH_BUDGET_S, Records

OTHERS_PAUSE_S = 60
"""Seconds of the protocol clock after the end of a demand in which only the demander opens a dispute. The pause is at most half
of the time until the window ends."""


class DemanderChain(BlockView, SnapshotView, TermsView, AuditView, DemandView, AccountView, Protocol):
    """The part of the chain that a demander reads."""


class DemandFollower:
    """A part of the demander that fetches an envelope after the demand for it has ended, with or without an answer. It tries
    again until it has the envelope, or until the receipt can no longer be disputed."""

    def __init__(self, chain: DemanderChain, records: Records, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._chain = chain
        self._records = records
        self._monotonic = monotonic
        self._waiting: Backlog[Digest] = Backlog()
        self._settled: set[Digest] = set()
        self._ended_at: dict[Digest, int] = {}
        """Time of the protocol clock at which this process first saw that a demand had ended."""

    def step(self, snapshot: Snapshot, known: Mapping[Digest, DemandRecord]) -> None:
        """Fetches the envelopes whose next attempt is due, within the time budget of a tick. `known` has the demands by
        subject."""
        self._settled &= known.keys()
        self._ended_at = {subject: since for subject, since in self._ended_at.items() if subject in known}
        for subject, demand in known.items():
            ended = demand.state in (DemandState.ANSWERED, DemandState.EXPIRED) or is_over(snapshot, demand)
            if demand.kind is DemandKind.ENVELOPE and ended and subject not in self._settled:
                self._waiting.add(subject)
                self._ended_at.setdefault(subject, snapshot.clock)
        until = self._monotonic() + FETCH_BUDGET_S
        for subject in self._waiting.due(snapshot.clock):
            if self._monotonic() >= until:
                telemetry.log("demands.postponed", waiting=len(self._waiting.due(snapshot.clock)))
                return
            self._try(subject, known.get(subject), snapshot)

    def unserved(self, snapshot: Snapshot, known: Mapping[Digest, DemandRecord], me: Address, tries: int) -> tuple[Digest, ...]:
        """Returns the receipts that this node may dispute now. Such a receipt has no dispute yet, the demand for its envelope has
        ended, and DA has failed to give the envelope at least `tries` times.

        Receipts that account `me` demanded come first. A receipt that another account demanded is left to that account until a
        pause is over (`OTHERS_PAUSE_S`). Then this node may dispute it, because an operator that demands its own envelope never
        would.
        """
        disputed = {case.receipt_id for case in snapshot.disputes}
        found = [name for name in known if name not in disputed and self._waiting.failures(name) >= tries]
        ours = [name for name in found if known[name].by == me]
        return (*ours, *(name for name in found if known[name].by != me and self._is_anybodys(name, known[name], snapshot)))

    def _is_anybodys(self, subject: Digest, demand: DemandRecord, snapshot: Snapshot) -> bool:
        since, end = self._ended_at[subject], self._chain.window_end(subject, demand.batch_id, snapshot.number)
        return snapshot.clock >= since + min(OTHERS_PAUSE_S, max(end - since, 0) // 2)

    def _try(self, subject: Digest, demand: DemandRecord | None, snapshot: Snapshot) -> None:
        if demand is None or self._chain.window_end(subject, demand.batch_id, snapshot.number) < snapshot.clock:
            self._end(subject)
            return
        try:
            self._records.obtain(subject, demand.batch_id, snapshot)
        except NotServed as error:
            self._waiting.failed(subject, snapshot.clock)
            telemetry.log_error("demand.failed", error, receipt=subject, state=demand.state.name)
        except (Fault, Unavailable) as error:
            telemetry.log_error("demand.fetch_failed", error, receipt=subject)
        else:
            telemetry.log("demand.brought", receipt=subject)
            self._end(subject)

    def _end(self, subject: Digest) -> None:
        self._settled.add(subject)
        self._waiting.drop(subject)


PAID = "AlreadyPunished"
"""Name of the contract's error for a demand whose penalty was already taken in full."""


class UnpaidPenalties:
    """A part of the demander that collects unpaid penalties. It ends an expired demand again and again, until the operator has
    paid the whole penalty. Before each try it asks the chain whether the transaction would take any stake."""

    def __init__(self, chain: DemanderChain, book: DemandIndex, first_block: int, me: Address, moves: MovePolicy) -> None:
        self._chain = chain
        self._book = book
        self._times = EventCounter(chain, chain.expired, first_block)
        self._me = me
        self._moves = moves
        self._refusals = Refusals()

    def step(self, snapshot: Snapshot) -> tuple[Expire, ...]:
        """Returns the actions that end demands now. Leaves out an action that the chain would refuse.

        This account always ends its own demands, because it gets a share of the penalty. The account that made a demand may not
        want the operator to be charged. So verifiers also end demands of other accounts, in turns.
        """
        self._refusals.begin()
        if snapshot.paused:
            return ()
        mine = is_my_turn(snapshot, self._moves)
        due = (subject for subject, each in self._book.unpaid.items() if each.by == self._me or mine)
        found = (self._end(subject, snapshot) for subject in self._refusals.in_turn(due))
        return tuple(each for each in found if each is not None)

    def _end(self, subject: Digest, snapshot: Snapshot) -> Expire | None:
        try:
            if self._refusals.is_refused(subject, partial(self._ask, subject, snapshot), snapshot):
                return None
            # `times` makes each ending a new transaction, because the outbox never repeats an earlier one.
            return Expire(subject, self._times.times(subject, snapshot))
        except (Fault, Unavailable) as error:
            # A failed count must not stop the other demands.
            metrics.PENALTY_CHECK_FAILURES.labels(error=type(error).__name__).inc()
            telemetry.log_error("penalty.check_failed", error, subject=subject)
            return None

    def _ask(self, subject: Digest, snapshot: Snapshot) -> str | None:
        why = self._chain.expiry_refused(self._me, subject, snapshot.number)
        if why is not None and PAID in why:
            self._book.note_paid(subject)
        return why


NO_END = 2**63
"""End of the time in which an anchor can be demanded, far beyond any real time. An anchor can be demanded as long as the
receipt's number is not anchored."""


class DemandOptions(NamedTuple):
    """The options of a demander: the account that pays the bonds, the limits of the bonds, and whether the node fetches demanded
    envelopes and disputes receipts."""

    me: Address
    policy: DemandPolicy
    moves: MovePolicy
    disputes: bool
    """Whether the node disputes a receipt whose demand brought no envelope."""
    fetches: bool = True
    """Whether the node fetches demanded envelopes, for audits and before a dispute. The part that votes fetches the envelopes of
    its seats itself."""


class Demander:
    """The part of a node that makes, follows and ends demands, and disputes receipts whose envelope stayed missing. With a budget
    of 0 it makes no demands and opens no disputes, but still follows and ends demands, those of others included."""

    def __init__(
        self, chain: DemanderChain, network: Network, records: Records, control: DaHealth, means: DemandOptions,
        book: DemandIndex, given: ReceiptInbox | None = None, monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._chain = chain
        self._subjects = network.demands_domain
        self._records = records
        self._means = means
        self._inbox = given
        self._book = book
        self._draws = AuditSortition(chain)
        self._follow_up = DemandFollower(chain, records, monotonic)
        self._certainty = AbsenceCheck(control)
        self._refusals = Refusals()
        self._arrears = UnpaidPenalties(chain, self._book, int(network.deploy_block), means.me, means.moves)
        self._own = OwnDisputes(chain, network, means.me)
        self._beyond: set[Digest] = set()
        """Subjects for which the log already says that their bond exceeds the budget or the balance."""
        self._ordered: set[Digest] = set()
        """Receipts that this process decided to dispute, until the chain shows the dispute."""
        self._handed_over: Mapping[Digest, SignedReceipt] = {}
        """Receipts that clients handed over, as the inbox showed them at the last step."""

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Decides which demands to make and to end, and which receipts to dispute. Unpaid penalties come last, because they have
        no deadline."""
        self._book.follow(snapshot)
        me, known = self._means.me, self._book.known
        if self._means.fetches:
            self._follow_up.step(snapshot, known)
        actions: list[Action] = [*decide_ends(snapshot, known, me, self._means.moves)]
        if self._means.policy.budget_wei > 0 and not snapshot.paused:
            actions += self._wanted(snapshot)
        return (*actions, *self._arrears.step(snapshot))

    def _wanted(self, snapshot: Snapshot) -> list[Action]:
        me, policy, known = self._means.me, self._means.policy, self._book.known
        self._handed_over = {} if self._inbox is None else self._inbox.receipts()
        self._own.follow(snapshot)
        overdue = self._records.overdue(snapshot, policy.tries)
        unwon = {each for each in known if self._own.is_unwon(each)}
        self._refusals.begin()
        missing, is_needed = tuple(self._missing(overdue, snapshot)), partial(self._is_needed, snapshot=snapshot)
        chosen = decide_demands(snapshot, missing, known, me, policy, unwon, is_needed)
        self._tell_beyond(chosen.beyond, snapshot)
        unserved = self._unserved(snapshot) if self._means.disputes else ()
        self._certainty.begin({*unserved, *(each.subject for each in chosen.demands)})
        demands = [each.demand for each in chosen.demands if self._is_certain(each, overdue, snapshot)]
        return [*demands, *self._disputes(unserved, snapshot)]

    def ask(self, action: Demand, sender: DemandSender) -> None:
        """Plans the transaction of a demand, with the records that the demand must show. Raises `TryAgain` if this node no longer
        has the receipt."""
        match action:
            case DemandList():
                sender.demand_list(action.batch_id, action.bond_wei, HAND_IN_S)
            case DemandEnvelope():
                live = self._records.find(action.receipt_id)
                if live is None:
                    raise TryAgain("archive", f"receipt {action.receipt_id.hex()} was not seen yet")
                member = (live.seen.signed, live.header.batch_id, live.seen.proof)
                sender.demand_envelope(*member, action.bond_wei, HAND_IN_S)
            case DemandAnchor():
                signed = self._handed_over.get(action.receipt_id)
                if signed is None:
                    raise TryAgain("inbox_folder", f"receipt {action.receipt_id.hex()} was taken away")
                sender.demand_anchor(signed, action.bond_wei, HAND_IN_S)

    # --- missing items ---

    def _missing(self, overdue: dict[int | Digest, BatchHeader], snapshot: Snapshot) -> Iterator[MissingItem]:
        lists = {**self._records.faulty, **{key: header for key, header in overdue.items() if isinstance(key, int)}}
        for batch_id, header in sorted(lists.items()):
            batch = snapshot.batch(batch_id)
            if batch is not None:
                # The answer has all leaves of the list, so the bond grows with their number.
                demand = DemandList(batch_id, self._bond(batch.params_version, snapshot) * header.count)
                yield MissingItem(list_subject(self._subjects, batch_id), demand, batch.window_end)
        for key, header in overdue.items():
            if not isinstance(key, int) and key not in self._book.known:
                yield from self._envelope(key, header, snapshot)
        # Anchors come last, because they have no deadline.
        yield from self._unanchored(snapshot)

    def _envelope(self, receipt_id: Digest, header: BatchHeader, snapshot: Snapshot) -> Iterator[MissingItem]:
        batch = snapshot.batch(header.batch_id)
        if batch is None or batch.is_void:
            return
        demand = DemandEnvelope(receipt_id, self._bond(batch.params_version, snapshot))
        # The demand stops the window's clock until it ends. The time that is left then must suffice for a dispute.
        yield MissingItem(receipt_id, demand, batch.window_end - self._means.policy.margin_s)

    def _is_needed(self, missing: MissingItem, snapshot: Snapshot) -> bool:
        """Returns whether anybody needs the missing item. An envelope is needed if an auditor was drawn for the receipt or a
        client handed the receipt over. An anchor is needed unless it was demanded or anchored meanwhile."""
        match missing.demand:
            case DemandEnvelope(receipt_id):
                return self._is_wanted(receipt_id, snapshot)
            case DemandAnchor(receipt_id, bond):
                signed = self._handed_over[receipt_id]
                ask = partial(self._chain.anchor_demand_refused, self._means.me, signed, bond, snapshot.number)
                return not self._refusals.is_refused(missing.subject, ask, snapshot)
            case _:
                return True

    def _is_wanted(self, receipt_id: Digest, snapshot: Snapshot) -> bool:
        if receipt_id in self._handed_over:
            return True
        live = self._records.find(receipt_id)
        return live is not None and self._draws.has(receipt_id, live.header, snapshot)

    def _unanchored(self, snapshot: Snapshot) -> Iterator[MissingItem]:
        given = self._handed_over
        delay = self._chain.params(snapshot.params_version, snapshot.number).times.max_anchor_delay if given else 0
        late = {name: each.receipt for name, each in given.items() if snapshot.timestamp > each.receipt.anchor_by + delay}
        operators = {who: self._chain.holdings(who, snapshot.number) for who in {each.operator for each in late.values()}}
        for receipt_id, receipt in late.items():
            operator, subject = operators[receipt.operator], anchor_subject(self._subjects, receipt_id)
            # No batch contains number 0, so an operator that signed number 0 can never anchor that receipt.
            is_owed = operator.is_operator and (receipt.seq == 0 or operator.last_seq < receipt.seq)
            if is_owed and not self._book.was_demanded(subject, snapshot):
                yield MissingItem(subject, DemandAnchor(receipt_id, self._bond(snapshot.params_version, snapshot)), NO_END)

    def _bond(self, version: int, snapshot: Snapshot) -> int:
        return self._chain.params(version, snapshot.number).money.demand_bond

    def _tell_beyond(self, beyond: tuple[MissingItem, ...], snapshot: Snapshot) -> None:
        """Logs once for each subject that its bond is too high. Envelopes are not logged, because it was not computed whether
        anybody needs them."""
        lost = {each.subject: each for each in beyond if not isinstance(each.demand, DemandEnvelope)}
        self._beyond.intersection_update(lost)
        for subject in lost.keys() - self._beyond:
            kind, bond = type(lost[subject].demand).__name__, lost[subject].demand.bond_wei
            budget, balance = self._means.policy.budget_wei, snapshot.me.balance_wei
            telemetry.log("demand.foregone", subject=subject, kind=kind, bond_wei=bond, budget_wei=budget, balance_wei=balance)
        self._beyond.update(lost)

    # --- which items are certainly missing ---

    def _is_certain(self, missing: MissingItem, overdue: dict[int | Digest, BatchHeader], snapshot: Snapshot) -> bool:
        """Returns whether the item is certainly missing. The chain itself shows that a list does not fit its batch, or that a
        number is not anchored. If DA does not give bytes, the node asks DA once more."""
        match missing.demand:
            case DemandList(batch_id) if batch_id in overdue:
                ask = partial(self._records.read_list, overdue[batch_id], snapshot)
                return self._certainty.is_gone(missing.subject, ask, snapshot)
            case DemandEnvelope(receipt_id):
                return self._certainty.is_gone(missing.subject, partial(self._records.fetch, receipt_id), snapshot)
            case _:
                return True

    def _unserved(self, snapshot: Snapshot) -> tuple[Digest, ...]:
        """Returns the receipts whose demand brought no envelope: those that this account demanded, and those that others demanded
        and this node needs, too."""
        found = self._follow_up.unserved(snapshot, self._book.known, self._means.me, self._means.policy.tries)
        return tuple(each for each in found if self._book.known[each].by == self._means.me or self._is_wanted(each, snapshot))

    def _disputes(self, unserved: tuple[Digest, ...], snapshot: Snapshot) -> Iterator[OpenDispute]:
        """Yields disputes about receipts whose envelope stayed missing. The committee finds out whether the bytes exist, and
        slashes an operator that withholds them from the committee, too."""
        left = min(snapshot.me.balance_wei, self._means.policy.dispute_budget_wei - self._risked(snapshot))
        self._ordered.intersection_update(unserved)
        # Disputes that were already decided come first. Otherwise another one could take their place in the budget.
        for receipt_id in sorted(unserved, key=lambda each: each not in self._ordered):
            demand = self._book.known[receipt_id]
            bond = self._required_bond(demand, snapshot)
            end = self._chain.window_end(receipt_id, demand.batch_id, snapshot.number)
            if bond > left or snapshot.clock + self._means.policy.margin_s // 2 > end:
                continue
            ask = partial(self._records.obtain, receipt_id, demand.batch_id, snapshot)
            if self._certainty.is_gone(receipt_id, ask, snapshot):
                left -= bond
                self._ordered.add(receipt_id)
                telemetry.log("demand.disputed", receipt=receipt_id, state=demand.state.name)
                yield OpenDispute(receipt_id, bond)

    def _risked(self, snapshot: Snapshot) -> int:
        """Returns the sum of the bonds, in wei, of this account's disputes about envelopes that were demanded within the budget's
        period."""
        since = snapshot.clock - self._means.policy.budget_s
        found = [each for name, each in self._book.known.items() if each.opened_at > since and self._own.has(name)]
        return sum(self._required_bond(each, snapshot) for each in found)

    def _required_bond(self, demand: DemandRecord, snapshot: Snapshot) -> int:
        return self._chain.params(demand.params_version, snapshot.number).required_bond
