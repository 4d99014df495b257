"""Typed reads of the network, each at a named block. All reads for one decision are one call of `Lens`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.court.commitments import dispute_id
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.audits import AuditStage, PostedAudit
from bytewise.protocol.decisions.demands import DemandKind, DemandRecord
from bytewise.protocol.decisions.snapshot import (
    OPEN_END,
    AnchoredBatch,
    Dispute,
    DisputeOpening,
    Holdings,
    RegisteredMeasurement,
    Seat,
    Snapshot,
)
from bytewise.protocol.errors.actors import ChainReverted, TryAgain
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState, ReleaseView
from bytewise.protocol.records.receipt import BatchHeader, SignedLeaf, SignedReceipt
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import ZERO_DIGEST, Address, Blob, Digest
from chain.client.access import Chain
from chain.client.artifacts import View, interface
from chain.client.rpc import at_hash, at_number, reading_answer
from chain.client.structs import from_struct
from chain.reads import records
from chain.reads.epoch_endpoints import epoch_on_chain, pinned_epoch
from chain.reads.records import Membership, MoneyTotals, PoolMember, PoolState, RegistryItem, RestakedTotals
from chain.reads.restaking import RestakingReader
from chain.reads.share_history import share_history


class KeyEpochReader(RestakingReader):
    """Reads of key epochs, and of everything that a release decision needs."""

    def final(self) -> int | None:
        """Number of the newest final block, by which shards decide; None until a final block has `KeyEpochs`.

        A deployment takes many blocks: `deploy_block` and the blocks after it do not have its contracts yet.
        """
        number = self.client.head("finalized").number
        (code,) = self.client.codes([self.network.addresses.key_epochs], at_number(number))
        return number if code else None

    def final_policy(self) -> Digest | None:
        """The appraisal policy in force at the newest final block, by which shards decide; None if no final block has one."""
        final = self.final()
        if final is None:
            return None
        raw = self.client.call("Registry", self.network.addresses.registry, "policyDigest", block=at_number(final))
        with reading_answer("policy"):
            return Digest(raw) if any(raw) else None

    def epoch(self, epoch: int, block: int) -> EpochRecord:
        """A key epoch: endpoints from the address book, everything else as the chain pins it at this block.

        `UnknownKeyEpoch` if the chain does not have the epoch, `TryAgain` if the book does not list it or lists other holders,
        `ConfigurationError` if book and chain contradict each other in another value.
        """
        return pinned_epoch(epoch, self._epoch(epoch, block), self.network.epoch)

    def epoch_on_chain(self, epoch: int, block: int) -> EpochOnChain:
        """A key epoch on the chain, whether or not the address book lists it."""
        return epoch_on_chain(self._epoch(epoch, block))

    def epoch_state(self, epoch: int, block: int) -> EpochState:
        """State of a key epoch at a block; NONE if there is none."""
        raw = self._epoch(epoch, block)
        with reading_answer("epoch state"):
            return EpochState(raw["state"])

    def is_open_for_audits(self, epoch: int, block: int) -> bool:
        """Whether shards and `Audits` take audits of a key epoch at a block; False if there is no such epoch."""
        return bool(
            self.client.call("KeyEpochs", self.network.addresses.key_epochs, "isOpenForAudits", epoch, block=at_number(block))
        )

    def shares_dealt_at(self, epoch: int, block: int) -> int | None:
        """Unix seconds of the block that put the newest shares of an ACTIVE key epoch in force; None in any other state. It reads
        the events of `KeyEpochs` since the deployment."""
        if self.epoch_state(epoch, block) is not EpochState.ACTIVE:
            return None
        history = share_history(self.client, self.network, epoch, block)
        if not history:
            raise TryAgain(
                "chain", f"does not show when the shares of key epoch {epoch} were dealt; use a node that keeps all events"
            )
        return int(history[-1].since)

    def is_open_for_disputes(self, epoch: int, block: int) -> bool:
        """Whether a dispute may still need the key of an epoch at a block; False if there is no such epoch."""
        return bool(
            self.client.call("KeyEpochs", self.network.addresses.key_epochs, "isOpenForDisputes", epoch, block=at_number(block))
        )

    def release_view(self, voter: Address, epoch: int, dispute: Digest | None, receipt_id: Digest) -> ReleaseView:
        """All facts by which a shard decides a ticket, at the newest block of the configured finality.

        It takes two round trips: the block, and all views at its hash. The dispute's receipt is zero if the dispute is about
        another receipt. Errors as of `epoch`, except that an unknown epoch is no error.
        """
        seen, lens = self.client.head(self._tag), ("Lens", self.network.addresses.lens)
        views = [View(*lens, "snapshot", (voter, [])), View(*self._epoch_info, (epoch,))]
        if dispute is not None:
            views.append(View(*lens, "disputeView", (dispute,)))
        seen_raw, raw, *disputes = self.client.views(views, at_hash(seen.hash))
        key = epoch_on_chain(raw)
        record = None if key.state is EpochState.NONE else pinned_epoch(epoch, raw, self.network.epoch)
        with reading_answer("release view"):
            receipt = ZERO_DIGEST if dispute is None else self._receipt_of(dispute, receipt_id)
            found = next((records.dispute(each, receipt) for each in disputes if each["phase"]), None)
            return ReleaseView(seen.number, records.snapshot(seen_raw, seen.hash), key, record, found)

    def _receipt_of(self, dispute: Digest, receipt_id: Digest) -> Digest:
        """The receipt's id if the dispute is about it, else zero. The dispute's id is a hash of the receipt's id."""
        return receipt_id if dispute_id(self.network.disputes_domain, receipt_id) == dispute else ZERO_DIGEST

    def _epoch(self, epoch: int, block: int) -> Mapping[str, Any]:
        raw: Mapping[str, Any] = self.client.call(*self._epoch_info, epoch, block=at_number(block))
        return raw

    @property
    def _epoch_info(self) -> tuple[str, Address, str]:
        return "KeyEpochs", self.network.addresses.key_epochs, "epochInfo"


