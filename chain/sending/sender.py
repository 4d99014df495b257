"""The single sender of one account: every transaction is a row of the outbox before anything else happens (design section 2).

`pump` takes one non-blocking step for each open row, in order of nonces:

PLANNED: check the contract's state, dry-run, sign (bytes and nonce are committed), then broadcast.
SIGNED: broadcast the stored bytes, which is also the first step after a crash; raise the fee if nodes keep refusing them.
BROADCAST: look for the receipt of any version; send bytes again that nodes dropped; raise the fee of a stuck transaction within
bounds, and faster as its deadline comes closer; after the deadline, use the nonce for an empty transaction.
MINED: count confirmations; go back to BROADCAST if the block left the chain.

`FinalityTracker` watches ended rows, because a reorganisation may be deeper than the confirmations. If a nonce was used by none
of our versions, another process sent a transaction with our key. Sending then stops until a person resumes it.
"""

import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.decisions.snapshot import FINAL_AFTER
from bytewise.protocol.errors.actors import ChainReverted, LeaseStopped, RpcRefused
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.signing import Signer
from bytewise.protocol.units import Address
from bytewise.service import metrics, telemetry
from bytewise.storage.outbox import OPEN, Attempt, Intent, Outbox, OutboxItem, OutboxState, SignedTransaction
from chain.client.access import Chain
from chain.client.rpc import Block, Inclusion, at_number
from chain.sending.transactions import (
    EMPTY_GAS,
    TX_GAS_CAP,
    Fees,
    TransactionCall,
    fees_of,
    first_fees,
    is_empty,
    raised_fees,
    sign,
    tip_has_doubled,
    why_reverted,
)


def is_past(intent: Intent, head: Block) -> bool:
    """Returns whether the transaction's deadline is over at block `head`, in chain time."""
    return 0 < intent.deadline < head.timestamp


def seconds_left(intent: Intent, head: Block) -> int | None:
    """Returns the seconds of chain time from block `head` to the transaction's deadline. Returns None if there is no deadline."""
    return intent.deadline - head.timestamp if intent.deadline else None


def is_stale(intent: Intent, attempts: Sequence[Attempt], now: int) -> bool:
    """Returns whether the time limit for sending a transaction is over and no version of it was ever broadcast. `now` is in Unix
    seconds. A new request of the transaction can move the time limit."""
    return 0 < intent.broadcast_by < now and all(is_empty(each.raw) or each.broadcast_at is None for each in attempts)


def times_moved(old: Intent, new: Intent, now: int) -> bool:
    """Returns whether a planned transaction `old` gets the deadline and the time limit of a new request `new` for it.

    It does if the deadlines differ, or if the new time limit leaves more than twice as much time as the old one. A smaller
    change is not worth a write to the database.
    """
    return old.deadline != new.deadline or (new.broadcast_by > 0 and 2 * (old.broadcast_by - now) < new.broadcast_by - now)


def isolate_errors(function: str, step: Callable[[], None]) -> bool:
    """Takes a step for one transaction, and returns whether it succeeded. A failure is logged and counted, and the next tick
    tries again.

    Thus the failure of one transaction does not delay other transactions. `LeaseStopped` passes to the caller, because it stops
    all transactions of the account.
    """
    try:
        step()
        return True
    except LeaseStopped:
        raise
    except (Fault, Unavailable) as error:
        metrics.TX_STEP_FAILURES.labels(function=function, error=type(error).__name__).inc()
        telemetry.log_error("sender.step_failed", error, function=function)
        return False


