"""Typed reads of the network, each at one named block. One call of `Lens` reads everything that a decision needs.

`RegistryDocuments` finds environments, model manifests and appraisal policies in the events of the registry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bytewise.protocol.address_book import Network
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
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ChainReverted
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import UnknownEnvironment
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import BatchHeader, SignedLeaf, SignedReceipt
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import ZERO_DIGEST, Address, Blob, Digest
from chain.client.access import Chain
from chain.client.artifacts import Log, View, from_struct, interface
from chain.client.rpc import at_hash, at_number, reading_answer
from chain.reads import records
from chain.reads.key_epochs import KeyEpochReader
from chain.reads.records import Membership, MoneyTotals, PoolMember, PoolState, RegistryItem, RestakedTotals

DISPUTES_PER_CALL = 32
"""Largest number of disputes in one call. Each takes some 400,000 gas at 31 seats, which together is below any node's cap for
`eth_call`."""

BATCHES_PER_PAGE = 128
"""Largest number of batches in one call."""

MEMBERS_PER_PAGE = 256
"""Largest number of verifiers in one call."""


class SnapshotReader(KeyEpochReader):
    """Reads one network through one node, or through several nodes that must agree. `tag` is the finality of `head`: latest,
    safe or finalized."""

    def __init__(self, client: Chain, network: Network, tag: str = "latest") -> None:
        super().__init__(client, network, tag)
        self._at = network.addresses
        self._versions: dict[int, ParamSet] = {}

    # --- one view for one decision ---

    def snapshot(self, who: Address, block: int, openings: Sequence[DisputeOpening] = ()) -> Snapshot:
        """Returns a snapshot: all facts at one block that a decision of account `who` needs. `openings` are the events of the
        disputes to include. Disputes that do not exist at this block are left out."""
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
        """Reads the disputes that were opened in these blocks, oldest first."""
        logs = self.client.logs("Disputes", self._at.disputes, ["DisputeOpened"], from_block, to_block)
        with reading_answer("DisputeOpened"):
            return tuple(DisputeOpening(Digest(log.values["id"]), Digest(log.values["receiptId"]), log.block) for log in logs)

    def dispute(self, dispute: Digest, block: int, receipt_id: Digest = ZERO_DIGEST) -> Dispute | None:
        """Reads one dispute with its current round. Returns None if it does not exist. Its receipt id is zero if it is about
        another receipt than `receipt_id`."""
        raw = self._lens("disputeView", dispute, block=block)
        with reading_answer("disputeView"):
            return records.dispute(raw, self._receipt_of(dispute, receipt_id)) if raw["phase"] else None

    def holdings(self, who: Address, block: int) -> Holdings:
        """Reads stake, money and roles of an account."""
        raw = self._lens("accountView", who, block=block)
        with reading_answer("accountView"):
            return records.holdings(raw)

    def members(self, dispute: Digest, round_number: int, block: int) -> tuple[Seat, ...]:
        """Reads the members of any round of a dispute, in the order of their first seats."""
        at = at_number(block)
        raw = self.client.call("Rounds", self._at.rounds, "membersOf", dispute, round_number, block=at)
        with reading_answer("membersOf"):
            return tuple(records.seat(each) for each in raw)

    # --- parameters ---

    def params(self, version: int, block: int) -> ParamSet:
        """Reads one version of all parameters. Versions never change, so each is read once."""
        if version not in self._versions:
            raw = self.client.call("Params", self._at.params, "get", version, block=at_number(block))
            with reading_answer("Params.get"):
                self._versions[version] = from_struct(ParamSet, raw)
        return self._versions[version]

    def params_version(self, block: int) -> int:
        """Reads the number of the parameter version in force."""
        return int(self.client.call("Params", self._at.params, "version", block=at_number(block)))

    # --- receipts ---

    def batches(self, from_block: int, to_block: int) -> tuple[BatchHeader, ...]:
        """Reads the batches that were anchored in these blocks, oldest first."""
        logs = self.client.logs("ReceiptAnchor", self._at.receipt_anchor, ["BatchAnchored"], from_block, to_block)
        with reading_answer("BatchAnchored"):
            found = [(log.values["batchId"], log.values["batch"], log.values["header"]["locator"]) for log in logs]
            return tuple(records.header(*each) for each in found)

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        """Reads at most `BATCHES_PER_PAGE` batches from a batch id on, each with its window, the demand for its list, and whether
        its collateral is released."""
        raw = self._lens("batches", from_batch, BATCHES_PER_PAGE, block=block)
        with reading_answer("batches"):
            return tuple(records.anchored(each) for each in raw)

    def batch(self, batch_id: int, block: int) -> tuple[BatchHeader, AnchoredBatch] | None:
        """Reads one batch by its id. Returns None if there is none. The locator is empty, because only the batch's event has
        it."""
        raw = self._lens("batches", batch_id, 1, block=block)
        with reading_answer("batches"):
            return (records.header(batch_id, raw[0]["batch"], b""), records.anchored(raw[0])) if raw else None

    def demands(self, subjects: tuple[Digest, ...], block: int) -> tuple[DemandRecord, ...]:
        """Reads demands by their subjects, in the order of the subjects."""
        raw = self._lens("demands", subjects, block=block)
        with reading_answer("demands"):
            return tuple(from_struct(DemandRecord, each) for each in raw)

    def answered(self, subject: Digest, from_block: int, to_block: int) -> Blob | None:
        """Reads the answer that was put on the chain for a demand: the list, an envelope's new locator, or empty bytes for a
        demand to anchor. Returns None if these blocks have no answer."""
        found = self._answer_to(subject, from_block, to_block)
        with reading_answer("Answered"):
            return None if found is None else _answer(found)

    def demanded(self, from_block: int, to_block: int) -> tuple[Digest, ...]:
        """Reads the subjects that were demanded in these blocks, oldest first."""
        logs = self.client.logs("Demands", self._at.demands, ["Demanded"], from_block, to_block)
        with reading_answer("Demanded"):
            return tuple(Digest(log.values["subject"]) for log in logs)

    def expired(self, from_block: int, to_block: int) -> tuple[Digest, ...]:
        """Reads the subjects of demands that ended in these blocks without an answer. A subject appears once for each time that
        its demand was ended."""
        logs = self.client.logs("Demands", self._at.demands, ["Expired"], from_block, to_block)
        with reading_answer("Expired"):
            return tuple(Digest(log.values["subject"]) for log in logs)

    def reported(self, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        """Reads operator and receipt number of each report of equivocation in these blocks for which stake of the operator was
        taken."""
        return self._numbers("Equivocation", from_block, to_block)

    def skipped(self, from_block: int, to_block: int) -> tuple[tuple[Address, int], ...]:
        """Reads operator and receipt number of each report of a skipped number in these blocks for which the operator paid a
        penalty."""
        return self._numbers("Skipped", from_block, to_block)

    def answered_leaves(self, subject: Digest, from_block: int, to_block: int) -> tuple[SignedLeaf, ...] | None:
        """Reads the leaves of a batch in order, from the answer to a demand for its list in these blocks. Returns None if there
        is no answer."""
        found = self._answer_to(subject, from_block, to_block)
        with reading_answer("Answered"):
            return None if found is None else records.leaves(interface("Demands").arguments("answerList", found["answer"]))

    def list_subject(self, batch_id: int) -> Digest:
        """Reads the subject of a demand for the list of a batch."""
        where = ("Demands", self._at.demands, "listSubject")
        return Digest(self.client.call(*where, batch_id, block=at_number(self.head())))

    def window_end(self, receipt: Digest, batch_id: int, block: int) -> int:
        """Reads the last second (protocol clock) in which a receipt can be disputed. It moves with the clock while an open
        demand, or a pool that is too small, stops the window."""
        arguments = (receipt, batch_id)
        where = ("ReceiptAnchor", self._at.receipt_anchor, "windowEnd")
        return int(self.client.call(*where, *arguments, block=at_number(block)))

    def verify_final(self, signed: SignedReceipt, batch_id: int, proof: tuple[Digest, ...], block: int) -> SignedReceipt:
        """Returns the receipt if it is final at this block. Raises `ChainReverted`, which names the reason, if it is not."""
        arguments = (struct_values(signed.receipt), signed.signature, batch_id, proof)
        where = ("ReceiptAnchor", self._at.receipt_anchor, "isFinal")
        self.client.call(*where, *arguments, block=at_number(block))
        return signed

    def audits(self, from_block: int, to_block: int) -> tuple[PostedAudit, ...]:
        """Reads the audit results that were posted in these blocks, oldest first."""
        logs = self.client.logs("Audits", self._at.audits, ["AuditPosted"], from_block, to_block)
        return tuple(records.audit_of(log) for log in logs)

    def audit_stage(self, receipt_id: Digest, batch_id: int, verifier: Address, block: int) -> AuditStage:
        """Reads the stage of a verifier's audit of a receipt in a batch; NOTHING if the audit was posted for another batch."""
        raw = self.client.call("Audits", self._at.audits, "audit", receipt_id, verifier, block=at_number(block))
        with reading_answer("audit"):
            if not raw["result"] or raw["batchId"] != batch_id:
                return AuditStage.NOTHING
            if raw["paid"]:
                return AuditStage.PAID
            return AuditStage.OPENED if any(raw["outHash"]) else AuditStage.POSTED

    def audit_opening(self, receipt_id: Digest, verifier: Address, block: int) -> tuple[Digest, Digest] | None:
        """Reads the tokens hash and the out_hash to which a verifier opened its audit of a receipt. Returns None if it has not
        opened the audit."""
        raw = self.client.call("Audits", self._at.audits, "audit", receipt_id, verifier, block=at_number(block))
        with reading_answer("audit"):
            return (Digest(raw["tokensHash"]), Digest(raw["outHash"])) if any(raw["outHash"]) else None

    def agreeing(self, receipt_id: Digest, batch_id: int, out_hash: Digest, block: int) -> int:
        """Counts the verifiers that opened their audit of a receipt in a batch to this out_hash."""
        where = ("Audits", self._at.audits, "agreeing")
        return int(self.client.call(*where, receipt_id, batch_id, out_hash, block=at_number(block)))

    def alt_commits(self, who: Address, from_block: int, to_block: int) -> dict[Digest, Digest]:
        """Reads the commitments of a challenger to expected answers, by dispute, for disputes that it opened in these blocks."""
        logs = self.client.logs("Disputes", self._at.disputes, ["DisputeOpened"], from_block, to_block)
        with reading_answer("challenges"):
            return {Digest(v["id"]): Digest(v["altCommit"]) for v in (log.values for log in logs) if v["challenger"] == who}

    # --- registry ---

    def pool(self, digest: Digest, block: int) -> PoolState | None:
        """Reads the state of a pool of verifiers, with its running stake epoch (number, first and last block). Returns None if
        the curator has not added the pool."""
        raw = self._lens_of_pool("poolView", digest, block=block)
        with reading_answer("poolView"):
            return None if raw is None else from_struct(PoolState, raw)

    def verifiers(self, pool: Digest, block: int) -> tuple[PoolMember, ...]:
        """Reads all accounts that ever joined a pool, in the order of their places. Returns none if the curator has not added the
        pool."""
        found: list[PoolMember] = []
        while True:
            raw = self._lens_of_pool("verifiers", pool, len(found), MEMBERS_PER_PAGE, block=block) or ()
            with reading_answer("verifiers"):
                found += [from_struct(PoolMember, each) for each in raw]
            if len(raw) < MEMBERS_PER_PAGE:
                return tuple(found)

    def _lens_of_pool(self, view: str, pool: Digest, *arguments: int, block: int) -> Any:
        """Calls a view of the lens about a pool. Returns None if the curator has not added the pool."""
        try:
            return self._lens(view, pool, *arguments, block=block)
        except ChainReverted as error:
            if "UnknownPool" in str(error):
                return None
            raise

    def stale_weights(self, pool: Digest, block: int) -> tuple[tuple[Address, int], ...]:
        """Returns the verifiers of a pool that still have weight in the next stake epoch although none of their stake counts.

        Each is a pair of the account and the first block of the running stake epoch.
        """
        state = self.pool(pool, block)
        if state is None:
            return ()
        found = (each for each in self.verifiers(pool, block) if each.units and not each.stake)
        accounts = [each.account for each in found if each.verifier.pool == pool]
        next_epoch = [View("StakeTree", state.tree, "unitsAt", (each, state.epoch + 1)) for each in accounts]
        units = self.client.views(next_epoch, at_number(block)) if accounts else []
        return tuple((who, state.epoch_start) for who, each in zip(accounts, units, strict=True) if each)

    def membership(self, who: Address, block: int) -> Membership:
        """Reads the pool, machine and measurement with which a verifier joined. All are zero for any other account."""
        raw = self.client.call("Registry", self._at.registry, "verifier", who, block=at_number(block))
        with reading_answer("verifier"):
            return from_struct(Membership, raw)

    def is_allowed(self, measurement: Digest, block: int) -> bool:
        """Returns whether verifiers may run an enclave with this measurement."""
        return bool(self.client.call("Registry", self._at.registry, "isAllowed", measurement, block=at_number(block)))

    def next_units(self, who: Address, pool: PoolState, block: int) -> int:
        """Reads the weight of an account in a pool's next stake epoch, in units of stake."""
        return int(self.client.call("StakeTree", pool.tree, "unitsAt", who, pool.epoch + 1, block=at_number(block)))

    def registered_measurement(self, who: Address, block: int) -> RegisteredMeasurement | None:
        """Reads the measurement with which a verifier joined its pool. Returns None if the account is in no pool."""
        joined = self.membership(who, block)
        pool = None if joined.pool == ZERO_DIGEST else self.pool(joined.pool, block)
        if pool is None:
            return None
        is_allowed, units = self.is_allowed(joined.measurement, block), self.next_units(who, pool, block)
        return RegisteredMeasurement(joined.measurement, is_allowed, units)

    def item(self, digest: Digest, block: int) -> RegistryItem:
        """Reads the registry's state of an environment or a model."""
        raw = self.client.call("Registry", self._at.registry, "item", digest, block=at_number(block))
        with reading_answer("item"):
            return from_struct(RegistryItem, raw)

    def pool_of(self, environment: Digest, block: int) -> Digest:
        """Reads the pool whose verifiers judge an environment; zero if there is no such environment."""
        return Digest(self.item(environment, block).pool)

    def anchorable_for(self, who: Address, environment: Digest, model_id: Digest, epoch: int, block: int) -> int | None:
        """Returns the seconds of the protocol clock for which operator `who` can still anchor a batch with this environment,
        model and key epoch. The result is negative after that time.

        Returns None if there is no such limit: none of operator, environment, pool, model and key epoch is closing. Also returns
        None if one of them was never open.
        """
        at = at_number(block)
        ends = self.client.call("Registry", self._at.registry, "anchorable", who, environment, model_id, block=at)
        closed = (ends[name] for name in ("ownUntil", "environmentUntil", "modelUntil", "poolUntil"))
        until = min(*closed, self.client.call("KeyEpochs", self._at.key_epochs, "inclusionEnd", epoch, block=at))
        if until in (0, OPEN_END):
            return None
        return int(until) - int(self.client.call("Guardian", self._at.guardian, "clock", block=at))

    def auditors(self, environment: Digest, stake_block: int, block: int) -> tuple[tuple[Address, int], ...]:
        """Reads the verifiers that may be drawn to audit an answer of an environment, each with its stake in wei at the batch's
        block, `stake_block`."""
        pool = self.pool_of(environment, block)
        members = (each for each in self.verifiers(pool, block) if each.may_audit(pool, stake_block))
        return tuple((each.account, self.stake_at(each.account, stake_block, block)) for each in members)

    def stake_at(self, account: Address, stake_block: int, block: int) -> int:
        """Reads the stake of an account in wei at the end of an earlier block, `stake_block`."""
        arguments = (account, stake_block)
        where = ("StakeVault", self._at.stake_vault, "stakeAt")
        return int(self.client.call(*where, *arguments, block=at_number(block)))

    # --- money ---

    def money(self, block: int) -> MoneyTotals:
        """Reads the sums of all money in the network, in wei."""
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
    """Returns the bytes of an answer. For the answer with a list, it returns only the list, without the leaves."""
    answer = values["answer"]
    if values["kind"] == DemandKind.LIST:
        answer = interface("Demands").arguments("answerList", answer)[1]
    return Blob(answer)


