"""Carries out actions: turns each decision into a job, a journal entry or a transaction.

A node may decide and execute an action several times. The outbox, the protection table and the job pool recognise an action that
has already begun. The executor writes a journal entry before it plans the transaction of an action. For the start of an enclave
job it writes none.

A move is an action that needs only the sender of transactions, and no other part of the node. Either any account may send the
move, or the move collects money that is due to this account.
"""

from collections import OrderedDict
from typing import Protocol, TypeVar, assert_never

from bytewise.ports import (
    AccountSender,
    AuditSender,
    CertificateSender,
    CourtSender,
    DemandSender,
    ReportSender,
    VoteSender,
)
from bytewise.protocol.decisions.actions import (
    Action,
    AnswerList,
    CastCommit,
    CastReveal,
    CertifyRound,
    ClaimBounty,
    CollectReport,
    CollectSlash,
    DemandAnchor,
    DemandEnvelope,
    DemandList,
    DrawPart,
    Expire,
    ExpireList,
    Finalize,
    FinishUnbond,
    OpenAlt,
    OpenAudit,
    OpenDispute,
    PayOut,
    PostAudit,
    PostCommitRoot,
    Rearm,
    RefreshWeight,
    ReleaseBatch,
    ReportEquivocation,
    ReportSkipped,
    RetrySlash,
    RevealUnderRoot,
    RunAudit,
    RunVoteJob,
    Settle,
    SettleSeats,
    SyncStake,
    Withdraw,
)
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.branches import Bug, Fault, Unavailable
from bytewise.protocol.units import Address, Digest, hex0x
from bytewise.service import metrics, telemetry
from bytewise.storage.journal import Journal
from verifier.audits.auditor import Auditor
from verifier.demander import Demander
from verifier.disputes.equivocation_reporter import EquivocationReporter
from verifier.disputes.watchtower import Watchtower

Move = (
    DrawPart | Rearm | Settle | OpenAlt | Finalize | PayOut | SettleSeats | ReleaseBatch | ExpireList | Expire
    | Withdraw | FinishUnbond | CollectSlash | CollectReport | SyncStake | RefreshWeight | RetrySlash
)  # fmt: skip
"""Actions that need only the sender, and no auditor, watchtower or other part of the node."""


class MoveSender(
    CourtSender, VoteSender, CertificateSender, AuditSender, DemandSender, ReportSender, AccountSender, Protocol
):  # fmt: skip
    """The sender of all transactions that moves need. The methods that this class defines itself send transactions without a
    deadline."""

    def collect_slash(self, slash_id: int) -> None:
        """Makes the stake source pay out the stake that slash number `slash_id` took."""
        ...

    def sync_stake(self, account: Address, block: int) -> None:
        """Makes the stake source record the stake that an account has now. `block` is the block of the account's old record, or 0
        if there is none."""
        ...

    def refresh(self, account: Address, block: int) -> None:
        """Makes the registry read a verifier's stake again. The outbox sends this once for each value of `block`."""
        ...

    def retry_slash(self, account: Address, ref: Digest, times: int) -> None:
        """Retries the slash with reference `ref`, which EigenLayer has refused `times` times."""
        ...

    def collect(self, ref: Digest, times: int = 0) -> None:
        """Distributes the stake that a report of equivocation slashed. The contract distributes the part that it has received.
        The outbox sends this once for each value of `times`."""
        ...


