"""Converts answers of `Lens` and `Registry` to records. Fields have the names of `ILens` and `IRegistry` in snake case."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.sortition import may_audit
from bytewise.protocol.decisions.audits import PostedAudit
from bytewise.protocol.decisions.snapshot import (
    AnchoredBatch,
    Challenger,
    Dispute,
    DisputeOpening,
    Holdings,
    RoundSeats,
    Seat,
    Seed,
    Snapshot,
)
from bytewise.protocol.records.receipt import BatchHeader, EmptyLeaf, Receipt, SignedLeaf
from bytewise.protocol.records.statements import AuditResult, Verdict
from bytewise.protocol.units import U8, U32, U64, Address, Blob, Digest
from chain.client.artifacts import Log, from_struct

# Call every function inside `reading_answer`.

Raw = Mapping[str, Any]
"""A decoded struct of a contract."""

OPEN, ANSWERED = 1, 2
"""Numbers of two states of a demand (`IDemands.State`)."""


def audit_of(log: Log) -> PostedAudit:
    """Returns the posted audit result that an `AuditPosted` event shows."""
    v = log.values
    result = AuditResult(
        receipt_id=Digest(v["receiptId"]),
        verifier=Address(v["verifier"]),
        result=U8(v["result"]),
        commitment=Digest(v["commitment"]),
        audited_at=U64(v["auditedAt"]),
    )
    return PostedAudit(result, Blob(v["signature"]), v["batchId"])


def snapshot(raw: Raw, block_hash: Digest, openings: Sequence[DisputeOpening] = ()) -> Snapshot:
    """Returns a snapshot with the disputes of these openings."""
    return Snapshot(
        block_hash=block_hash,
        number=raw["number"],
        timestamp=raw["timestamp"],
        clock=raw["clock"],
        paused=raw["pausedUntil"] > raw["timestamp"],
        params_version=raw["paramsVersion"],
        required_bond_wei=raw["requiredBond"],
        price_wei=raw["price"],
        me=holdings(raw["account"]),
        disputes=disputes(raw["disputes"], openings),
        batch_count=raw["batchCount"],
        active_epoch=raw["activeEpoch"],
        policy=Digest(raw["policyDigest"]),
        policy_serial=raw["policySerial"],
    )


def holdings(raw: Raw) -> Holdings:
    """Returns stake, money and roles of an account."""
    return Holdings(
        balance_wei=raw["balance"],
        stake_wei=raw["stake"],
        free_wei=raw["free"],
        collateral_wei=raw["collateral"],
        unbonding_wei=raw["unbonding"],
        unbond_due_wei=raw["unbondDue"],
        credit_wei=raw["credit"],
        credit_due_wei=raw["creditDue"],
        operator_until=raw["operatorUntil"],
        last_seq=raw["lastSeq"],
        pool=Digest(raw["verifier"]["pool"]),
        joined_at=raw["verifier"]["joinedAt"],
        place=raw["place"],
    )


def disputes(raws: Sequence[Raw], openings: Sequence[DisputeOpening]) -> tuple[Dispute, ...]:
    """Returns the disputes with their current rounds, in the order of their openings. Disputes that this block does not have are
    left out."""
    pairs = zip(raws, openings, strict=True)
    return tuple(dispute(raw, opening.receipt_id) for raw, opening in pairs if raw["phase"])


def dispute(raw: Raw, receipt_id: Digest) -> Dispute:
    """Returns a dispute with its current round. `receipt_id` is the receipt that it is about."""
    d, r = raw["dispute"], raw["round"]
    return Dispute(
        id=Digest(raw["id"]), receipt_id=receipt_id, batch_id=d["batchId"], operator=Address(d["operator"]),
        environment=Digest(d["environment"]), claim=Digest(d["claim"]), key_epoch=d["keyEpoch"],
        params_version=d["paramsVersion"], phase=Phase(raw["phase"]), level=r["level"], round=d["round"], seats=r["seats"],
        drawn=r["drawn"], quorum=raw["quorum"], rearms=r["rearms"], seed=_seed(raw["seed"], r["seedBlock"]),
        round_seed=Digest(r["roundSeed"]), commit_s=raw["commitTime"], commit_end=r["commitEnd"],
        reveal_end=r["revealEnd"], settleable=raw["settleable"],
        certified_group=Digest(r["certifiedGroup"]), appealed=d["appealed"], appeal_bond_wei=raw["appealBond"],
        appeal_end=d["appealEnd"], airgap_end=d["airgapEnd"], held=raw["held"], verdict=Verdict(d["verdict"]),
        key=Digest(d["key"]), replacement=Digest(d["replacement"]), ended=raw["account"]["ended"], paid=raw["account"]["paid"],
        members=tuple(seat(each) for each in raw["members"]),
        challenger=Challenger(Address(d["challenger"]), raw["knew"]),
        rounds=tuple(RoundSeats(each["seats"], each["settled"]) for each in raw["rounds"]),
    )  # fmt: skip


def seat(raw: Raw) -> Seat:
    """Returns a member of a round, with its seats."""
    return Seat(Address(raw["voter"]), raw["seatMask"], Digest(raw["commitment"]), Digest(raw["group"]))


def anchored(raw: Raw) -> AnchoredBatch:
    """Returns a batch with the facts that its operator's duties need."""
    batch, demand = raw["batch"], raw["listDemand"]
    demanded = demand["state"] == OPEN
    return AnchoredBatch(
        batch_id=raw["id"],
        operator=Address(batch["operator"]),
        first_seq=batch["firstSeq"],
        params_version=batch["paramsVersion"],
        window_end=raw["windowEnd"],
        is_void=batch["isVoid"],
        released=batch["released"],
        list_demanded=demanded,
        list_deadline=demand["deadline"] if demanded else 0,
        list_answered=demand["state"] == ANSWERED,
        anchored_at=batch["anchoredAt"],
    )


