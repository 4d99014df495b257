"""The shard, which checks a request in the order of design section 8, records the release, and only then answers.

"No log, no partial": the signed record is committed to the database before the partial is computed. A crash in between leaves a
record without an answer, never an answer without a record.

A refusal contains only the error's class and rule, and whether a later try may succeed. The shard also records refusals of
registered verifiers in its release log, up to a limit.
"""

import threading
import time
from collections import Counter

from bytewise.crypto import hpke, hybrid
from bytewise.crypto.curve import Rng, decode_point, encode_scalar
from bytewise.crypto.shares import prove_partial
from bytewise.ports import Clock
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, EpochClosed, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Fault, Unavailable
from bytewise.protocol.errors.records import TooLarge
from bytewise.protocol.evidence.appraisal_policy import MeasurementRole
from bytewise.protocol.evidence.policy_updates import PolicyState
from bytewise.protocol.jobs import Contracts, anchor_domain, key_domain
from bytewise.protocol.keys.epochs import (
    MAX_RELEASE_BODY_BYTES,
    MAX_RELEASE_MARKS,
    ChainFacts,
    Decision,
    EpochDocument,
    HybridPartial,
    Partial,
    ReleaseAnswer,
    ReleaseRequest,
    ShardInfo,
    ShardRefusal,
    partial_info,
    release_decision,
    share_info,
)
from bytewise.protocol.keys.release_log import (
    AuditedReceiptPath,
    LogHead,
    ReleaseEvidence,
    ReleaseLog,
    SignedRelease,
    SignedReleaseEvidence,
    SignedTicket,
    release_evidence_digest,
)
from bytewise.protocol.records.seal import HybridEnvelope, seal_context
from bytewise.protocol.records.statements import Release, TicketKind
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import U8, U64, Address, Blob
from bytewise.service import metrics, telemetry
from bytewise.storage.releases import ReleaseRecords, Usage
from bytewise.tee.appraisal import AppraisalResult
from bytewise.tee.binding import AttestedPeer, PeerRequirements
from kms.shard import release_policy
from kms.shard.chain_view import KeyView
from kms.shard.release_policy import AdmittedRequest
from kms.shard.share_rotation import ShareFinder, ShareRotation, SharesInForce, shares_in_force
from kms.storage.files import ShareReporter, ignore_share
from kms.storage.keyring import OpenedShare

REFUSALS_A_DAY = 50
"""Most refusals of one verifier that a shard records in one day of the chain. Further refusals appear only in the log of its
process."""

_DAY_S = 86_400
ADMISSIONS = 4
"""Most requests that are parsed and checked at the same time, because they may be large. Reads of the chain come later and are
not counted, so that a slow node does not delay other requests."""
REFRESH_S = 5.0
"""Seconds between two reads of the chain for requests of `info`, which anybody may send."""
ADMISSION_WAIT_S = 2.0
"""Seconds that a request waits for admission before it is refused with `TryAgain`. An admission takes some 10 to 200 ms."""
_NEEDS_RELEASE_SHARES = "is rebuilt by enclaves from shares, and release_shares is not set: set it, or serve another epoch"


def refusal(error: BytewiseError) -> ShardRefusal:
    """Returns the refusal for an error, and logs and counts the error."""
    telemetry.log_error("request.refused", error)
    metrics.KMS_REFUSALS.labels(rule=error.rule).inc()
    return ShardRefusal(type(error).__name__, error.rule, isinstance(error, Unavailable))


class RefusalQuota:
    """A count of recorded refusals by verifier and day. It is thread-safe, and a restart begins at zero."""

    def __init__(self) -> None:
        self._day = 0
        self._taken: Counter[Address] = Counter()
        self._lock = threading.Lock()

    def take(self, voter: Address, now: int) -> bool:
        """Returns whether one more refusal of this verifier may be recorded on the day of Unix second `now`. If it may, the
        refusal is counted."""
        with self._lock:
            if now // _DAY_S != self._day:
                self._day, self._taken = now // _DAY_S, Counter()
            free = self._taken[voter] < REFUSALS_A_DAY
            self._taken[voter] += free
            return free


def release_evidence_of(
    request: ReleaseRequest, shown: AppraisalResult, policy_serial: int, refused: Fault | None
) -> ReleaseEvidence:
    """Returns the evidence on which a request was decided. `refused` is the reason why the shard released nothing, or None.

    For a refused audit request the evidence omits the anchored receipt, because the shard did not verify it and it can be long.
    """
    is_audit = refused is None and request.ticket.kind == TicketKind.AUDIT.value
    return ReleaseEvidence(
        evidence=shown.named,
        platform=shown.program.platform,
        measurement=shown.claims.measurement,
        status=shown.claims.status,
        gpu=shown.program.gpu,
        policy=U64(policy_serial),
        refusal="" if refused is None else refused.rule,
        audit=AuditedReceiptPath(request.batch_id, request.receipt.seq, request.proof) if is_audit else None,
    )


