"""Typed reads of the network, each at a named block (implements `bytewise.ports.ChainView`).

There is no default block: `head()` names one, and everything that serves one decision is read at that one (design section 2).
"""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.dispute import Dispute, Member, Params, Phase, Snapshot
from bytewise.protocol.errors import ChainReverted, ConfigurationError
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys import EpochState
from bytewise.protocol.ledger import Money
from bytewise.protocol.messages import AuditResult, Verdict
from bytewise.protocol.network import Network
from bytewise.protocol.receipt import BatchHeader, SignedReceipt
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import U8, U32, U64, ZERO_ADDRESS, Address, Blob, Digest
from chain.access import Chain
from chain.artifacts import Log
from chain.blocks import BlockReader
from chain.client import at_hash, at_number, reading_answer
from chain.epochs import pinned_epoch

DISPUTES_PER_SNAPSHOT = 64
"""Disputes in one call: some 10 million gas, below any node's cap for `eth_call`."""


class ChainReader(BlockReader):
    """Reads one network through one node, or several that agree. `tag` is the finality of `head`: latest, safe or finalized."""

    def __init__(self, client: Chain, network: Network, tag: str = "latest") -> None:
        if network.chain_id != client.chain_id:
            raise ConfigurationError("network.json", f"for chain {network.chain_id}, not {client.chain_id}")
        super().__init__(client, tag)
        self.network = network
        self._at = network.addresses

    # --- one view for one decision ---

    def snapshot(self, who: Address, block: int, from_dispute: int = 0) -> Snapshot:
        """Everything a decision needs, at one block: at most `DISPUTES_PER_SNAPSHOT` disputes from index `from_dispute` on."""
        seen = self.client.block(block)
        raw = self.client.call(
            "Lens", self._at.lens, "snapshot", who, from_dispute, DISPUTES_PER_SNAPSHOT, block=at_hash(seen.hash)
        )
        return Snapshot(
            block_hash=seen.hash,
            number=raw["number"],
            timestamp=raw["timestamp"],
            params=_params(raw["params"], raw["requiredBond"]),
            disputes=tuple(_dispute(each) for each in raw["disputes"]),
            dispute_count=raw["disputeCount"],
            verifiers=tuple((Address(each["verifier"]), each["stake"]) for each in raw["verifiers"]),
            credit_wei=raw["whoCredit"],
            active_epoch=raw["activeEpoch"],
            policy=Digest(raw["policyDigest"]),
        )

    def dispute(self, dispute: Digest, block: int) -> Dispute | None:
        """One dispute with its current round, or None if it does not exist."""
        raw = self.client.call("Lens", self._at.lens, "disputeView", dispute, block=at_number(block))
        return _dispute(raw) if raw["phase"] else None

    def members(self, dispute: Digest, round_number: int, block: int) -> tuple[Member, ...]:
        """Members of any round of a dispute, in the order in which they were first drawn."""
        raw = self.client.call("Lens", self._at.lens, "membersOf", dispute, round_number, block=at_number(block))
        return tuple(_member(each) for each in raw)

    def params(self, block: int) -> Params:
        """The parameters in force."""
        raw = self.client.call("Params", self._at.params, "get", block=at_number(block))
        bond = self.client.call("Params", self._at.params, "requiredBond", block=at_number(block))
        return _params(raw, bond)

    # --- receipts ---

    def batches(self, from_block: int, to_block: int) -> tuple[BatchHeader, ...]:
        """Batches anchored in these blocks, oldest first."""
        logs = self.client.logs("ReceiptAnchor", self._at.receipt_anchor, ["BatchAnchored"], from_block, to_block)
        return tuple(batch_of(log) for log in logs)

    def batch(self, batch_id: int, block: int) -> BatchHeader | None:
        """A batch by its id, as of a block; None if there is none."""
        try:
            raw = self.client.call("Lens", self._at.lens, "batch", batch_id, block=at_number(block))
        except ChainReverted as error:
            if "UnknownBatch" in str(error):
                return None
            raise
        return _batch(batch_id, raw["operator"], raw["header"], raw["anchoredAt"], raw["blockNumber"])

    def last_seq(self, operator: Address, block: int) -> int:
        """The operator's last anchored receipt number; 0 before its first batch."""
        return int(self.client.call("ReceiptAnchor", self._at.receipt_anchor, "lastSeq", operator, block=at_number(block)))

    def verify_final(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], block: int) -> SignedReceipt:
        """The receipt, if the chain says at this block that it is accepted for good; `ChainReverted` names why not."""
        arguments = (struct_values(signed.receipt), signed.signature, batch_id, proof)
        self.client.call("ReceiptAnchor", self._at.receipt_anchor, "isFinal", *arguments, block=at_number(block))
        return signed

    def audits(self, from_block: int, to_block: int) -> tuple[tuple[AuditResult, Blob], ...]:
        """Audit results posted in these blocks, with their signatures."""
        logs = self.client.logs("Disputes", self._at.disputes, ["AuditPosted"], from_block, to_block)
        return tuple(audit_of(log) for log in logs)

    # --- keys ---

    def epoch(self, epoch: int, block: int) -> EpochRecord:
        """A key epoch: endpoints from the address book, everything else as the chain pins it at this block.

        `UnknownKeyEpoch` if the chain does not have it, `TryAgain` if our book does not yet, `ConfigurationError` if both have it
        and contradict each other.
        """
        return pinned_epoch(epoch, self._epoch(epoch, block), self.network.epoch)

    def epoch_state(self, epoch: int, block: int) -> EpochState:
        """State of a key epoch at a block; NONE if there is none."""
        raw = self._epoch(epoch, block)
        with reading_answer("epoch state"):
            return EpochState(raw["state"])

    # --- stake and money ---

    def money(self, block: int) -> Money:
        """All wei of the network."""
        raw = self.client.call("Lens", self._at.lens, "money", block=at_number(block))
        return Money(
            vault_balance=raw["vaultBalance"],
            ledger_balance=raw["ledgerBalance"],
            total_stake=raw["totalStake"],
            total_unbonding=raw["totalUnbonding"],
            total_bonds=raw["totalBonds"],
            total_credits=raw["totalCredits"],
            total_burned=raw["totalBurned"],
        )

    def verifiers(self, block: int) -> tuple[tuple[Address, int], ...]:
        """Registered verifiers in registry order with their stake in wei."""
        raw = self.client.call("Lens", self._at.lens, "verifiers", block=at_number(block))
        return tuple((Address(each["verifier"]), each["stake"]) for each in raw)

    def weights(self, stake_block: int, block: int) -> tuple[tuple[Address, int], ...]:
        """Stakes in wei of all verifiers as they stood at `stake_block`, in registry order; who joined later has none.

        Read from the vault's checkpoints at `block`, so that no archive node is needed.
        """
        raw = self.client.call("Registry", self._at.registry, "weights", stake_block, ZERO_ADDRESS, block=at_number(block))
        with reading_answer("weights"):
            return tuple((Address(who), stake) for who, stake in zip(raw["voters"], raw["stakes"], strict=True))

    def stake(self, account: Address, block: int) -> int:
        """Wei of the account that count for draws and for posting."""
        return int(self.client.call("StakeVault", self._at.stake_vault, "stakeOf", account, block=at_number(block)))

    def credit(self, account: Address, block: int) -> int:
        """Wei that the account may withdraw."""
        return int(self.client.call("Ledger", self._at.ledger, "creditOf", account, block=at_number(block)))

    def _epoch(self, epoch: int, block: int) -> Mapping[str, Any]:
        raw: Mapping[str, Any] = self.client.call("KeyEpochs", self._at.key_epochs, "epochInfo", epoch, block=at_number(block))
        return raw


