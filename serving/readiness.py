"""The state of the chain that decides whether this operator may serve. The operator reads it at one block, and uses it for a
limited time."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from bytewise.crypto.envelope import sealing_key
from bytewise.protocol.court.params import Money, ParamSet
from bytewise.protocol.decisions.snapshot import Holdings
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.jobs import EpochRecord
from bytewise.service.readiness import ChainHead, Check, ReadinessRegistry, rounded_ether
from serving.settings import AcceptSettings

OPERATOR_GAS = 2_000_000
"""Gas for which an operator must be able to pay at once (`bench/results/gas.json`). It covers a batch after the longest silence,
an appeal, and almost every answer to a demand. Only the answer with the longest list takes more, up to 5 million gas. If the fee
is at most two fifths of the highest fee, the money for this amount pays for that answer, too."""
NO_EPOCH = "no key epoch is open, or the operator's network.json lacks it"
"""Reason to refuse requests. The chain may have a key epoch that the address book lacks, because the operator reads the address
book only at its start."""
FEE_MARGIN = 2
"""Factor by which the operator sends a larger fee than the present price of anchoring. The price rises by at most an eighth in
each of its epochs, and the contract returns the surplus."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """One reading of the chain for this operator."""

    number: int
    """Number of the block."""
    timestamp: int
    """Time of the block in Unix seconds. Expiry and anchoring are measured by this time."""
    epoch: EpochRecord | None
    """Key epoch to which answers are sealed, or None if none is active."""
    environment_active: bool
    """Whether the registry lists the operator's environment as ACTIVE."""
    model_active: bool
    """Whether the registry lists the operator's model as ACTIVE."""
    registered: bool
    """Whether the account is a registered operator."""
    suspended: bool
    """Whether too many disputes about the operator's receipts ended in a DRAW. The contract then accepts the operator's batches
    for `max_anchor_delay_s` more, so that receipts that were signed before can be anchored."""
    last_seq: int
    """Number of the operator's last anchored receipt, or 0 before the first."""
    judged: bool
    """Whether enough verifiers can judge the operator's answers. Without them the contract accepts no batch."""
    room: int
    """Number of receipts after the last anchored receipt that the operator can still anchor, even if the earlier receipts are
    disputed. It is 0 if open receipts leave less free stake than the whole minimum, one slash and the collateral of one receipt
    together."""
    price_wei: int
    """Price of anchoring one receipt, in wei."""
    most: int
    """Most receipts that the contract accepts in one batch, with the operator's present free stake. The batcher builds no larger
    batch, because the contract would refuse it, and a stored batch does not become smaller."""
    paused: bool
    """Whether the guardian has stopped the protocol clock. The contract accepts no batch during a pause."""
    pause_s: int
    """Longest pause, in seconds, that can begin while a request waits. A pause does not extend a request, because a request
    expires by wall time."""
    max_anchor_delay_s: int
    """Longest time from signing to anchoring that the network accepts, in seconds."""
    balance_wei: int
    """Balance of the operator's account, in wei."""
    required_wei: int
    """Balance in wei that the operator's account needs in the worst case (`operator_required_wei`)."""
    epoch_refusal: str | None = None
    """Reason why the settings forbid to seal answers to the key epoch, or None if they allow it (`epoch_refusal`)."""

    @property
    def closed_because(self) -> str | None:
        """Reason why the operator may accept no request now. None if it may accept requests."""
        for good, reason in (
            (not self.paused, "the network is paused"),
            (self.registered, "this operator is not registered"),
            (not self.suspended, "this operator is suspended: too many disputes about its receipts ended in a draw"),
            (self.environment_active, "this environment is not active"),
            (self.model_active, "this model is not active"),
            (self.epoch is not None, NO_EPOCH),
            (self.epoch_refusal is None, self.epoch_refusal),
            (self.judged, "too few verifiers could judge an answer"),
            (self.room > 0, "no free stake is left to bind"),
            (self.balance_wei >= self.required_wei, "the account has too little ether"),
        ):
            if not good:
                return reason
        return None

    def promise_s(self, wanted_s: int) -> int:
        """Returns the seconds from signing a receipt to its time `anchorBy`: `wanted_s`, but at most the network's longest
        delay.

        Clients are told not to accept a receipt with a later `anchorBy`, because nobody can demand its anchoring before that
        time.
        """
        return min(wanted_s, self.max_anchor_delay_s)

    def verify_room(self, last: int) -> int:
        """Returns receipt number `last` if the operator can anchor that receipt and all before it. Raises `TryAgain` if stake
        is missing.

        The operator calls this before it signs. A receipt that it cannot anchor before the request expires costs a penalty.
        """
        if last > self.last_seq + self.room:
            raise TryAgain("operator", "no free stake is left to bind")
        return last


