"""The metrics and the checks of `/readyz` that a duty process sets at each block.

The checks show whether the node can do its duties now. Without them nothing would show a missing stake, registration, balance or
enclave before a duty is due.

`ShardPresence` asks each shard of the key epoch whether its share is in force. An enclave that reaches fewer shards than the
threshold gets no key, and its seat then loses money.
"""

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Dispute, RegisteredMeasurement, Snapshot
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.jobs import EpochRecord, ShardRecord
from bytewise.protocol.keys.epochs import ShardInfo
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest, hex0x
from bytewise.service import metrics
from bytewise.service.clock import monotonic_s
from bytewise.service.readiness import ChainHead, Check, ReadinessRegistry, rounded_ether
from kms.shard_client import ShardClient
from verifier.settings import Role

SHARDS_EVERY_S = 60.0
"""Seconds between two questions to the shards, because shards limit the rate of unknown callers."""
SHARD_TIMEOUT_S = 2.0
"""Seconds to wait for the answer of one shard."""
_SHARDS_AT_ONCE = 16

_SHARDS_ADVICE = "Find out whether the network or the shards are down; below the threshold no receipt can be opened."


def is_ready(shard: ShardRecord) -> bool:
    """Returns whether the shard answers that its share is in force."""
    try:
        with ShardClient(shard, SHARD_TIMEOUT_S) as client:
            return decode(ShardInfo, client.call("GET", "/v1/info", b"")).in_force is True
    except BytewiseError:
        return False


class ShardPresence:
    """The check that enough shards of the active key epoch are ready. The tick sets the epoch, and `/readyz` reads the check.
    If no epoch is active any more, the check stays at the last one."""

    def __init__(self, ask: Callable[[ShardRecord], bool] = is_ready, monotonic: Callable[[], float] = monotonic_s) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._record: EpochRecord | None = None
        self._last: tuple[float, Check] | None = None

    def note(self, record: EpochRecord) -> None:
        """Sets the active key epoch, whose shards the check asks."""
        with self._lock:
            self._record, self._last = record, None
        metrics.SHARDS_THRESHOLD.set(record.threshold)

    def check(self) -> Check:
        """Returns a check that passes if at least as many shards are ready as the threshold says. The answer is at most
        `SHARDS_EVERY_S` seconds old."""
        with self._lock:
            record, last = self._record, self._last
        if record is None:
            return Check("key_shards", False, "the key epoch was not read yet", "a key epoch", _SHARDS_ADVICE)
        if last is not None and self._monotonic() - last[0] < SHARDS_EVERY_S:
            return last[1]
        with ThreadPoolExecutor(_SHARDS_AT_ONCE, "shards") as pool:
            ready = sum(pool.map(self._ask, record.shards))
        metrics.SHARDS_READY.set(ready)
        value, threshold = f"{ready} of {len(record.shards)} are ready", f"at least {record.threshold}"
        found = Check("key_shards", ready >= record.threshold, value, threshold, _SHARDS_ADVICE)
        with self._lock:
            self._last = (self._monotonic(), found)
        return found


JUDGES = frozenset({Role.VERIFIER, Role.MEMBER})
"""Roles with stake and an enclave."""
JUDGE_GAS, WATCHTOWER_GAS = 1_000_000, 2_000_000
"""Most gas that an account may have to pay for one dispute at once (`bench/results/gas.json`). A judge pays for a commitment, a
reveal with a quote, and a settlement. A watchtower pays for opening the dispute, a demand, and opening its committed answer."""

MEASUREMENT_BLOCKS = 25
"""Blocks between two reads of the registered measurement, each of which takes four calls. 25 blocks of 12 s are five minutes."""


class ObservedChain(Protocol):
    """The part of the chain that the observer reads. The observer asks for the parameters at each block; the reader keeps each
    version. The observer reads a key epoch when it becomes active, and the registered measurement every `MEASUREMENT_BLOCKS`
    blocks."""

    def params(self, version: int, block: int) -> ParamSet:
        """Returns one version of the network's parameters."""
        ...

    def epoch(self, epoch: int, block: int) -> EpochRecord:
        """Returns a key epoch with the addresses and keys of its shards."""
        ...

    def registered_measurement(self, who: Address, block: int) -> RegisteredMeasurement | None:
        """Returns the measurement with which a verifier joined its pool. Returns None if the account is in no pool."""
        ...