def header(batch_id: int, raw: Raw, locator: bytes) -> BatchHeader:
    """Returns the header of a batch. `locator` comes from the batch's event, because the contract does not store it."""
    return BatchHeader(
        batch_id=batch_id,
        operator=Address(raw["operator"]),
        first_seq=U64(raw["firstSeq"]),
        count=U32(raw["count"]),
        root=Digest(raw["root"]),
        list_hash=Digest(raw["listHash"]),
        environment=Digest(raw["environment"]),
        model_id=Digest(raw["modelId"]),
        key_epoch=U64(raw["keyEpoch"]),
        # An operator can post any bytes. A locator that is no text cannot be fetched, and does no harm.
        locator=locator.decode("utf-8", "replace"),
        anchored_at=U64(raw["anchoredAt"]),
        block=U64(raw["blockNumber"]),
    )


def leaves(arguments: Sequence[Any]) -> tuple[SignedLeaf, ...]:
    """Returns the leaves in the arguments of `answerList`. A receipt of mode 0 represents the empty leaf of its number."""
    _, _, receipts, signatures = arguments
    return tuple(SignedLeaf(_leaf(raw), Blob(sig)) for raw, sig in zip(receipts, signatures, strict=True))


def _leaf(raw: Raw) -> Receipt | EmptyLeaf:
    receipt = from_struct(Receipt, raw)
    return receipt if receipt.mode else EmptyLeaf(receipt.operator, receipt.seq, receipt.chain_id)


def _seed(raw: Raw, block: int) -> Seed:
    return Seed(block, raw["lost"], raw["drawable"])


class Status(enum.IntEnum):
    """Status of an environment or a model."""

    NONE = 0
    PROPOSED = 1
    ACTIVE = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class RegistryItem:
    """An environment or a model in the registry."""

    status: Status
    """Status of the item."""
    pool: Digest
    """Pool that judges an environment; zero for a model."""
    vectors: Digest
    """Digest of the golden vectors' results that certifiers must reproduce."""
    certified: int
    """Weight of the verifiers that certified the item, in units of stake. For a model, of all pools."""
    certify_until: int
    """Last second of the protocol clock in which verifiers can certify the item."""
    anchor_until: int
    """Last second of the protocol clock in which batches of the item can be anchored: the largest number while the item is
    ACTIVE, 0 before."""


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool and its running stake epoch, with first and last block."""

    pool: Digest
    """Digest of the pool."""
    tree: Address
    """Address of the pool's stake tree."""
    epoch: int
    """Number of the running stake epoch."""
    epoch_start: int
    """First block of the running stake epoch."""
    epoch_end: int
    """Last block of the running stake epoch."""
    units: int
    """Weight of all verifiers in the running stake epoch, in units of stake."""
    weighing: int
    """Number of verifiers with weight from the next stake epoch on."""
    seatable: bool
    """Whether the pool had enough verifiers with weight when a weight last changed. Enough means `min_pool`, or the lower value
    from before a vote raised it, until the pool has twice the new value."""
    stopped: int
    """Seconds of the protocol clock for which the challenge windows of the pool have stood still in all."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The pool of a verifier, its machine and its enclave measurement."""

    pool: Digest
    """Digest of the pool; zero if the account is no verifier."""
    platform_id: Digest
    """Id of the verifier's machine. No two verifiers have the same."""
    measurement: Digest
    """Measurement of the verifier's enclave."""
    joined_at: int
    """Number of the block in which the verifier joined."""


@dataclass(frozen=True, slots=True)
class PoolMember:
    """A verifier at its place in a pool's stake tree. `units` are its weight in the running stake epoch."""

    account: Address
    """Account of the verifier."""
    place: int
    """Number of the place in the stake tree."""
    units: int
    """Weight in the running stake epoch, in units of stake."""
    stake: int
    """Stake in wei."""
    verifier: Membership
    """The account's present membership."""

    def may_audit(self, judging_pool: Digest, batch_block: int) -> bool:
        """Returns whether the verifier may audit the receipts of a batch (`sortition.may_audit`)."""
        return may_audit(self.verifier.pool, self.verifier.joined_at, judging_pool, batch_block)


@dataclass(frozen=True, slots=True)
class MoneyTotals:
    """The sums of all money in the network at one block, in wei."""

    vault_balance: int
    """Balance of the vault."""
    ledger_balance: int
    """Balance of the ledger."""
    total_stake: int
    """Stake of all accounts."""
    total_unbonding: int
    """Stake of all accounts that is being withdrawn."""
    total_pots: int
    """Money in all pots."""
    total_credits: int
    """Money that the ledger owes to accounts."""
    treasury: int
    """Money in the treasury."""
    total_burned: int
    """Money that was burned. It stays in the ledger."""
    audit_pool: int
    """Money for bounties of light audits."""

    @property
    def sums(self) -> bool:
        """Whether the parts add up to the balances of the contracts."""
        held = self.total_pots + self.total_credits + self.treasury + self.total_burned
        return self.vault_balance == self._staked and self.ledger_balance == held

    @property
    def _staked(self) -> int:
        return self.total_stake + self.total_unbonding


class RestakedTotals(MoneyTotals):
    """The sums of all money in a network whose stake EigenLayer has. `total_stake` is the recorded stake, which is not in this
    network's contracts."""

    @property
    def _staked(self) -> int:
        return 0
