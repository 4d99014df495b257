"""Code that all drills use: the steps on a fork, and the report with amounts before and after and with the money that moved."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.snapshot import Holdings
from bytewise.protocol.units import ZERO_ADDRESS, Address
from chain.client.rpc import at_number
from chain.deployment.calls import ContractCall
from chain.reads.earnings import penalty_pots
from chain.reads.history import CourtHistory, LedgerEvent
from chain.reads.reader import SnapshotReader
from cli.drill.fork import ForkedChain
from dashboard.index.money import BURN_REASONS, REASONS, SEAT_PENALTY, SOURCES

ShowProgress = Callable[[str, int, int], None]
"""A function that shows progress. Its arguments are the title of the present step, the number of steps that are done, and the
number of all steps."""
Amounts = Mapping[tuple[str, str], int]
"""Amounts in wei, by owner and name of the amount, for example `stake`."""


class DrillStep(NamedTuple):
    """One step of a drill, for the report."""

    title: str
    actor: Address
    call: str
    """Contract and function that the actor calls. Empty if the step is not a call."""
    after_s: int
    """Seconds of the protocol clock since the start of the drill."""
    effect: str


class Change(NamedTuple):
    """One amount of one owner before and after the drill, in wei. `what` is the name of the amount."""

    owner: str
    what: str
    before: int
    after: int


class Flow(NamedTuple):
    """One movement of money in the ledger during the drill."""

    event: str
    reason: str
    account: str
    """The account that pays or gets the money. Empty if the money belongs to no account, for example when it is burned."""
    wei: int


class LaterCall(NamedTuple):
    """A call that the account may want to make after the drill, and whether the contract would accept it."""

    title: str
    call: str
    refusal: str
    """The contract's reason if it would refuse the call. Empty if it would accept."""
    note: str


class DrillReport(NamedTuple):
    """The result of a drill: its steps, amounts before and after, the money that moved, and calls that the account could make
    after the drill."""

    account: Address
    block: int
    slashed_wei: int
    steps: tuple[DrillStep, ...]
    changes: tuple[Change, ...]
    flows: tuple[Flow, ...]
    choices: tuple[LaterCall, ...]