def required_wei(snapshot: Snapshot, role: Role, params: ParamSet, max_fee_wei: int, demand_budget_wei: int) -> int:
    """Returns the balance in wei that an account needs in the worst case. `max_fee_wei` is the highest fee per gas that the
    account pays. If it is 0, the account sends nothing and the result is 0. A watchtower also needs the bond of a dispute, and
    the bond of a demand for the list of a full batch. At most `demand_budget_wei` of the demand's bond is counted."""
    if max_fee_wei == 0:
        return 0
    if role in JUDGES:
        return JUDGE_GAS * max_fee_wei
    longest_list_wei = params.money.demand_bond * params.shares.max_batch
    return WATCHTOWER_GAS * max_fee_wei + snapshot.required_bond_wei + min(longest_list_wei, demand_budget_wei)


class NodeObserver:
    """The observer that sets metrics and records checks. The node calls `observe` once for each snapshot."""

    def __init__(
        self, readiness: ReadinessRegistry, head: ChainHead, chain: ObservedChain, me: Address, role: Role, max_fee_wei: int,
        demand_budget_wei: int, note_policy: Callable[[Digest, int], object] = lambda _digest, _block: None,
    ) -> None:  # fmt: skip
        """`max_fee_wei` is the largest fee per gas that the account pays, or 0 if it sends nothing. `demand_budget_wei` is the
        largest sum of bonds of its demands, or 0 if it makes no demands.

        The observer calls `note_policy` with the digest of each new appraisal policy and the block. The enclave checks need that
        policy.
        """
        self._readiness = readiness
        self._head = head
        self._chain = chain
        self._me = me
        self._role = role
        self._max_fee_wei, self._demand_budget_wei = max_fee_wei, demand_budget_wei
        self._shards = ShardPresence()
        self._epoch = 0
        self._note_policy = note_policy
        self._policy = ZERO_DIGEST
        self._registered: RegisteredMeasurement | None = None
        self._read_for: object = None
        head.add_checks(readiness)
        if role in JUDGES:
            readiness.add("key_shards", self._shards.check)

    def observe(self, snapshot: Snapshot) -> None:
        """Sets the metrics and checks for this block."""
        self._head.note(snapshot.number, snapshot.timestamp)
        metrics.BALANCE.set(snapshot.me.balance_wei)
        metrics.STAKE.set(snapshot.me.stake_wei)
        metrics.PARAMS_VERSION.set(snapshot.params_version)
        set_disputes(snapshot, self._me)
        params = self._chain.params(snapshot.params_version, snapshot.number)
        required = required_wei(snapshot, self._role, params, self._max_fee_wei, self._demand_budget_wei)
        metrics.REQUIRED.set(required)
        checks = [
            Check(
                "balance", snapshot.me.balance_wei >= required, rounded_ether(snapshot.me.balance_wei),
                f"at least {rounded_ether(required)}", f"Send ETH to {self._me}.",
            ),
            Check(
                "key_epoch", snapshot.active_epoch != 0, f"epoch {snapshot.active_epoch}", "an active key epoch",
                "Nothing to do here: the shards' ceremony has to end before receipts can be sealed.",
            ),
        ]  # fmt: skip
        if self._role in JUDGES:
            checks += _membership(snapshot, params, self._me)
        self._readiness.record(checks)
        if snapshot.active_epoch not in (0, self._epoch):
            self._shards.note(self._chain.epoch(snapshot.active_epoch, snapshot.number))
            self._epoch = snapshot.active_epoch
        if snapshot.policy != self._policy:
            self._note_policy(snapshot.policy, snapshot.number)
            self._policy = snapshot.policy
        if self._role in JUDGES:
            is_enough = snapshot.me.stake_wei >= params.money.min_verifier_stake
            registered = self._own_measurement(snapshot)
            metrics.MEASUREMENT_ALLOWED.set(math.nan if registered is None else registered.is_allowed)
            self._readiness.record([measurement_check(registered, self._me, is_enough)])

    def _own_measurement(self, snapshot: Snapshot) -> RegisteredMeasurement | None:
        """Returns the registered measurement. It is read again every `MEASUREMENT_BLOCKS` blocks and after each registration."""
        read_for = snapshot.number // MEASUREMENT_BLOCKS, snapshot.me.pool, snapshot.me.joined_at
        if read_for != self._read_for:
            self._registered = self._chain.registered_measurement(self._me, snapshot.number)
            self._read_for = read_for
        return self._registered