def epoch_refusal(epoch: EpochRecord, accept: AcceptSettings) -> str | None:
    """Returns the reason why the settings forbid to seal answers to a key epoch. The reason names the missing setting. Returns
    None if the settings allow it."""
    try:
        sealing_key(epoch, accept.simulated, accept.rebuilt)
    except ConfigurationError as error:
        return " ".join(map(str, error.values))
    return None


def least_stake_wei(me: Holdings, money: Money) -> int:
    """Returns the least stake in wei with which an operator may accept one more request.

    It is the sum of three amounts: the collateral of all open receipts and of one more, one slash, and the free stake that the
    contract requires before it binds more. One slash is enough, because all open disputes together take at most one slash from
    the free stake.
    """
    return me.collateral_wei + money.slash_amount + money.min_operator_stake + money.receipt_collateral


def receipt_room(me: Holdings, money: Money) -> int:
    """Returns the number of further receipts for which the operator has enough stake, even if earlier receipts are disputed."""
    return max(0, 1 + (me.stake_wei - least_stake_wei(me, money)) // money.receipt_collateral)


def operator_required_wei(params: ParamSet, price_wei: int, max_fee_wei: int) -> int:
    """Returns the balance in wei that an operator's account needs in the worst case.

    It is the sum of three amounts: `OPERATOR_GAS` at `max_fee_wei` (the highest fee per gas that the account pays),
    `FEE_MARGIN` times the price of anchoring a full batch, and the bond of the most expensive appeal. With a smaller balance
    the operator accepts no request, because a receipt that it cannot anchor costs a penalty.
    """
    appeals = map(params.appeal_bond, range(2, params.committee.rounds + 1))
    anchoring_wei = FEE_MARGIN * params.shares.max_batch * price_wei
    return OPERATOR_GAS * max_fee_wei + anchoring_wei + max(appeals, default=0)


def operator_checks(readiness: Readiness, behind: str | None) -> tuple[Check, ...]:
    """Returns the checks of `/readyz` for one reading of the chain. `behind` is the reason why anchoring is too late, or None
    if it is in time."""
    closed = readiness.closed_because or behind
    return (
        Check(
            "registration", readiness.registered, "registered" if readiness.registered else "not registered",
            "a registered operator", "Register the account as an operator and stake for it.",
        ),
        Check(
            "suspension", not readiness.suspended, "suspended" if readiness.suspended else "not suspended", "not suspended",
            "Too many disputes about your receipts ended in a draw: find out why your envelopes are not found.",
        ),
        Check(
            "stake", readiness.room > 0, f"room for {readiness.room} receipts", "room for a receipt",
            "Add stake, or wait until open receipts free what they bind.",
        ),
        Check(
            "balance", readiness.balance_wei >= readiness.required_wei, rounded_ether(readiness.balance_wei),
            f"at least {rounded_ether(readiness.required_wei)}", "Send ETH to the operator's account.",
        ),
        Check(
            "serving", closed is None, closed or "requests are accepted", "requests are accepted",
            "See the reason; requests are answered 503 meanwhile.",
        ),
    )  # fmt: skip


class ReadinessWatch:
    """The last reading of the chain, which is valid for `fresh_s` seconds. The tick of the batcher writes it, and every request
    reads it."""

    def __init__(
        self, fresh_s: float, monotonic: Callable[[], float], registry: ReadinessRegistry | None = None,
        head: ChainHead | None = None,
    ) -> None:  # fmt: skip
        """Gives each reading to `registry` and `head`, for the checks of `/readyz`."""
        self._registry = registry
        self._head = head
        self._fresh_s = fresh_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._held: tuple[float, Readiness] | None = None
        self._behind: str | None = None

    def update(self, readiness: Readiness, behind: str | None) -> None:
        """Stores a new reading. `behind` is the reason why anchoring is too late to accept more requests, or None if it is in
        time."""
        with self._lock:
            self._held = (self._monotonic(), readiness)
            self._behind = behind
        if self._head is not None:
            self._head.note(readiness.number, readiness.timestamp)
        if self._registry is not None:
            self._registry.record(operator_checks(readiness, behind))
            self._registry.started()

    def open(self) -> tuple[Readiness, EpochRecord]:
        """Returns the last reading and the key epoch to which answers are sealed. Raises `TryAgain` with the reason if the
        operator may not accept a request."""
        with self._lock:
            held, behind = self._held, self._behind
        if held is None or self._monotonic() - held[0] > self._fresh_s:
            raise TryAgain("chain", "no fresh block was read")
        readiness = held[1]
        reason = readiness.closed_because or behind
        if reason is not None or readiness.epoch is None:
            raise TryAgain("operator", reason or NO_EPOCH)
        return readiness, readiness.epoch