class FinalityTracker:
    """Watches the ended rows of one outbox until their blocks are final or leave the chain (design section 2)."""

    def __init__(self, client: Chain, outbox: Outbox, final_after: int = FINAL_AFTER) -> None:
        self._client = client
        self._outbox = outbox
        self._final_after = final_after
        self._seen: Block | None = None

    def step(self, used: int, head: Block) -> None:
        """Checks the blocks of all ended rows. A row whose block left the chain goes back to BROADCAST. A row whose block is deep
        enough becomes FINAL.

        `used` is the account's number of transactions. If the head of the last step is still in the chain, all its ancestors are,
        too. Then only rows that are about to become FINAL are checked one by one.
        """
        moved, looked = self._seen is None or self._left(self._seen.number, self._seen.hash, head), True
        for item in self._outbox.leavable_rows():
            looked &= isolate_errors(item.intent.function, functools.partial(self._look, item, used, head, moved))
        isolate_errors("loose", functools.partial(self._push_loose, used))
        if looked:
            self._seen = head

    def _look(self, item: OutboxItem, used: int, head: Block, moved: bool) -> None:
        ripe = item.state is OutboxState.CONFIRMED and head.number - (item.block_number or 0) >= self._final_after
        if self._vanished(item, used, head, moved or ripe):
            self._outbox.mark(item.id, OutboxState.BROADCAST, detail="its block left the chain")
            telemetry.log("sender.reorganised", id=item.id, function=item.intent.function)
        elif ripe:
            self._outbox.mark(item.id, OutboxState.FINAL)

    def _vanished(self, item: OutboxItem, used: int, head: Block, look: bool) -> bool:
        assert item.nonce is not None, "rows without a nonce are not asked for"
        if item.nonce >= used:
            return True
        return look and item.block_number is not None and self._left(item.block_number, item.block_hash, head)

    def _left(self, number: int, block_hash: bytes | None, head: Block) -> bool:
        return number > head.number or self._client.block(number).hash != block_hash

    def _push_loose(self, used: int) -> None:
        """Sends the bytes of rows that were planned again under a later nonce. The later nonce cannot be mined before them."""
        for attempt in self._outbox.loose(used):
            try:
                self._client.broadcast(attempt.raw)
            except (RpcRefused, ChainReverted) as error:
                telemetry.log_error("sender.loose_not_accepted", error, nonce=attempt.nonce)


class StateAnswer(enum.Enum):
    """Decisions about a transaction that is not signed yet. The contracts' state or a dry run gives the decision."""

    GO = "send it"
    WAIT = "not yet"
    DONE = "somebody did it"
    LATE = "too late"
    REFUSED = "the contract would refuse it"


class SenderPolicy(NamedTuple):
    """Limits of one sender."""

    confirmations: int = 2
    """Number of blocks, including the transaction's block, after which a transaction counts as confirmed."""
    final_after: int = FINAL_AFTER
    """Number of blocks after which a confirmed transaction is no longer watched."""
    bump_after_s: int = 15
    """If a version has no receipt this many seconds of wall time after it was signed, a version with a higher fee is sent."""
    max_attempts: int = 6
    """Largest number of signed versions of one transaction. There may be more while the base fee makes the last version invalid,
    or a deadline comes close."""
    max_fee_wei: int = 500 * 10**9
    """Largest fee cap in wei per gas."""
    give_up_after_s: int = 3600
    """An unsigned transaction is dropped this many seconds of wall time after its row last changed, even if it could be sent
    now."""
    replan_after_s: int = 20
    """Seconds of wall time after an unsuccessful end before the same transaction may be planned again."""
    own_nonces: int = 0
    """All nonces below this number are known to be the account's own, even if the outbox does not have their bytes because it
    was restored from a backup."""