def make_move(sender: MoveSender, action: Move) -> None:
    """Plans the transaction of a move. The outbox sends it once, although the move may be decided several times."""
    match action:
        case DrawPart():
            sender.draw(action.dispute, action.round, action.first, action.count)
        case Rearm():
            sender.rearm(action.dispute, action.round)
        case Settle():
            sender.settle(action.dispute, action.round)
        case OpenAlt():
            sender.open_alt(action.dispute, action.salt)
        case Finalize():
            sender.finalize(action.dispute)
        case PayOut():
            sender.pay_out(action.dispute)
        case SettleSeats():
            sender.settle_seats(action.dispute, action.round, action.first, action.count)
        case ReleaseBatch():
            sender.release(action.batch_id)
        case ExpireList():
            sender.expire_list(action.batch_id)
        case Expire():
            sender.expire(action.subject, action.times)
        case Withdraw():
            sender.withdraw(action.credit_wei)
        case FinishUnbond():
            sender.finish_unbond(action.due_wei)
        case CollectSlash():
            sender.collect_slash(action.slash_id)
        case CollectReport():
            sender.collect(action.ref, action.payments)
        case SyncStake():
            sender.sync_stake(action.account, action.block)
        case RefreshWeight():
            sender.refresh(action.account, action.block)
        case RetrySlash():
            sender.retry_slash(action.account, action.ref, action.times)
        case _:
            assert_never(action)


def journal_entry(action: Move) -> tuple[bytes, dict[str, object]]:
    """Returns the subject and the body of a move's journal entry."""
    match action:
        case OpenAlt() | Finalize() | PayOut():
            return action.dispute, {}
        case DrawPart() | SettleSeats():
            return action.dispute, {"round": action.round, "first": action.first, "count": action.count}
        case Rearm() | Settle():
            return action.dispute, {"round": action.round}
        case ReleaseBatch() | ExpireList():
            return b"", {"batch": str(action.batch_id)}
        case Expire():
            return action.subject, {"times": action.times}
        case Withdraw():
            return b"", {"credit_wei": str(action.credit_wei)}
        case FinishUnbond():
            return b"", {"due_wei": str(action.due_wei)}
        case CollectSlash():
            return b"", {"slash": str(action.slash_id)}
        case CollectReport():
            return action.ref, {"payments": action.payments}
        case SyncStake() | RefreshWeight():
            return bytes.fromhex(action.account[2:]), {"block": str(action.block)}
        case RetrySlash():
            return action.ref, {"account": action.account, "times": action.times}


def demand_journal_entry(action: DemandList | DemandEnvelope | DemandAnchor) -> tuple[bytes, dict[str, object]]:
    """Returns the subject and the body of a demand's journal entry."""
    bond: dict[str, object] = {"bond_wei": str(action.bond_wei)}
    if isinstance(action, DemandList):
        return b"", {"batch": str(action.batch_id), **bond}
    return action.receipt_id, bond


def certificate_journal_entry(action: PostCommitRoot | CertifyRound | RevealUnderRoot) -> tuple[bytes, dict[str, object]]:
    """Returns the subject and the body of the journal entry for one step of a verdict certificate."""
    match action:
        case PostCommitRoot():
            return action.dispute, {"round": action.round, "root": hex0x(action.root)}
        case CertifyRound():
            return action.finding.dispute, {"round": action.finding.round, "signers": str(action.signers)}
        case RevealUnderRoot():
            return action.vote.dispute, {"round": action.vote.round}


T = TypeVar("T")

MAX_RECORDED = 4096
"""Most actions that the executor remembers as written to the journal. The limit is above the number of actions that are due at
one time. The executor forgets the oldest actions first."""


class VoteExecutor(Protocol):
    """The part of a member that carries out votes. `committee` implements it."""

    def start(self, action: RunVoteJob, snapshot: Snapshot) -> None:
        """Fetches the envelope and queues the enclave job that finds the vote. If DA certainly lacks the bytes, starts no job,
        because the vote is then UNAVAILABLE."""
        ...

    def commit(self, action: CastCommit, sender: VoteSender) -> None:
        """Sends the commitment of a vote that is in the protection table."""
        ...

    def reveal(self, action: CastReveal, sender: VoteSender) -> None:
        """Sends the reveal of the committed vote."""
        ...

    def collect(self, action: PostCommitRoot | CertifyRound | RevealUnderRoot, sender: CertificateSender) -> None:
        """Sends one transaction of a verdict certificate: the Merkle root of the members' commitments, the certificate, or the
        reveal of a vote under such a root."""
        ...