class Shard:
    """Answers release requests for one key epoch: it checks a request, records the release, then computes the partial. Methods
    are thread-safe, because transactions of the database serialise work that must not run at the same time."""

    def __init__(
        self,
        document: EpochDocument,
        share: OpenedShare,
        find: ShareFinder,
        signer: LocalSigner,
        contracts: Contracts,
        appraisal: PolicyState,
        view: KeyView,
        records: ReleaseRecords,
        rng: Rng,
        clock: Clock,
        audits_per_epoch: int,
        release_shares: bool = False,
        report_share: ShareReporter = ignore_share,
    ) -> None:
        """`find` finds the new share in the folder after the key was dealt again. The shard calls `report_share` with the
        commitments of the only share in memory. `clock` is the machine's clock; no block may be dated far ahead of it. For an
        epoch whose key enclaves rebuild, `release_shares` must be true. Raises `ConfigurationError` if it is not, or if the share
        is not that of the signer's account."""
        if is_rebuilt(document.record.epoch) and not release_shares:
            raise ConfigurationError(f"key epoch {document.record.epoch}", _NEEDS_RELEASE_SHARES)
        listed = next((each for each in document.record.shards if each.index == share.index), None)
        if listed is None or listed.address != signer.address:
            raise ConfigurationError("shard", f"{signer.address} is not shard {share.index} of this epoch")
        self._document = document
        self._index = share.index
        self._rotation = ShareRotation(document, share, find, report_share)
        self._refreshing = threading.Lock()
        self._refresh_after = 0.0
        self._signer = signer
        self._contracts = contracts
        self._appraisal = appraisal
        self._view = view
        self._records = records
        self._rng = rng
        self._clock = clock
        self._audits_per_epoch = audits_per_epoch
        self._refusals = RefusalQuota()
        self._admissions = threading.BoundedSemaphore(ADMISSIONS)

    @property
    def signer(self) -> LocalSigner:
        """The shard's account."""
        return self._signer

    def terms(self) -> PeerRequirements:
        """Returns the requirements for a peer that asks for a release: an enclave that the policy accepts, for this network and
        epoch."""
        epoch = self._document.record.epoch
        return PeerRequirements(
            MeasurementRole.KEY_SHARD, MeasurementRole.VERIFIER_ENCLAVE, self._contracts, epoch, self._appraisal, None
        )

    def info(self) -> ShardInfo:
        """Returns the epoch that this shard serves, and whether its share is in force."""
        self._refresh()
        record, status = self._document.record, self._rotation.status()
        return ShardInfo(
            record.epoch, self._index, self._signer.address, record.assurance, self._appraisal.policy.digest,
            status.shares, status.version, status.in_force,
        )  # fmt: skip

    def _refresh(self) -> None:
        """Reads the chain and follows it like a request does, but at most once in `REFRESH_S`, because anybody may ask for
        `info`."""
        now = time.monotonic()
        with self._refreshing:
            if now < self._refresh_after:
                return
            self._refresh_after = now + REFRESH_S
        try:
            self._rotation.follow_chain(self._shares_in_force())
        except BytewiseError as error:
            telemetry.log_error("share.check_failed", error)

    def _shares_in_force(self) -> SharesInForce:
        try:
            return self._view.shares(self._document.record.epoch)
        except BytewiseError:
            self._rotation.mark_unknown()
            raise

    def log(self, first: int, epoch: int | None = None) -> ReleaseLog:
        """Returns a bounded page of release records from index `first` on, of the served epoch or of another one."""
        return ReleaseLog(self._records.page(self._document.record.epoch if epoch is None else epoch, first))

    def release(self, body: bytes, peer: AttestedPeer) -> ReleaseAnswer:
        """Checks a request, records the release, and returns the sealed partial with the record. In an epoch whose key enclaves
        rebuild, returns the sealed share instead. Raises the error of the broken rule, or `TryAgain`. `peer` is the attested
        enclave that asks; it satisfied `terms`."""
        if not self._admissions.acquire(timeout=ADMISSION_WAIT_S):
            raise TryAgain("shard", "is busy with other requests: ask again")
        try:
            request, admitted = self._admit(body, peer)
        finally:
            self._admissions.release()
        facts = release_policy.verify_not_ahead(self._view.read(request.ticket, request.batch_id), self._clock.now())
        with self._rotation.borrow(self._verify_epoch_facts(facts)) as share:
            signed = self._decide(request, admitted, facts)
            return self._answer(request, admitted, signed, share)

    def _admit(self, body: bytes, peer: AttestedPeer) -> tuple[ReleaseRequest, AdmittedRequest]:
        if len(body) > MAX_RELEASE_BODY_BYTES:
            raise TooLarge(f"{len(body)} bytes, at most {MAX_RELEASE_BODY_BYTES}")
        request = decode(ReleaseRequest, body, MAX_RELEASE_MARKS)
        if request.ticket.key_epoch != self._document.record.epoch:
            raise EpochClosed(request.ticket.key_epoch, "not served here")
        admitted = release_policy.verify_request(request, self._contracts, peer)
        hybrid.verify_part_count(admitted.envelope, self._document.record, request.ticket.receipt_id)
        return request, admitted

    def _verify_epoch_facts(self, facts: ChainFacts) -> SharesInForce:
        ours = self._document.record
        if (facts.public_key, facts.assurance, facts.hybrid) != (ours.public_key, ours.assurance, ours.hybrid):
            raise ConfigurationError("epoch document", f"the chain shows another key epoch at block {facts.number}")
        return shares_in_force(facts)

    def _decide(self, request: ReleaseRequest, admitted: AdmittedRequest, facts: ChainFacts) -> SignedRelease:
        release_policy.verify_acceptance_in_force(self._appraisal, admitted.peer.evidence, facts)
        try:
            seats = release_policy.verify_entitlement(request, admitted, self._contracts, facts)

            def released(usage: Usage, head: LogHead) -> SignedRelease:
                release_policy.verify_limits(request.ticket, seats, usage.instances, usage.audits, self._audits_per_epoch)
                release_policy.verify_records(usage.of_receipt, usage.given)
                release_policy.verify_date(usage.newest, facts)
                return self._record(request, admitted, facts, head, None)

            return self._records.append(request.ticket, released)
        except Fault as fault:
            self._refuse(request, admitted, facts, fault)
            raise

    def _refuse(self, request: ReleaseRequest, admitted: AdmittedRequest, facts: ChainFacts, fault: Fault) -> None:
        ticket = request.ticket
        metrics.KMS_RELEASES.labels(decision="refused").inc()
        telemetry.log("release.refused", receipt=ticket.receipt_id, rule=fault.rule, reason=fault.reason, voter=ticket.voter)

        def recorded(usage: Usage, head: LogHead) -> SignedRelease:
            release_policy.verify_date(usage.newest, facts)
            return self._record(request, admitted, facts, head, fault)

        # Only refusals of registered verifiers are recorded, and only a few each. Otherwise other callers could fill the disk.
        if facts.is_verifier and self._refusals.take(ticket.voter, facts.timestamp):
            self._records.append(ticket, recorded)

    def _record(
        self, request: ReleaseRequest, admitted: AdmittedRequest, facts: ChainFacts, head: LogHead, refused: Fault | None
    ) -> SignedRelease:
        ticket = request.ticket
        record = Release(
            receipt_id=ticket.receipt_id,
            ticket_hash=admitted.ticket_hash,
            key_epoch=ticket.key_epoch,
            shard=self._signer.address,
            voter=ticket.voter,
            evidence_hash=admitted.peer.evidence.evidence_hash,
            transport_key_hash=ticket.transport_key_hash,
            previous=head.digest,
            index=U64(head.next_index),
            decision=U8(release_decision(ticket.key_epoch) if refused is None else Decision.REFUSED),
            decided_at=U64(facts.timestamp),
        )
        digest = typed_digest(key_domain(self._contracts), record)
        evidence = release_evidence_of(request, admitted.peer.evidence, self._appraisal.policy.serial, refused)
        signed_evidence = SignedReleaseEvidence(evidence, self._signer.sign(release_evidence_digest(digest, evidence)))
        return SignedRelease(record, self._signer.sign(digest), SignedTicket(ticket, request.ticket_signature), signed_evidence)

    def _answer(
        self, request: ReleaseRequest, admitted: AdmittedRequest, signed: SignedRelease, share: OpenedShare
    ) -> ReleaseAnswer:
        sealed, shown = self._sealed(request, admitted, share), admitted.peer.evidence
        metrics.KMS_RELEASES.labels(decision="released").inc()
        telemetry.log(
            "release.recorded", receipt=request.ticket.receipt_id, voter=request.ticket.voter,
            decision=Decision(signed.record.decision).name, index=signed.record.index, assurance=shown.assurance,
            tcb=shown.claims.status.value, gpu=shown.program.gpu.value,
        )  # fmt: skip
        return ReleaseAnswer(sealed, signed.record, signed.signature)

    def _sealed(self, request: ReleaseRequest, admitted: AdmittedRequest, share: OpenedShare) -> Blob:
        ticket, key = request.ticket, admitted.peer.hello.transport_key
        to = self._signer.address, ticket.receipt_id, admitted.ticket_hash, ticket.key_epoch
        if is_rebuilt(self._document.record.epoch):
            return hpke.seal_to_transport(key, share_info(*to), encode_scalar(share.scalar()))
        base = decode_point(admitted.envelope.enc)
        partial = prove_partial(share.index, share.scalar(), base, ticket.receipt_id, self._rng)
        return hpke.seal_to_transport(key, partial_info(*to), encode(self._hybrid_partial(partial, request, admitted, share)))

    def _hybrid_partial(
        self, partial: Partial, request: ReleaseRequest, admitted: AdmittedRequest, share: OpenedShare
    ) -> Partial | HybridPartial:
        envelope, record = admitted.envelope, self._document.record
        if record.hybrid is None or not isinstance(envelope, HybridEnvelope):
            return partial
        place = hybrid.EnvelopeContext(seal_context(anchor_domain(self._contracts), request.receipt), record.epoch)
        answer = hybrid.make_partial(partial, envelope, place, share.kem_seed(), record.hybrid.digest)
        if answer.share is None:
            telemetry.log("envelope.part_rejected", receipt=request.ticket.receipt_id, operator=request.receipt.operator)
        return answer