def _membership(snapshot: Snapshot, params: ParamSet, me: Address) -> list[Check]:
    registered, least = any(snapshot.me.pool), params.money.min_verifier_stake
    return [
        Check(
            "registration", registered, f"pool 0x{snapshot.me.pool.hex()[:8]}" if registered else "no pool",
            "a verifier of a pool", f"Register {me} as a verifier.",
        ),
        Check(
            "stake", snapshot.me.stake_wei >= least, rounded_ether(snapshot.me.stake_wei), f"at least {rounded_ether(least)}",
            f"Stake for {me}: below this it is never drawn.",
        ),
    ]  # fmt: skip


def measurement_check(found: RegisteredMeasurement | None, me: Address, is_enough: bool) -> Check:
    """Returns the check of `found`, the measurement with which the account joined its pool. It fails if the network no longer
    allows the measurement. It also fails if the account has enough stake (`is_enough`) but no weight in the next stake epoch."""
    name, threshold = "registered_measurement", "allowed, and units for a stake that suffices"
    if found is None:
        return Check(name, True, "not registered", threshold, "See the check `registration`.")
    again = (
        "Run the release that the network approved, stop the node, and register again: `bytewise verifier register --stake WEI "
        "--measurement …` (docs/guide/upgrade-a-node.md)."
    )
    renew = f"Renew the weight from any other account: `bytewise chain call Registry refresh {me} --key FILE --send`."
    value = f"{hex0x(found.measurement)[:18]}… is {'' if found.is_allowed else 'not '}allowed"
    return Check(
        name, found.is_allowed and (found.next_units > 0 or not is_enough),
        f"{value}, {found.next_units} units from the next stake epoch on", threshold,
        renew if found.is_allowed else again,
    )  # fmt: skip


def set_disputes(snapshot: Snapshot, me: Address) -> None:
    """Sets the metrics of the disputes that can still change, and of the next deadline of a seat of account `me`."""
    parts = {"member": 0, "challenger": 0, "observer": 0}
    for dispute in snapshot.disputes:
        parts[_part_in(dispute, me)] += 1
    for part, number in parts.items():
        metrics.DISPUTES_OPEN.labels(role=part).set(number)
    for stage, phase in (("commit", Phase.COMMIT), ("reveal", Phase.REVEAL)):
        due = [each for each in snapshot.disputes if each.phase is phase and _is_due(each, phase, me)]
        ends = [(each.commit_end, each.commit_s) for each in due] if phase is Phase.COMMIT else [
            (each.reveal_end, each.reveal_end - each.commit_end) for each in due
        ]  # fmt: skip
        end, length = min(ends, default=(math.inf, math.inf))
        metrics.DISPUTE_DEADLINE.labels(stage=stage).set(end - snapshot.clock)
        metrics.DISPUTE_STAGE.labels(stage=stage).set(length)


def _part_in(dispute: Dispute, me: Address) -> str:
    if dispute.seat_of(me) is not None:
        return "member"
    return "challenger" if dispute.challenger.account == me else "observer"


def _is_due(dispute: Dispute, phase: Phase, me: Address) -> bool:
    """Returns whether a seat of account `me` still has to act in this phase. A seat without a commitment has nothing to
    reveal."""
    seat = dispute.seat_of(me)
    if seat is None:
        return False
    return not seat.committed if phase is Phase.COMMIT else any(seat.commitment)