class ActionExecutor:
    """The executor of a node that starts jobs and sends transactions. A parameter is None if the node's role lacks that part.
    Raises `Bug` for an action that needs a missing part."""

    def __init__(
        self, sender: MoveSender, journal: Journal, auditor: Auditor | None, watchtower: Watchtower | None,
        voting: VoteExecutor | None, demander: Demander | None = None, reporter: EquivocationReporter | None = None,
    ) -> None:  # fmt: skip
        self._sender = sender
        self._journal = journal
        self._auditor = auditor
        self._watchtower = watchtower
        self._voting = voting
        self._demander = demander
        self._reporter = reporter
        self._recorded: OrderedDict[Action, None] = OrderedDict()

    def perform_all(self, actions: tuple[Action, ...], snapshot: Snapshot) -> None:
        """Performs each action. If an action fails, the error is logged and counted, and the next tick decides the action
        again."""
        for action in actions:
            try:
                self._perform(action, snapshot)
            except (Fault, Unavailable) as error:
                name = type(action).__name__
                metrics.ACTION_FAILURES.labels(action=name, error=type(error).__name__).inc()
                telemetry.log_error("action.failed", error, action=name)

    def _perform(self, action: Action, snapshot: Snapshot) -> None:
        match action:
            case RunAudit():
                _present(self._auditor).start(action, snapshot)
            case RunVoteJob():
                _present(self._voting).start(action, snapshot)
            case PostAudit():
                self._record(action, action.result.receipt_id, {"result": action.result.result})
                _present(self._auditor).post(action, self._sender)
            case OpenAudit() | ClaimBounty():
                self._record(action, action.receipt_id, {})
                _present(self._auditor).collect(action, self._sender)
            case OpenDispute():
                self._record(action, action.receipt_id, {"bond_wei": str(action.bond_wei)})
                _present(self._watchtower).open(action, self._sender)
            case DemandList() | DemandEnvelope() | DemandAnchor():
                self._record(action, *demand_journal_entry(action))
                _present(self._demander).ask(action, self._sender)
            case ReportEquivocation() | ReportSkipped():
                self._record(action, bytes.fromhex(action.operator[2:]), {"seq": str(action.seq), "times": action.times})
                _present(self._reporter).report(action, self._sender)
            case CastCommit():
                self._record(action, action.vote.dispute, {"round": action.vote.round, "commitment": hex0x(action.commitment)})
                _present(self._voting).commit(action, self._sender)
            case CastReveal():
                self._record(action, action.vote.dispute, {"round": action.vote.round})
                _present(self._voting).reveal(action, self._sender)
            case PostCommitRoot() | CertifyRound() | RevealUnderRoot():
                self._record(action, *certificate_journal_entry(action))
                _present(self._voting).collect(action, self._sender)
            case AnswerList():
                raise Bug("an operator's act in a verifier")
            case _:
                self._record(action, *journal_entry(action))
                make_move(self._sender, action)

    def _record(self, action: Action, subject: bytes, body: dict[str, object]) -> None:
        """Writes the action to the journal once, although it is decided again at each tick until the chain shows it."""
        if action in self._recorded:
            self._recorded.move_to_end(action)
            return
        self._journal.append(f"act.{type(action).__name__}", subject, body)
        self._recorded[action] = None
        if len(self._recorded) > MAX_RECORDED:
            self._recorded.popitem(last=False)
        telemetry.log("action.begun", action=type(action).__name__, subject=subject)


class ObservingExecutor:
    """The executor of a watchtower that only observes. It logs each action instead of taking it. The strategy `observe` and the
    setting `dry_run` use this executor."""

    def __init__(self) -> None:
        self._told: OrderedDict[Action, None] = OrderedDict()

    def perform_all(self, actions: tuple[Action, ...], snapshot: Snapshot) -> None:
        """Logs each action once, however often it is decided."""
        for action in actions:
            if action not in self._told:
                self._told[action] = None
                telemetry.log("action.foregone", action=type(action).__name__, would=str(action), block=snapshot.number)
        while len(self._told) > MAX_RECORDED:
            self._told.popitem(last=False)


def _present(part: T | None) -> T:
    if part is None:
        raise Bug("an action for a part that this role does not have")
    return part