class DrillSession:
    """One drill of one account on one fork: makes the calls of the drill and records its steps."""

    def __init__(self, fork: ForkedChain, account: Address, show_progress: ShowProgress, steps: int) -> None:
        """`steps` is the number of all steps, which the session passes to `show_progress`."""
        self.fork, self.account, self._show_progress, self._count = fork, account, show_progress, steps
        self.reader = SnapshotReader(fork.client, fork.network)
        self.first = self.reader.head()
        self.snapshot = self.reader.snapshot(account, self.first)
        self.params = self.reader.params(self.snapshot.params_version, self.first)
        self._steps: list[DrillStep] = []

    @property
    def me(self) -> Holdings:
        """Stake, credit and balance of the account at the fork's newest block."""
        return self.reader.holdings(self.account, self.reader.head())

    def do(self, title: str, actor: Address, call: ContractCall, effect: str) -> None:
        """Sends a call from an actor on the fork, and records it as a step of the report."""
        self.show_progress(title)
        self.fork.send(actor, call)
        self.add_step(title, actor, str(call), effect)

    def show_progress(self, title: str) -> None:
        """Shows the title of the next step as progress."""
        self._show_progress(title, len(self._steps), self._count)

    def add_step(self, title: str, actor: Address, call: str, effect: str) -> None:
        """Records a step for the report, without a call on the fork."""
        clock = self.reader.snapshot(ZERO_ADDRESS, self.reader.head()).clock
        self._steps.append(DrillStep(title, actor, call, clock - self.snapshot.clock, effect))

    def amounts(self, *others: Address) -> dict[tuple[str, str], int]:
        """Reads the amounts of the account, of other accounts and of the ledger at the fork's newest block, in wei."""
        head, me = self.reader.head(), self.account
        mine, money = self.reader.holdings(me, head), self.reader.money(head)
        found = {
            (me, "balance"): mine.balance_wei, (me, "stake"): mine.stake_wei,
            (me, "stake that receipts lock"): mine.collateral_wei, (me, "stake being withdrawn"): mine.unbonding_wei,
            (me, "credit"): mine.credit_wei,
        }  # fmt: skip
        for each in others:
            theirs = self.reader.holdings(each, head)
            found |= {(each, "balance"): theirs.balance_wei, (each, "credit"): theirs.credit_wei}
        return found | {("ledger", "burned"): money.total_burned, ("ledger", "treasury"): money.treasury}

    def report(self, before: Amounts, after: Amounts, choices: Sequence[tuple[str, ContractCall, str]]) -> DrillReport:
        """Returns the report of the drill. `before` and `after` are the amounts at its start and its end. `choices` are calls
        that the account could make after the drill, each with title and note. Each call is tried without changing the fork."""
        lost = sum(before[self.account, each] - after[self.account, each] for each in ("stake", "stake being withdrawn"))
        changes = tuple(Change(*key, before[key], after[key]) for key in before)
        moved = CourtHistory(self.reader).movements(self.first + 1, self.reader.head())
        later = tuple(LaterCall(title, str(call), self.fork.refusal(self.account, call), note) for title, call, note in choices)
        pots = penalty_pots(moved)
        flows = tuple(flow for each in moved for flow in flows_of(each, pots))
        return DrillReport(self.account, self.first, lost, tuple(self._steps), changes, flows, later)

    def stake_choices(self) -> Iterator[tuple[str, ContractCall, str]]:
        """Yields the calls that the account could make with its credit and native stake: title, call and note."""
        me = self.me
        yield "withdraw credit", ContractCall("Ledger", "withdraw"), f"{me.credit_due_wei} of {me.credit_wei} wei are due"
        if self.reader.record_life(self.reader.head()) is not None:
            return
        yield "deposit more stake", ContractCall("StakeVault", "deposit", (), 1), "at once"
        unbond = ContractCall("StakeVault", "requestUnbond", (me.stake_wei,))
        yield "begin to withdraw stake", unbond, self._unlock(me.stake_wei, unbond, self.params)
        yield "finish a withdrawal", ContractCall("StakeVault", "finishUnbond"), "only after the delay"

    def _unlock(self, stake_wei: int, unbond: ContractCall, params: ParamSet) -> str:
        """Returns a sentence that says when the account could withdraw its stake. The function makes the request on the fork,
        reads the time, and undoes the request."""
        if stake_wei == 0:
            return "no stake is left"
        vault = self.fork.network.addresses.stake_vault
        with self.fork.rehearsal():
            self.fork.send(self.account, unbond)
            head = self.reader.head()
            seen = self.fork.client.call("StakeVault", vault, "unbondingOf", self.account, block=at_number(head))
            wait = seen["nextAt"] - self.reader.snapshot(self.account, head).clock
        delay = f"`unbond_delay` is {params.times.unbond_delay} s"
        return f"{stake_wei} wei unlock {wait} s later ({delay}); until then they can be slashed"


def flows_of(moved: LedgerEvent, pots: Collection[bytes]) -> Sequence[Flow]:
    """Returns the movements of money that one event of the ledger describes.

    `pots` are the ledger's pots for penalties of seats. The ledger gives such a penalty the same code as a slash, so only the pot
    shows the difference.
    """
    values: dict[str, Any] = moved.values
    if moved.event == "Taken":
        reason = SEAT_PENALTY if values["ref"] in pots else SOURCES[values["source"]]
        return [Flow("taken", reason, values["from"], values["amount"])]
    if moved.event == "Credited":
        return [Flow("credited", REASONS[values["reason"]], values["account"], values["amount"])]
    if moved.event == "CreditedEach":
        return [Flow("credited", REASONS[values["reason"]], each, values["amount"]) for each in values["accounts"]]
    if moved.event == "Burned":
        reason = SEAT_PENALTY if values["ref"] in pots else BURN_REASONS[values["reason"]]
        return [Flow("burned", reason, "", values["amount"])]
    return [Flow(moved.event.lower(), "", "", values["amount"])]