DISPUTES_PER_CALL = 32
"""Disputes in one call: some 400,000 gas each at 31 seats, below any node's cap for `eth_call`."""

BATCHES_PER_PAGE = 128
"""Batches in one call."""

MEMBERS_PER_PAGE = 256
"""Verifiers in one call."""


class SnapshotReader(KeyEpochReader):
    """Reads one network through one node, or several that agree. `tag` is the finality of `head`: latest, safe or finalized."""

    def __init__(self, client: Chain, network: Network, tag: str = "latest") -> None:
        super().__init__(client, network, tag)
        self._at = network.addresses
        self._versions: dict[int, ParamSet] = {}

    # --- one view for one decision ---

    def snapshot(self, who: Address, block: int, openings: Sequence[DisputeOpening] = ()) -> Snapshot:
        """All facts for a decision of account `who`, at one block. `openings`: disputes to include, if the block has them."""
        seen = self.client.block(block)
        at, first = at_hash(seen.hash), openings[:DISPUTES_PER_CALL]
        raw = self.client.call("Lens", self._at.lens, "snapshot", who, [each.id for each in first], block=at)
        with reading_answer("snapshot"):
            found = records.snapshot(raw, seen.hash, first)
        more: list[Dispute] = []
        for start in range(DISPUTES_PER_CALL, len(openings), DISPUTES_PER_CALL):
            page = openings[start : start + DISPUTES_PER_CALL]
            raws = self.client.call("Lens", self._at.lens, "disputes", [each.id for each in page], block=at)
            with reading_answer("disputes"):
                more += records.disputes(raws, page)
        return replace(found, disputes=(*found.disputes, *more))

    def opened(self, from_block: int, to_block: int) -> tuple[DisputeOpening, ...]:
        """Disputes that were opened in these blocks, oldest first."""
        logs = self.client.logs("Disputes", self._at.disputes, ["DisputeOpened"], from_block, to_block)
        with reading_answer("DisputeOpened"):
            return tuple(DisputeOpening(Digest(log.values["id"]), Digest(log.values["receiptId"]), log.block) for log in logs)

    def dispute(self, dispute: Digest, block: int, receipt_id: Digest = ZERO_DIGEST) -> Dispute | None:
        """One dispute with its current round; None if it does not exist. Its receipt is zero if it is about another receipt."""
        raw = self._lens("disputeView", dispute, block=block)
        with reading_answer("disputeView"):
            return records.dispute(raw, self._receipt_of(dispute, receipt_id)) if raw["phase"] else None

    def holdings(self, who: Address, block: int) -> Holdings:
        """An account in its roles."""
        raw = self._lens("accountView", who, block=block)
        with reading_answer("accountView"):
            return records.holdings(raw)

    def members(self, dispute: Digest, round_number: int, block: int) -> tuple[Seat, ...]:
        """Members of any round of a dispute, in the order of their first seats."""
        at = at_number(block)
        raw = self.client.call("Rounds", self._at.rounds, "membersOf", dispute, round_number, block=at)
        with reading_answer("membersOf"):
            return tuple(records.seat(each) for each in raw)

    # --- parameters ---

    def params(self, version: int, block: int) -> ParamSet:
        """A version of all parameters. Versions never change, so each is read once."""
        if version not in self._versions:
            raw = self.client.call("Params", self._at.params, "get", version, block=at_number(block))
            with reading_answer("Params.get"):
                self._versions[version] = from_struct(ParamSet, raw)
        return self._versions[version]

    def params_version(self, block: int) -> int:
        """The version in force."""
        return int(self.client.call("Params", self._at.params, "version", block=at_number(block)))

    # --- receipts ---

    def batches(self, from_block: int, to_block: int) -> tuple[BatchHeader, ...]:
        """Batches anchored in these blocks, oldest first."""
        logs = self.client.logs("ReceiptAnchor", self._at.receipt_anchor, ["BatchAnchored"], from_block, to_block)
        with reading_answer("BatchAnchored"):
            found = [(log.values["batchId"], log.values["batch"], log.values["header"]["locator"]) for log in logs]
            return tuple(records.header(*each) for each in found)

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        """Windows, demands and collateral of at most `BATCHES_PER_PAGE` batches from an id on."""
        raw = self._lens("batches", from_batch, BATCHES_PER_PAGE, block=block)
        with reading_answer("batches"):
            return tuple(records.anchored(each) for each in raw)

    def batch(self, batch_id: int, block: int) -> tuple[BatchHeader, AnchoredBatch] | None:
        """A batch by its number, without the locator, which only its event has; None if there is none."""
        raw = self._lens("batches", batch_id, 1, block=block)
        with reading_answer("batches"):
            return (records.header(batch_id, raw[0]["batch"], b""), records.anchored(raw[0])) if raw else None

    def demands(self, subjects: tuple[Digest, ...], block: int) -> tuple[DemandRecord, ...]:
        """Demands by subject, in that order."""
        raw = self._lens("demands", subjects, block=block)
        with reading_answer("demands"):
            return tuple(from_struct(DemandRecord, each) for each in raw)

    def answered(self, subject: Digest, from_block: int, to_block: int) -> Blob | None:
        """The answer to a demand, put on the chain in these blocks: the list, or an envelope's new locator."""
        found = self._answer_to(subject, from_block, to_block)
        with reading_answer("Answered"):
            return None if found is None else _answer(found)

    def demanded(self, from_block: int, to_block: int) -> tuple[Digest, ...]:
        """Subjects that were demanded in these blocks, oldest first."""
        logs = self.client.logs("Demands", self._at.demands, ["Demanded"], from_block, to_block)
        with reading_answer("Demanded"):
            return tuple(Digest(log.values["subject"]) for log in logs)

    def expired(self, from_block: int, to_block: int) -> tuple[Digest, ...]:
        """Subjects of demands that ended in these blocks without an answer, once for each time."""
        logs = self.client.logs("Demands", self._at.demands, ["Expired"], from_block, to_block)
        with reading_answer("Expired"):
            return tuple(Digest(log.values["subject"]) for log in logs)

    def reported(self, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        """Operator and number of each report of equivocation in these blocks that took a penalty."""
        return self._numbers("Equivocation", from_block, to_block)

    def skipped(self, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        """Operator and number of each report of a skipped number in these blocks that took a penalty."""
        return self._numbers("Skipped", from_block, to_block)

    def answered_leaves(self, subject: Digest, from_block: int, to_block: int) -> tuple[SignedLeaf, ...] | None:
        """Leaves of a demanded list's batch in order, as its answer in these blocks shows them."""
        found = self._answer_to(subject, from_block, to_block)
        with reading_answer("Answered"):
            return None if found is None else records.leaves(interface("Demands").arguments("answerList", found["answer"]))

    def list_subject(self, batch_id: int) -> Digest:
        """Subject of a demand for the list of a batch."""
        where = ("Demands", self._at.demands, "listSubject")
        return Digest(self.client.call(*where, batch_id, block=at_number(self.head())))

    def window_end(self, receipt: Digest, batch_id: int, block: int) -> int:
        """Last second (protocol clock) to dispute a receipt. During a pause it moves with the clock."""
        arguments = (receipt, batch_id)
        where = ("ReceiptAnchor", self._at.receipt_anchor, "windowEnd")
        return int(self.client.call(*where, *arguments, block=at_number(block)))

    def verify_final(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], block: int) -> SignedReceipt:
        """Returns the receipt if it is final at this block; otherwise `ChainReverted` names the reason."""
        arguments = (struct_values(signed.receipt), signed.signature, batch_id, proof)
        where = ("ReceiptAnchor", self._at.receipt_anchor, "isFinal")
        self.client.call(*where, *arguments, block=at_number(block))
        return signed

    def audits(self, from_block: int, to_block: int) -> tuple[PostedAudit, ...]:
        """Audit results posted in these blocks, oldest first."""
        logs = self.client.logs("Audits", self._at.audits, ["AuditPosted"], from_block, to_block)
        return tuple(records.audit_of(log) for log in logs)

    def audit_stage(self, receipt_id: Digest, batch_id: int, verifier: Address, block: int) -> AuditStage:
        """Stage of a verifier's audit of a receipt in a batch; NOTHING if it was posted for another batch."""
        raw = self.client.call("Audits", self._at.audits, "audit", receipt_id, verifier, block=at_number(block))
        with reading_answer("audit"):
            if not raw["result"] or raw["batchId"] != batch_id:
                return AuditStage.NOTHING
            if raw["paid"]:
                return AuditStage.PAID
            return AuditStage.OPENED if any(raw["outHash"]) else AuditStage.POSTED

    def audit_opening(self, receipt_id: Digest, verifier: Address, block: int) -> tuple[Digest, Digest] | None:
        """The tokens hash and the out hash to which a verifier opened its audit of a receipt; None as long as it did not."""
        raw = self.client.call("Audits", self._at.audits, "audit", receipt_id, verifier, block=at_number(block))
        with reading_answer("audit"):
            return (Digest(raw["tokensHash"]), Digest(raw["outHash"])) if any(raw["outHash"]) else None

    def agreeing(self, receipt_id: Digest, batch_id: int, out_hash: Digest, block: int) -> int:
        """Verifiers that showed this digest for an audited receipt of a batch."""
        where = ("Audits", self._at.audits, "agreeing")
        return int(self.client.call(*where, receipt_id, batch_id, out_hash, block=at_number(block)))

    def alt_commits(self, who: Address, from_block: int, to_block: int) -> dict[Digest, Digest]:
        """A challenger's commitments in these blocks, by dispute."""
        logs = self.client.logs("Disputes", self._at.disputes, ["DisputeOpened"], from_block, to_block)
        with reading_answer("challenges"):
            return {Digest(v["id"]): Digest(v["altCommit"]) for v in (log.values for log in logs) if v["challenger"] == who}

    # --- registry ---

    def pool(self, digest: Digest, block: int) -> PoolState | None:
        """A pool and its stake epoch; None until the curator has added it."""
        try:
            raw = self._lens("poolView", digest, block=block)
        except ChainReverted as error:
            if "UnknownPool" in str(error):
                return None
            raise
        with reading_answer("poolView"):
            return from_struct(PoolState, raw)

    def verifiers(self, pool: Digest, block: int) -> tuple[PoolMember, ...]:
        """All accounts that ever joined a pool, by place."""
        found: list[PoolMember] = []
        while True:
            raw = self._lens("verifiers", pool, len(found), MEMBERS_PER_PAGE, block=block)
            with reading_answer("verifiers"):
                found += [from_struct(PoolMember, each) for each in raw]
            if len(raw) < MEMBERS_PER_PAGE:
                return tuple(found)

    def stale_weights(self, pool: Digest, block: int) -> tuple[tuple[Address, int], ...]:
        """Verifiers of a pool that weigh in the next stake epoch, too, although no stake of theirs counts any more. With each the
        first block of the running epoch."""
        state = self.pool(pool, block)
        if state is None:
            return ()
        found = (each for each in self.verifiers(pool, block) if each.units and not each.stake)
        accounts = [each.account for each in found if each.verifier.pool == pool]
        next_epoch = [View("StakeTree", state.tree, "unitsAt", (each, state.epoch + 1)) for each in accounts]
        units = self.client.views(next_epoch, at_number(block)) if accounts else []
        return tuple((who, state.epoch_start) for who, each in zip(accounts, units, strict=True) if each)

    def membership(self, who: Address, block: int) -> Membership:
        """The pool, machine and measurement with which a verifier joined; all zero for any other account."""
        raw = self.client.call("Registry", self._at.registry, "verifier", who, block=at_number(block))
        with reading_answer("verifier"):
            return from_struct(Membership, raw)

    def is_allowed(self, measurement: Digest, block: int) -> bool:
        """Whether verifiers may run an enclave with this measurement."""
        return bool(self.client.call("Registry", self._at.registry, "isAllowed", measurement, block=at_number(block)))

    def next_units(self, who: Address, pool: PoolState, block: int) -> int:
        """Units of an account in a pool from the next stake epoch on."""
        return int(self.client.call("StakeTree", pool.tree, "unitsAt", who, pool.epoch + 1, block=at_number(block)))

    def registered_measurement(self, who: Address, block: int) -> RegisteredMeasurement | None:
        """The measurement with which a verifier joined its pool; None for an account that is in no pool."""
        joined = self.membership(who, block)
        pool = None if joined.pool == ZERO_DIGEST else self.pool(joined.pool, block)
        if pool is None:
            return None
        is_allowed, units = self.is_allowed(joined.measurement, block), self.next_units(who, pool, block)
        return RegisteredMeasurement(joined.measurement, is_allowed, units)

    def item(self, digest: Digest, block: int) -> RegistryItem:
        """State of an environment or a model."""
        raw = self.client.call("Registry", self._at.registry, "item", digest, block=at_number(block))
        with reading_answer("item"):
            return from_struct(RegistryItem, raw)

    def pool_of(self, environment: Digest, block: int) -> Digest:
        """Pool whose verifiers judge an environment; zero if there is no such environment."""
        return Digest(self.item(environment, block).pool)

    def anchorable_for(self, who: Address, environment: Digest, model_id: Digest, epoch: int, block: int) -> int | None:
        """Seconds of the protocol clock for which a batch with this environment, model and key epoch is still accepted; negative
        after that time.

        None if none of them is closing, or one was never open.
        """
        at = at_number(block)
        ends = self.client.call("Registry", self._at.registry, "anchorable", who, environment, model_id, block=at)
        closed = (ends[name] for name in ("ownUntil", "environmentUntil", "modelUntil", "poolUntil"))
        until = min(*closed, self.client.call("KeyEpochs", self._at.key_epochs, "inclusionEnd", epoch, block=at))
        if until in (0, OPEN_END):
            return None
        return int(until) - int(self.client.call("Guardian", self._at.guardian, "clock", block=at))

    def auditors(self, environment: Digest, stake_block: int, block: int) -> tuple[tuple[Address, int], ...]:
        """Verifiers that may be drawn to audit an answer of an environment, each with its stake in wei at the batch's block."""
        pool = self.pool_of(environment, block)
        members = (each for each in self.verifiers(pool, block) if each.may_audit(pool, stake_block))
        return tuple((each.account, self.stake_at(each.account, stake_block, block)) for each in members)

    def stake_at(self, account: Address, stake_block: int, block: int) -> int:
        """Stake of the account in wei at the end of an earlier block."""
        arguments = (account, stake_block)
        where = ("StakeVault", self._at.stake_vault, "stakeAt")
        return int(self.client.call(*where, *arguments, block=at_number(block)))

    # --- money ---

    def money(self, block: int) -> MoneyTotals:
        """All wei of the network."""
        raw, totals = self._lens("money", block=block), MoneyTotals if self.record_life(block) is None else RestakedTotals
        with reading_answer("money"):
            return from_struct(totals, raw)

    def _numbers(self, event: str, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        logs = self.client.logs("Demands", self._at.demands, [event], from_block, to_block)
        with reading_answer(event):
            return tuple((Address(log.values["operator"]), int(log.values["seq"])) for log in logs)

    def _answer_to(self, subject: Digest, from_block: int, to_block: int) -> Mapping[str, Any] | None:
        logs = self.client.logs("Demands", self._at.demands, ["Answered"], from_block, to_block)
        with reading_answer("Answered"):
            return next((log.values for log in reversed(logs) if log.values["subject"] == subject), None)

    def _lens(self, function: str, *arguments: Any, block: int) -> Any:
        return self.client.call("Lens", self._at.lens, function, *arguments, block=at_number(block))


def _answer(values: Mapping[str, Any]) -> Blob:
    """Bytes of an answer. For the answer of a list, only the list; its leaves are a separate argument."""
    answer = values["answer"]
    if values["kind"] == DemandKind.LIST:
        answer = interface("Demands").arguments("answerList", answer)[1]
    return Blob(answer)