def batch_of(log: Log) -> BatchHeader:
    """The batch of a `BatchAnchored` event."""
    v = log.values
    return _batch(v["batchId"], v["operator"], v["header"], v["anchoredAt"], v["blockNumber"])


def audit_of(log: Log) -> tuple[AuditResult, Blob]:
    """Result and signature of an `AuditPosted` event."""
    v = log.values
    result = AuditResult(
        receipt_id=Digest(v["receiptId"]),
        verifier=Address(v["verifier"]),
        result=U8(v["result"]),
        commitment=Digest(v["commitment"]),
        audited_at=U64(v["auditedAt"]),
    )
    return result, Blob(v["signature"])


def _batch(batch_id: int, operator: str, header: Mapping[str, Any], anchored_at: int, block: int) -> BatchHeader:
    return BatchHeader(
        batch_id=batch_id,
        operator=Address(operator),
        first_seq=U64(header["firstSeq"]),
        count=U32(header["count"]),
        root=Digest(header["root"]),
        list_hash=Digest(header["listHash"]),
        environment=Digest(header["environment"]),
        model_id=Digest(header["modelId"]),
        key_epoch=U64(header["keyEpoch"]),
        # Whatever bytes an operator posts: a locator that is no text leads nowhere, and nothing more.
        locator=header["locator"].decode("utf-8", "replace"),
        anchored_at=U64(anchored_at),
        block=U64(block),
    )


def _params(raw: Mapping[str, Any], required_bond: int) -> Params:
    return Params(
        window_s=raw["window"],
        max_anchor_delay_s=raw["maxAnchorDelay"],
        commit_s=raw["commitTime"],
        reveal_s=raw["revealTime"],
        seats=tuple(raw["seats"][: raw["rounds"]]),
        tau_num=raw["tauNum"],
        tau_den=raw["tauDen"],
        audit_rate_bps=raw["auditRateBps"],
        audit_unit_wei=raw["auditUnit"],
        required_bond_wei=required_bond,
    )


@reading_answer("dispute")
def _dispute(raw: Mapping[str, Any]) -> Dispute:
    return Dispute(
        id=Digest(raw["id"]),
        receipt_id=Digest(raw["receiptId"]),
        batch_id=raw["batchId"],
        operator=Address(raw["operator"]),
        challenger=Address(raw["challenger"]),
        claimed_out_hash=Digest(raw["claimedOutHash"]),
        key_epoch=raw["keyEpoch"],
        phase=Phase(raw["phase"]),
        round=raw["round"],
        seats=raw["seats"],
        seed_block=raw["seedBlock"],
        round_seed=Digest(raw["roundSeed"]),
        opened_at=raw["openedAt"],
        commit_end=raw["commitEnd"],
        reveal_end=raw["revealEnd"],
        bond_wei=raw["bond"],
        verdict=Verdict(raw["verdict"]),
        replacement=Digest(raw["replacement"]),
        members=tuple(_member(each) for each in raw["members"]),
    )


def _member(raw: Mapping[str, Any]) -> Member:
    return Member(
        voter=Address(raw["voter"]),
        seat_mask=raw["seatMask"],
        commitment=Digest(raw["commitment"]),
        revealed=raw["revealed"],
        outcome=raw["outcome"],
        code=raw["code"],
        out_hash=Digest(raw["outHash"]),
    )
