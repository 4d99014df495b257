"""Plays a slash of an operator on a fork: it anchors a batch, withholds its list, and loses stake. No signature is needed."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bytewise.protocol.address_book import StakeSource
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.snapshot import Holdings, Snapshot
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.receipt import BatchHeader, list_subject
from bytewise.protocol.units import U32, U64, ZERO_ADDRESS, ZERO_DIGEST, Address, Digest
from chain.client.rpc import at_number
from chain.deployment.calls import ContractCall
from chain.reads.history import CourtHistory, LedgerEvent
from chain.reads.reader import SnapshotReader
from cli.drill.fork import ForkedChain
from dashboard.index.money import BURN_REASONS, REASONS, SOURCES

Tell = Callable[[str, int, int], None]
STEPS = 4


class DrillStep(NamedTuple):
    """One step of a drill."""

    title: str
    actor: Address
    call: str
    """Contract and function; empty where only time passes."""
    after_s: int
    """Seconds of the protocol clock since the first step."""
    effect: str


class Change(NamedTuple):
    """One amount before and after the drill, in wei."""

    owner: str
    what: str
    before: int
    after: int


class Flow(NamedTuple):
    """Money that moved, in wei."""

    event: str
    reason: str
    account: str
    """Empty where no account gets it."""
    wei: int


class LaterAct(NamedTuple):
    """What the account could still do after the slash."""

    title: str
    call: str
    refusal: str
    """The contract's reason; empty if it is allowed."""
    note: str


class DrillReport(NamedTuple):
    """Everything that a drill found."""

    account: Address
    block: int
    slashed_wei: int
    steps: tuple[DrillStep, ...]
    changes: tuple[Change, ...]
    flows: tuple[Flow, ...]
    choices: tuple[LaterAct, ...]