class RegistryDocuments:
    """Environments, model manifests and appraisal policies by digest, and the registered operators (`ports.Documents`).

    Anybody may propose any bytes under any digest. `environment` compares the digest itself. The caller of `model_manifests` and
    `policy_document` must compare it.
    """

    def __init__(self, reader: SnapshotReader) -> None:
        self._reader = reader

    def environment(self, digest: Digest, to_block: int) -> Environment:
        """Returns the environment with this digest. Raises `UnknownEnvironment` if no proposed document hashes to it."""
        for document in self._proposed(digest, to_block):
            try:
                found = decode(Environment, document)
            except BytewiseError:
                continue
            if found.digest == digest:
                return found
        raise UnknownEnvironment("environment", digest.hex(), "no document of it")

    def model_manifests(self, model_id: Digest, to_block: int) -> tuple[bytes, ...]:
        """Returns every manifest that was proposed for a model. The caller chooses the one with the right digest."""
        return self._proposed(model_id, to_block)

    def policy_document(self, digest: Digest, to_block: int) -> bytes:
        """Returns the bytes of an appraisal policy; the caller checks their digest. Raises `UnknownEnvironment` if none was
        published."""
        found = [log.values["document"] for log in self._registry("PolicySet", to_block) if log.values["digest"] == digest]
        if not found:
            raise UnknownEnvironment("policy", digest.hex(), "no document of it")
        return bytes(found[-1])

    def operators(self, to_block: int) -> dict[Address, str]:
        """Returns the registered operators, each with its newest endpoint."""
        logs = self._registry("OperatorRegistered", to_block)
        return {Address(log.values["operator"]): log.values["endpoint"] for log in logs}

    def _proposed(self, digest: Digest, to_block: int) -> tuple[bytes, ...]:
        logs = self._registry("ItemProposed", to_block)
        return tuple(bytes(log.values["document"]) for log in logs if log.values["digest"] == digest)

    def _registry(self, event: str, to_block: int) -> list[Log]:
        network = self._reader.network
        where = ("Registry", network.addresses.registry)
        return self._reader.client.logs(*where, [event], network.deploy_block, to_block)