class TransactionSender:
    """Sends the transactions in one account's outbox. The functions `check` and `classify` judge a transaction by the rules of
    the contracts (`chain.acts.state_check`)."""

    def __init__(
        self,
        client: Chain,
        outbox: Outbox,
        signer: Signer,
        check: Callable[[Intent], StateAnswer],
        classify: Callable[[str, ChainReverted], StateAnswer],
        policy: SenderPolicy | None = None,
    ) -> None:
        self.client = client
        self.outbox = outbox
        self._signer = signer
        self._check = check
        self._classify = classify
        self._policy = policy or SenderPolicy()
        self._suspected_since: dict[int, int] = {}
        self._unmined_since: int | None = None
        """Unix second at which the first version of the oldest transaction that is in no block was signed."""
        self._finality = FinalityTracker(client, outbox, self._policy.final_after)

    def plan(self, intent: Intent, repeatable: bool = False) -> OutboxItem:
        """Plans a transaction that the caller has found to be due on the chain, and returns the outbox row of the transaction.

        If the transaction has no row, a new row is made. A row that ended without success at least `replan_after_s` seconds ago
        is planned again, because a reorganisation can undo the reason for its end. It is not planned again if it was signed
        `max_attempts` times, or if `intent` has other calldata and no time limit for sending.

        `repeatable` says that the contract accepts the transaction any number of times. Such a row is planned again only when
        its old bytes can no longer be mined.
        """
        item = self.outbox.plan(intent)
        # A vote has no time limit for sending. The content of a transaction with such a limit may change in a new request.
        same = item.intent.calldata == intent.calldata or intent.broadcast_by > 0
        if item.state in OPEN and same and times_moved(item.intent, intent, self.outbox.lease.clock.now()):
            # A round that was drawn again, in another block, ends at another time.
            self.outbox.lease.acquire()
            return self.outbox.set_times(item.id, intent.deadline, intent.broadcast_by)
        if item.state not in _ENDS.values() or not same:
            return item
        old_enough = self.outbox.lease.clock.now() - item.updated_at >= self._policy.replan_after_s
        if not old_enough or self._spent(item):
            return item
        if repeatable and not self._void(item):
            return item
        self.outbox.lease.acquire()
        return self.outbox.replan(item.id, intent)

    def withdraw(self, contract: Address, function: str, subject: bytes, role: str) -> bool:
        """Cancels a transaction that has no nonce yet.

        Returns whether no version of the transaction can be mined any more, so that another may take its place. For a
        transaction with a nonce, returns False until it ended without success and its nonce was used in a final block.
        """
        item = self.outbox.find(contract, function, subject, role)
        if item is None:
            return True
        if item.state is OutboxState.PLANNED:
            self.outbox.lease.acquire()
            item = self.outbox.mark(item.id, OutboxState.SUPERSEDED, detail="withdrawn")
        return item.state in _ENDS.values() and self._void(item)

    def pump(self) -> int:
        """Takes one step for every open row, and checks ended rows. Returns how many rows stay open.

        Raises `LeaseTaken` while another process writes for this account, `LeaseStopped` until a person resumes sending, and
        `Unavailable` while the node does not give its newest block. The next tick tries again.
        """
        if not self._pending() and not self.outbox.leavable_rows():
            return 0
        lease = self.outbox.lease
        lease.acquire()
        reason = lease.stop_reason()
        metrics.TX_STOPPED.set(bool(reason))
        if reason:
            raise LeaseStopped(lease.account, reason)
        # Read the count before the receipts: a nonce below it has its receipt on this node.
        used = self.client.nonce(self._signer.address)
        metrics.TX_NONCE.set(used)
        head = self.client.head()
        self._finality.step(used, head)
        self._unmined_since = None
        for item in self.outbox.open_rows():
            step = self._start if item.nonce is None else self._follow
            isolate_errors(item.intent.function, functools.partial(step, item, used, head))
        return len(self._pending())

    def _pending(self) -> tuple[OutboxItem, ...]:
        """Returns the open rows. Metrics show their number, and how long the oldest signed row has waited for a block."""
        found = self.outbox.open_rows()
        since = self._unmined_since
        metrics.TX_PENDING.set(len(found))
        metrics.TX_OLDEST.set(self.outbox.lease.clock.now() - since if since is not None and found else 0)
        return found

    def _spent(self, item: OutboxItem) -> bool:
        """Returns whether a transaction was signed too often to be planned again. Empty transactions do not count."""
        if sum(not is_empty(each.raw) for each in self.outbox.attempts(item.id)) < self._policy.max_attempts:
            return False
        telemetry.log("sender.not_planned", id=item.id, function=item.intent.function, why="signed too often")
        return True

    def _void(self, item: OutboxItem) -> bool:
        """Returns whether no version that was ever signed can be mined any more, because its nonce was used in a final block."""
        attempts, head = self.outbox.attempts(item.id), self.client.head()
        then = at_number(max(head.number - self._policy.final_after, 0))
        return not attempts or self.client.nonce(self._signer.address, then) > max(each.nonce for each in attempts)

    # --- not signed yet ---

    def _start(self, item: OutboxItem, used: int, head: Block) -> None:
        """Takes the step of a planned row: signs and broadcasts the transaction, lets it wait, or ends it."""
        answer, gas, why = self._ask(item.intent)
        now = self.outbox.lease.clock.now()
        if is_past(item.intent, head) or now - item.updated_at > self._policy.give_up_after_s:
            answer, why = StateAnswer.LATE, "deadline"
        elif is_stale(item.intent, (), now):
            answer, why = StateAnswer.LATE, "not handed in soon enough"
        if answer is StateAnswer.GO:
            fees = first_fees(head.base_fee_wei, seconds_left(item.intent, head), self._policy.max_fee_wei)
            attempt = self.outbox.sign(item.id, used, self._version_signer(item.intent, gas, fees))
            self._broadcast(item, attempt)
        elif answer is not StateAnswer.WAIT:
            self._end(item, _ENDS[answer], why)

    def _ask(self, intent: Intent) -> tuple[StateAnswer, int, str]:
        """Checks the contracts' state and makes a dry run. Returns the answer, a gas limit, and the contract's reason."""
        answer = self._check(intent)
        if answer is not StateAnswer.GO:
            return answer, 0, "round"
        request = {
            "from": self._signer.address, "to": intent.contract, "data": "0x" + intent.calldata.hex(),
            "value": hex(intent.value_wei),
        }  # fmt: skip
        try:
            estimate = self.client.estimate(request)
        except ChainReverted as error:
            return self._classify(intent.function, error), 0, str(error)
        except RpcRefused as error:
            # For example, the account has too little money. This transaction waits, and later ones go on.
            telemetry.log_error("sender.not_estimated", error, function=intent.function)
            return StateAnswer.WAIT, 0, str(error)
        # Add half, because a settlement or a draw may cost more in a later block than in the estimated one.
        return StateAnswer.GO, estimate + estimate // 2 + 20_000, ""

    # --- signed ---

    def _follow(self, item: OutboxItem, used: int, head: Block) -> None:
        """Takes the step of a signed row: looks for its receipt, and otherwise pushes it or finds that its nonce is used."""
        # Ignore versions of an earlier nonce: a row that was planned again is a new transaction.
        attempts = tuple(each for each in self.outbox.attempts(item.id) if each.nonce == item.nonce)
        found = self._receipt(attempts, head)
        if found is not None:
            self._suspected_since.pop(item.id, None)
            self._mined(item, *found, head)
            return
        if item.state is OutboxState.MINED:
            item = self.outbox.mark(item.id, OutboxState.BROADCAST, detail="its block left the chain")
            telemetry.log("sender.reorganised", id=item.id, function=item.intent.function)
        assert item.nonce is not None, "a signed row has a nonce"
        if item.nonce < used:
            self._check_foreign_nonce(item, head)
            return
        self._push(item, attempts, head)

    def _receipt(self, attempts: tuple[Attempt, ...], head: Block) -> tuple[Attempt, Inclusion] | None:
        """Returns the mined version and its receipt, if its block is in the chain. Returns None if no version is mined."""
        found = self.client.receipts([each.tx_hash for each in attempts], head)
        for attempt, receipt in zip(attempts, found, strict=True):
            if receipt is not None and self.client.block(receipt.number).hash == receipt.block_hash:
                return attempt, receipt
        return None

    def _mined(self, item: OutboxItem, attempt: Attempt, receipt: Inclusion, head: Block) -> None:
        """Notes the block of a mined version, and ends the row when the block has enough confirmations."""
        number, block_hash = receipt.number, receipt.block_hash
        if item.state is not OutboxState.MINED or item.block_hash != block_hash:
            item = self.outbox.mark(item.id, OutboxState.MINED, block_number=number, block_hash=block_hash)
        if head.number - number + 1 < self._policy.confirmations:
            return
        if is_empty(attempt.raw):
            self._end(item, OutboxState.EXPIRED, "deadline")
            return
        if receipt.succeeded:
            self.outbox.mark(item.id, OutboxState.CONFIRMED)
            metrics.TRANSACTIONS.labels(function=item.intent.function, state="confirmed").inc()
            metrics.TX_FEES.inc(receipt.gas_used * receipt.gas_price_wei)
            metrics.TX_CONFIRM_SECONDS.observe(self.outbox.lease.clock.now() - item.created_at)
            return
        intent = item.intent
        call = TransactionCall(self._signer, intent.contract, intent.calldata, intent.value_wei, receipt.gas_used * 2)
        self._end(item, OutboxState.REVERTED, why_reverted(self.client, call, number), block_number=number, block_hash=block_hash)

    def _check_foreign_nonce(self, item: OutboxItem, head: Block) -> None:
        """Ends a row whose nonce is used although none of its versions is mined. Stops all sending if another process used the
        nonce."""
        # One node may answer two calls from two states, so a single check proves nothing: check again in a later block.
        first = self._suspected_since.setdefault(item.id, head.number)
        if head.number <= first:
            return
        assert item.nonce is not None, "a signed row has a nonce"
        if item.nonce < self._policy.own_nonces:
            self._end(item, OutboxState.EXPIRED, "its nonce was used before the database was restored")
            return
        lease = self.outbox.lease
        lease.stop(f"nonce {item.nonce} was used by somebody else")
        self._end(item, OutboxState.REPLACED, "its nonce was used by somebody else")
        raise LeaseStopped(lease.account, lease.stop_reason())

    def _push(self, item: OutboxItem, attempts: tuple[Attempt, ...], head: Block) -> None:
        """Broadcasts a signed row again, with higher fees or as an empty transaction if that is due."""
        last, now = attempts[-1], self.outbox.lease.clock.now()
        self._unmined_since = min(self._unmined_since or now, attempts[0].signed_at)
        late = is_past(item.intent, head) or is_stale(item.intent, attempts, now)
        good = is_empty(last.raw) or not late
        # Broadcast stored bytes before making others: a crash may have come before their first broadcast.
        if good and item.state is OutboxState.SIGNED and self._broadcast(item, last):
            return
        higher = self._empty_version(last, head) if late else self._raised_version(item, attempts, head)
        if higher is not None:
            last = self.outbox.replace(item.id, higher)
            metrics.TX_BUMPS.inc()
            telemetry.log("sender.fee_raised", id=item.id, attempt=last.attempt, function=item.intent.function)
            self._broadcast(item, last)
        elif good and item.state is OutboxState.BROADCAST and not self.client.knows(last.tx_hash):
            self._broadcast(item, last)

    def _raised_version(
        self, item: OutboxItem, attempts: tuple[Attempt, ...], head: Block
    ) -> Callable[[int], SignedTransaction] | None:
        """Returns a function that signs a version with higher fees for a nonce.

        Returns None unless the last version is stuck, the transaction is still needed, and the ceiling allows a valid raise. No
        node accepts a version below the base fee, and every later transaction waits for its nonce. Then the fee is raised even if
        the transaction is no longer needed and will revert in its block.
        """
        (old, old_gas), remaining = fees_of(attempts[-1].raw), seconds_left(item.intent, head)
        fees = raised_fees(old, head.base_fee_wei, remaining, self._policy.max_fee_wei)
        invalid, hurry = old.max_fee < head.base_fee_wei, tip_has_doubled(old, remaining)
        spent = len(attempts) >= self._policy.max_attempts and not (invalid or hurry)
        if fees is None or spent or not (hurry or self._is_old(attempts[-1])):
            return None
        answer, gas, _ = self._ask(item.intent)
        if answer is not StateAnswer.GO and not (invalid or item.state is OutboxState.SIGNED):
            return None
        return self._version_signer(item.intent, max(gas, old_gas), fees)

    def _empty_version(self, last: Attempt, head: Block) -> Callable[[int], SignedTransaction] | None:
        """Returns a function that signs an empty transaction in place of one that is too late, because later transactions wait
        for its nonce. Returns None if an empty transaction was signed recently."""
        if is_empty(last.raw) and not self._is_old(last):
            return None
        old, _ = fees_of(last.raw)
        fees = raised_fees(old, head.base_fee_wei, None, self._policy.max_fee_wei) or old
        call = TransactionCall(self._signer, self._signer.address, b"", 0, EMPTY_GAS)
        return lambda nonce: SignedTransaction(*sign(self.client, call, nonce, fees))

    def _is_old(self, attempt: Attempt) -> bool:
        return self.outbox.lease.clock.now() - attempt.signed_at >= self._policy.bump_after_s

    def _broadcast(self, item: OutboxItem, attempt: Attempt) -> bool:
        """Sends a version to the node. Returns whether the node has it now."""
        try:
            self.client.broadcast(attempt.raw)
        except (RpcRefused, ChainReverted) as error:
            # "already known", "nonce too low": the next look finds the receipt. After any other answer the next tick tries again.
            telemetry.log_error("sender.not_accepted", error, id=item.id, function=item.intent.function)
            if not any(known in str(error).lower() for known in _HARMLESS):
                return False
        self.outbox.broadcast(item.id, attempt.tx_hash)
        return True

    def _version_signer(self, intent: Intent, gas: int, fees: Fees) -> Callable[[int], SignedTransaction]:
        call = TransactionCall(self._signer, intent.contract, intent.calldata, intent.value_wei, min(gas, TX_GAS_CAP))
        return lambda nonce: SignedTransaction(*sign(self.client, call, nonce, fees))

    def _end(self, item: OutboxItem, state: OutboxState, why: str, **block: Any) -> None:
        self.outbox.mark(item.id, state, detail=why, **block)
        telemetry.log("sender.ended", id=item.id, function=item.intent.function, state=state, why=why)
        metrics.TRANSACTIONS.labels(function=item.intent.function, state=state.lower()).inc()


_ENDS = {
    StateAnswer.DONE: OutboxState.SUPERSEDED,
    StateAnswer.LATE: OutboxState.EXPIRED,
    StateAnswer.REFUSED: OutboxState.REVERTED,
}

_HARMLESS = ("already known", "already imported", "nonce too low")
"""Answers of nodes to bytes that they already have, or to a nonce that is used in a block."""