class SlashDrill:
    """A slash of one operator on one fork."""

    def __init__(self, fork: ForkedChain, account: Address, receipts: int, tell: Tell) -> None:
        self._fork, self._account, self._receipts, self._tell = fork, account, receipts, tell
        self._reader = SnapshotReader(fork.client, fork.network)
        self._steps: list[DrillStep] = []
        self._began = 0

    def play(self) -> DrillReport:
        """Plays it. `ConfigurationError` if the account has nothing to lose here."""
        first = self._reader.head()
        snapshot = self._reader.snapshot(self._account, first)
        self._verify_role(snapshot.me)
        params = self._reader.params(snapshot.params_version, first)
        header, price = self._header(snapshot), snapshot.price_wei
        self._began, tower = snapshot.clock, self._fork.new_account()
        gift = self._receipts * price
        self._fork.fund(self._account, snapshot.me.balance_wei + gift)
        before = self._amounts(tower)
        self._withhold(header, gift, tower, params)
        after = self._amounts(tower)
        last = self._reader.head()
        slashed = before[self._account, "stake"] - after[self._account, "stake"]
        changes = [Change(*key, before[key], after[key]) for key in before]
        flows = tuple(flow for each in CourtHistory(self._reader).movements(first + 1, last) for flow in _flows(each))
        choices = tuple(self._choices(header, price, params))
        return DrillReport(self._account, first, slashed, tuple(self._steps), tuple(changes), flows, choices)

    def _verify_role(self, me: Holdings) -> None:
        if not me.is_operator:
            role = "a verifier: its penalties need a dispute in which it is drawn" if me.pool != ZERO_DIGEST else "no operator"
            raise ConfigurationError("account", f"{self._account} is {role}; this drill plays the slash of an operator")
        if me.stake_wei == 0:
            raise ConfigurationError("account", f"{self._account} has no stake: there is nothing to slash")
        if me.is_suspended:
            raise ConfigurationError("account", f"{self._account} is suspended: it can anchor no batch that could be withheld")

    def _header(self, snapshot: Snapshot) -> BatchHeader:
        """A batch like the newest of the operator, or of any: of a list that nobody has."""
        network = self._fork.network
        known = self._reader.batches(int(network.deploy_block), self._reader.head())
        own = [each for each in known if each.operator == self._account]
        if not known:
            raise ConfigurationError("network", "nobody has anchored a batch yet: there is no environment and model to name")
        like = (own or list(known))[-1]
        return BatchHeader(
            batch_id=0, operator=self._account, first_seq=U64(snapshot.me.last_seq + 1), count=U32(self._receipts),
            root=Digest(secrets.token_bytes(32)), list_hash=Digest(secrets.token_bytes(32)), environment=like.environment,
            model_id=like.model_id, key_epoch=U64(snapshot.active_epoch), locator="drill", anchored_at=U64(0), block=U64(0),
        )  # fmt: skip

    def _withhold(self, header: BatchHeader, fee_wei: int, tower: Address, params: ParamSet) -> None:
        me, (batch_id, count) = self._account, self._batch(header, fee_wei)
        bond = count * params.money.demand_bond
        subject = list_subject(self._fork.network.demands_domain, batch_id)
        call = ContractCall("Demands", "demandList", (batch_id,), bond)
        self._do("A watchtower demands the list", tower, call, f"bond {bond} wei")
        self._tell("the time to answer passes", 2, STEPS)
        self._fork.pass_time(params.times.cure + 1)
        self._note("You do not answer in time", me, "", f"{params.times.cure} s to answer (`cure`)")
        expire = ContractCall("Demands", "expire", (subject,), 0)
        self._do("The demand expires: the batch is void and you are slashed", tower, expire, "anybody may send this")

    def _batch(self, header: BatchHeader, fee_wei: int) -> tuple[int, int]:
        """Number and size of the batch that is withheld: a new one, or an open one if the operator can anchor no more."""
        call = _post(header, fee_wei)
        refusal = self._fork.refusal(self._account, call)
        head = self._reader.head()
        if not refusal:
            self._do("You anchor a batch whose list nobody can fetch", self._account, call, f"costs {fee_wei} wei")
            return self._reader.snapshot(self._account, self._reader.head()).batch_count - 1, int(header.count)
        for each in reversed(self._reader.batches(int(self._fork.network.deploy_block), head)):
            found = self._reader.batch(each.batch_id, head)
            if (
                each.operator == self._account
                and found is not None
                and found[1].window_end > self._began
                and not found[1].is_void
            ):
                self._note(
                    f"You withhold the list of batch {each.batch_id}", self._account, "", f"you can anchor none: {refusal}"
                )
                return int(each.batch_id), int(each.count)
        raise ConfigurationError("account", f"{self._account} has no open batch and can anchor none: {refusal}")

    def _do(self, title: str, actor: Address, call: ContractCall, effect: str) -> None:
        self._tell(title, len(self._steps), STEPS)
        self._fork.send(actor, call)
        self._note(title, actor, str(call), effect)

    def _note(self, title: str, actor: Address, call: str, effect: str) -> None:
        clock = self._reader.snapshot(ZERO_ADDRESS, self._reader.head()).clock
        self._steps.append(DrillStep(title, actor, call, clock - self._began, effect))

    def _amounts(self, tower: Address) -> dict[tuple[str, str], int]:
        head = self._reader.head()
        me, other, money = (
            self._reader.holdings(self._account, head), self._reader.holdings(tower, head), self._reader.money(head)
        )  # fmt: skip
        found = {
            (self._account, "balance"): me.balance_wei, (self._account, "stake"): me.stake_wei,
            (self._account, "stake that receipts lock"): me.collateral_wei,
            (self._account, "stake being withdrawn"): me.unbonding_wei, (self._account, "credit"): me.credit_wei,
            (tower, "balance"): other.balance_wei, (tower, "credit"): other.credit_wei,
            ("ledger", "burned"): money.total_burned, ("ledger", "treasury"): money.treasury,
        }  # fmt: skip
        return found

    def _choices(self, header: BatchHeader, price: int, params: ParamSet) -> list[LaterAct]:
        me = self._reader.holdings(self._account, self._reader.head())
        again = replace(header, first_seq=U64(me.last_seq + 1))
        vault = "EigenLayerStake" if self._fork.network.stake is StakeSource.EIGENLAYER else "StakeVault"
        acts: list[tuple[str, ContractCall, str]] = [
            ("anchor another batch", _post(again, self._receipts * price), f"free stake is {me.free_wei} wei"),
            ("withdraw credit", ContractCall("Ledger", "withdraw", (), 0), f"{me.credit_due_wei} of {me.credit_wei} wei are due"),
        ]
        if vault == "StakeVault":
            acts += [
                ("deposit more stake", ContractCall(vault, "deposit", (), 1), "at once"),
                (
                    "begin to withdraw stake",
                    ContractCall(vault, "requestUnbond", (me.stake_wei,), 0),
                    self._unlock(me, params),
                ),
                ("finish a withdrawal", ContractCall(vault, "finishUnbond", (), 0), "only after the delay"),
            ]
        return [LaterAct(title, str(call), self._fork.refusal(self._account, call), note) for title, call, note in acts]

    def _unlock(self, me: Holdings, params: ParamSet) -> str:
        """When stake could leave, as the fork says after the request."""
        if me.stake_wei == 0:
            return "no stake is left"
        with self._fork.rehearsal():
            self._fork.send(self._account, ContractCall("StakeVault", "requestUnbond", (me.stake_wei,), 0))
            head = self._reader.head()
            vault = self._fork.network.addresses.stake_vault
            seen = self._fork.client.call("StakeVault", vault, "unbondingOf", self._account, block=at_number(head))
            wait = seen["nextAt"] - self._reader.snapshot(self._account, head).clock
        delay = f"`unbond_delay` is {params.times.unbond_delay} s"
        return f"{me.stake_wei} wei unlock {wait} s later ({delay}); until then they can be slashed"


def _post(header: BatchHeader, fee_wei: int) -> ContractCall:
    fields = (
        header.first_seq, header.count, header.root, header.list_hash, header.environment, header.model_id, header.key_epoch,
        header.locator.encode(),
    )  # fmt: skip
    return ContractCall("ReceiptAnchor", "post", (fields,), fee_wei)


def _flows(moved: LedgerEvent) -> Sequence[Flow]:
    values: dict[str, Any] = moved.values
    if moved.event == "Taken":
        return [Flow("taken", SOURCES[values["source"]], values["from"], values["amount"])]
    if moved.event == "Credited":
        return [Flow("credited", REASONS[values["reason"]], values["account"], values["amount"])]
    if moved.event == "CreditedEach":
        return [Flow("credited", REASONS[values["reason"]], each, values["amount"]) for each in values["accounts"]]
    if moved.event == "Burned":
        return [Flow("burned", BURN_REASONS[values["reason"]], "", values["amount"])]
    return [Flow(moved.event.lower(), "", "", values["amount"])]
