"""The checks of one receipt and their conclusion (the paper's Algorithm 3): public records, opening and re-execution.

A user that has the opening of a receipt can compute the answer again. Without the opening, the strongest results are the verdict
on the chain and the drawn audits.
"""

from typing import Any, NamedTuple

from bytewise.crypto.envelope import verify_receipt_envelope
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.decisions.audits import results_in
from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.errors.actors import BadCertificate, CallerError, ChainReverted
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.errors.records import ClientSignatureBad, PlaintextNotCanonical, RequestHashMismatch, TokensHashMismatch
from bytewise.protocol.records.preflight import Preflight, PreflightSubject, preflight
from bytewise.protocol.records.receipt import SignedReceipt, verify_receipt
from bytewise.protocol.records.seal import Payload, envelope_hash, pad, verify_opening
from bytewise.protocol.records.statements import AuditOutcome, Verdict
from bytewise.protocol.records.trace import Divergence, DivergenceClass
from bytewise.protocol.suites import kind_of
from bytewise.protocol.units import ZERO_ADDRESS, Digest, hex0x
from bytewise.service.exit_codes import Exit
from bytewise_client.connection import Connection
from bytewise_client.network_state import Labels
from bytewise_client.receipt_search import Found, Search
from bytewise_client.saved_answer import Comparison

PASS, FAIL, UNKNOWN, WARN = "PASS", "FAIL", "UNKNOWN", "WARN"
"""Results of a check. Of these, only FAIL decides the conclusion alone."""

MEANING = {
    DivergenceClass.TOKEN: "the text was altered after the computation, or could come from none",
    DivergenceClass.SAMPLER: "the right model ran, under another seed or other decoding settings",
    DivergenceClass.MODEL: "another model ran, or another prompt was answered",
    DivergenceClass.LENGTH: "the answer ends elsewhere",
    DivergenceClass.STOP: "the tokens are right; the finish reason, the counts or the blind are not",
    DivergenceClass.TRACE: "the answer is right, but the receipt commits to another computation",
}
"""Explanation of each class of divergence, for people."""


class ReceiptCheck(NamedTuple):
    """Result of one check."""

    name: str
    result: str
    detail: str


class Rerun(NamedTuple):
    """Result of computing an answer again: its first divergence from the claim, and the text of both tokens."""

    divergence: Divergence | None
    expected_text: str
    claimed_text: str
    fields: tuple[str, ...]
    """Fields of the receipt that differ from the new computation: `tokensHash`, `outHash` or both."""


class Standing(NamedTuple):
    """The state of a receipt on the chain."""

    final: bool | None
    """Whether the receipt is final. It is None if this needs a proof of membership in a batch that is not available."""
    open_reason: str
    """Reason why the receipt is not final, as text for people. It is empty if the receipt is final."""
    dispute: Dispute | None
    audits: dict[str, int]
    """Number of verifiers for each outcome. Each verifier counts with the outcome that it posted last for the receipt's
    batch."""
    assurance: str
    """Assurance label of the receipt's key epoch. It is empty if the chain does not name the epoch."""
    knows_batch: bool = True
    """Whether the receipt's batch is known. If it is not, `audits` counts results for any batch.

    The contract accepts a result for a batch that does not contain the receipt, and checks the draw for that batch.
    """

    @property
    def verdict(self) -> Verdict:
        """The verdict of the dispute.

        It is NONE until the airgap is over, because the verdict may be appealed, refunded or suspended before.
        """
        return Verdict.NONE if self.dispute is None or self.dispute.phase is not Phase.FINAL else self.dispute.verdict


class Conclusion(NamedTuple):
    """The conclusion of all checks: a word, an exit code and a reason."""

    word: str
    exit: Exit
    reason: str


class Texts(NamedTuple):
    """The texts to which the tokens of a request and its answer decode."""

    prompt: str
    """Text of the request, with the names of its control tokens."""
    answer: str
    """Text of the answer's tokens, up to the first stop string."""


class Seen(NamedTuple):
    """Findings of the verification of one receipt."""

    identifier: Digest
    checks: list[ReceiptCheck]
    end: Conclusion
    standing: Standing | None = None
    outcome: Rerun | None = None
    shown: Comparison | None = None
    """Comparison with the saved answer. It is None if there is no saved answer, or if its opening belongs to another receipt."""
    expected: dict[str, Any] | None = None
    """The expected answer that was compared with the saved answer."""
    texts: Texts | None = None
    """Decoded texts. They are None without an opening of this receipt or without the model's tokenizer."""
    completeness: Preflight | None = None
    """The eleven points of the preflight (design section 11), and the claim that the record supports. It is None if no receipt
    was found."""


def public_checks(connection: Connection, found: Found) -> list[ReceiptCheck]:
    """Makes the checks that need no opening, and returns their results.

    Membership, number and signature are reported and not checked again, because the search (`find_receipt`) has checked them.
    """
    header, receipt = found.header, found.checked.signed.receipt
    label = label_of(connection, found)
    anchored = f"number {receipt.seq} in batch {header.batch_id}, block {header.block}"
    checks = [
        ReceiptCheck("anchored", PASS, anchored)
        if found.is_listed
        else ReceiptCheck("anchored", UNKNOWN, f"{anchored}, or another receipt is"),
        ReceiptCheck("operator signature", PASS, receipt.operator),
        ReceiptCheck(
            "key epoch", PASS, f"epoch {receipt.key_epoch} is on-chain; assurance: {label}; {kind_of(receipt.key_epoch)}"
        ),
        ReceiptCheck("environment", PASS, f"{found.environment.profile}, registered as {hex0x(receipt.environment)}"),
    ]
    return [*checks, _record(found), _envelope(connection, found)]


def chain_standing(connection: Connection, search: Search, identifier: Digest) -> Standing:
    """Returns the receipt's verdict, audits and finality at the block of the search.

    If the search did not find the receipt, verdict, audits and label come from chain events that name its id. Finality is then
    unknown.
    """
    reader, first, head = connection.reader, connection.network.deploy_block, search.head
    opened = [each for each in connection.history.opened(first, head) if each.receipt_id == identifier]
    dispute = reader.dispute(opened[0].dispute, head, identifier) if opened else None
    posted = [each for each in reader.audits(first, head) if each.result.receipt_id == identifier]
    batch = search.found.header.batch_id if search.found is not None else None if dispute is None else dispute.batch_id
    audits = {outcome.name.lower(): 0 for outcome in AuditOutcome}
    for each in results_in(posted, batch).values():
        audits[AuditOutcome(each.result).name.lower()] += 1
    if search.found is not None:
        label = label_of(connection, search.found)
    else:
        cases, batches = [] if dispute is None else [dispute], reader.batches(first, head)
        label = Labels(reader, head).of_receipts(posted, cases, batches).get(identifier, "")
    return Standing(*_finality(connection, search.found), dispute, audits, label, batch is not None)


def _finality(connection: Connection, found: Found | None) -> tuple[bool | None, str]:
    if found is None or not found.is_listed:
        return None, "cannot tell without the list of its batch"
    try:
        connection.reader.verify_final(found.checked.signed, found.header.batch_id, found.checked.proof, found.head)
    except ChainReverted as error:
        reason = error.values[2] if len(error.values) > 2 else None
        return False, _NOT_FINAL.get(getattr(reason, "name", ""), f"not accepted: {error.values[1]}")
    return True, ""


_NOT_FINAL = {
    "WindowOpen": "not yet: its challenge window is open",
    "DisputePending": "not yet: a dispute is running",
    "DemandPending": "not yet: what is withheld is demanded",
    "ReceiptVoid": "never: the receipt is void",
    "BatchIsVoid": "never: its batch is void",
}
"""Text for each reason with which the contract's `isFinal` refuses."""


def completeness(connection: Connection, found: Found, standing: Standing, opened: bool | None, rerun: Rerun | None) -> Preflight:
    """Returns the preflight of a receipt: whether its record is complete enough to support a claim. `opened` says whether the
    receipt's opening is complete, or is None if there is no opening."""
    snapshot = connection.reader.snapshot(ZERO_ADDRESS, found.head)
    judged = standing.verdict in (Verdict.UPHELD, Verdict.OVERTURNED)
    known = True if judged else False if standing.verdict is Verdict.INVALID else opened
    return preflight(
        PreflightSubject(
            found.checked.signed.receipt, found.header, found.environment, snapshot.policy,
            connection.reader.params(snapshot.params_version, found.head).times.window, standing.assurance, known,
            judged or rerun is not None,
        )
    )  # fmt: skip


def label_of(connection: Connection, found: Found) -> str:
    """Returns the chain's assurance label of the receipt's key epoch, at the block of the search."""
    return connection.reader.epoch_on_chain(found.checked.signed.receipt.key_epoch, found.head).assurance


def check_opening(found: Found, identifier: Digest, payload: Payload) -> tuple[ReceiptCheck, Conclusion | None]:
    """Checks whether the opening belongs to this receipt.

    Returns the check. If the check alone decides the verification, also returns the conclusion, otherwise None.
    """
    try:
        verify_opening(found.checked.signed.receipt, identifier, pad(payload), found.environment, found.header.anchored_at)
    except (RequestHashMismatch, TokensHashMismatch, ClientSignatureBad, PlaintextNotCanonical) as error:
        # Anybody can write a file, so a wrong opening proves nothing about the operator.
        reason = "record_incomplete: this opening is not of this receipt"
        return ReceiptCheck("opening", FAIL, str(error)), Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, reason)
    except Fault as error:
        return ReceiptCheck("opening", FAIL, str(error)), Conclusion(
            "DEFECTIVE", Exit.MISMATCH, f"a defect of the record: {error}"
        )
    return ReceiptCheck("opening", PASS, "request and answer hash to the anchored receipt"), None


def conclude(checks: list[ReceiptCheck], standing: Standing, outcome: Rerun | None, shown: Comparison | None) -> Conclusion:
    """Returns the conclusion of all findings. The user's own re-execution counts more than the statement of any other party."""
    failed = next((check for check in checks if check.result == FAIL), None)
    if outcome is not None and (outcome.fields or outcome.divergence is not None):
        return Conclusion("MISMATCH", Exit.MISMATCH, _mismatch(outcome))
    if shown is not None and shown.differences:
        return altered(shown)
    if failed is not None:
        return Conclusion("DEFECTIVE", Exit.MISMATCH, f"{failed.name}: {failed.detail}")
    if outcome is not None:
        told = "" if shown is not None and shown.has_text else "; the file shows no text that could be compared"
        return Conclusion("VERIFIED", Exit.OK, f"the re-execution gives the same bytes, computation included{told}")
    return _beside_text(_from_chain(standing), shown)


def _beside_text(known: Conclusion, shown: Comparison | None) -> Conclusion:
    """Returns the conclusion from the chain for a user that has a saved answer.

    It is inconclusive if the text of the file was not compared with the receipt.
    """
    if known.exit is not Exit.OK or shown is None or not shown.leaves_text_open:
        return known
    why = "but the text in the file was not compared: that takes its opening and --artifact"
    return Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, f"the receipt is {known.word} ({known.reason}), {why}")


def altered(shown: Comparison) -> Conclusion:
    """Returns the conclusion for a file that differs from the signed records."""
    members = ", ".join(each.member for each in shown.differences[:5])
    more = f" and {len(shown.differences) - 5} more" if len(shown.differences) > 5 else ""
    return Conclusion("MISMATCH", Exit.MISMATCH, f"the file shows what was not signed: {members}{more}")


def check_shown(shown: Comparison, has_words: bool) -> ReceiptCheck:
    """Returns the comparison of a saved answer as one check. `has_words` says whether the model's tokenizer was available."""
    more = f" and {len(shown.unchecked) - 8} more" if len(shown.unchecked) > 8 else ""
    unchecked = f"; nothing at hand determines {', '.join(shown.unchecked[:8])}{more}" if shown.unchecked else ""
    if shown.differences:
        return ReceiptCheck("shown answer", FAIL, f"{len(shown.differences)} of {shown.compared} members differ{unchecked}")
    told = f"{shown.compared} members are what was signed{unchecked}"
    if shown.has_text:
        return ReceiptCheck("shown answer", PASS, told)
    why = "the file shows no text" if has_words else "no text was compared: that takes opening and artifact"
    return ReceiptCheck("shown answer", UNKNOWN, f"{why}; {told}")


def without_list(standing: Standing, missing: Conclusion, outcome: Rerun | None, shown: Comparison | None = None) -> Conclusion:
    """Returns the conclusion for a receipt for which no list was found. `missing` is the conclusion of the search.

    A dispute about the receipt also proves that a batch contains it, because the contract checked this at the opening. So with
    a dispute, the conclusion comes from the chain and the re-execution. It stays `missing` if these decide nothing and the
    search did not end as NOT FOUND. Without a dispute it is always `missing`. The reason names both findings.
    """
    known = _beside_text(_from_chain(standing), shown)
    if standing.dispute is not None and outcome is not None:
        known = conclude([], standing, outcome, shown)
    elif outcome is not None:
        known = known._replace(reason="the re-execution gives the same bytes, but nothing shows that a batch has this receipt")
    elif standing.dispute is None:
        known = known._replace(reason=f"the chain alone: {known.reason}")
    is_decided = known.exit in (Exit.OK, Exit.MISMATCH) or missing.exit is Exit.NOT_FOUND
    is_known = standing.dispute is not None and is_decided
    return (known if is_known else missing)._replace(reason=f"{missing.reason}; {known.reason}")


def not_found(search: Search) -> Conclusion:
    """Returns the conclusion of a search that found no receipt."""
    if search.skipped_in is not None:
        reason = (
            f"its operator skipped its number: batch {search.skipped_in.batch_id} has an empty leaf there. "
            "Hand the receipt to a watchtower, which reports it"
        )
        return Conclusion("NOT FOUND", Exit.NOT_FOUND, reason)
    if search.unread:
        reason = f"da_unavailable: {len(search.unread)} lists could not be read ({search.unread[0]}); a capsule needs no DA"
        return Conclusion("UNAVAILABLE", Exit.UNAVAILABLE, reason)
    reason = "no anchored batch has this receipt"
    if search.faulty:
        reason = f"no list that fits its batch has this receipt; {len(search.faulty)} lists do not fit ({search.faulty[0]})"
    return Conclusion("NOT FOUND", Exit.NOT_FOUND, reason)


def with_promise(connection: Connection, signed: SignedReceipt, identifier: Digest, head: int, missing: Conclusion) -> Conclusion:
    """Returns the conclusion `missing` for a saved receipt that no list contains. Adds a warning if its `anchorBy` is too late.

    `anchorBy` is the time from which an anchor can be demanded. The operator chooses it, and the contract does not limit it.
    It is too late if it is more than the network's `maxAnchorDelay` after the receipt's time or the chain's time.
    """
    receipt = signed.receipt
    try:
        if verify_receipt(connection.network.anchor_domain, signed) != identifier:
            return missing
    except Fault:
        return missing
    snapshot = connection.reader.snapshot(ZERO_ADDRESS, head)
    longest = connection.reader.params(snapshot.params_version, head).times.max_anchor_delay
    if receipt.anchor_by <= min(receipt.issued_at, snapshot.timestamp) + longest:
        return missing
    why = (
        f"its anchorBy, {receipt.anchor_by}, is more than maxAnchorDelay ({longest} s) after its issuedAt or the chain's time: "
        "no anchor can be demanded before it, so until then the receipt binds nothing"
    )
    return missing._replace(reason=f"{missing.reason}; {why}")


def _mismatch(outcome: Rerun) -> str:
    fields = " and ".join(outcome.fields)
    told = f"{fields} of the receipt {'are' if len(outcome.fields) > 1 else 'is'} not what the re-execution gives"
    where = outcome.divergence
    return (
        told
        if where is None
        else f"first divergence at token {where.position}: {where.kind.value}" + (f"; {told}" if fields else "")
    )


def _from_chain(standing: Standing) -> Conclusion:
    dispute, audits, verdict = standing.dispute, standing.audits, standing.verdict
    if verdict is Verdict.UPHELD:
        return Conclusion("UPHELD", Exit.OK, "a committee re-executed it and found the same bytes")
    if verdict in CONVICTIONS:
        return Conclusion(verdict.name, Exit.MISMATCH, "the committee's verdict")
    if verdict is Verdict.REFUNDED:
        return Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, "the guardian ended the dispute; the receipt is void")
    if verdict is Verdict.DRAW:
        return Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, "the dispute ended in a draw; the receipt is void")
    if dispute is not None:
        return Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, "a dispute is running")
    if not standing.knows_batch and (audits["match"] or audits["mismatch"]):
        said = f"{audits['match']} match and {audits['mismatch']} mismatch are posted"
        return Conclusion(
            "INCONCLUSIVE", Exit.INCONCLUSIVE, f"{said}, but without its list nothing shows who is drawn to audit it"
        )
    if audits["mismatch"]:
        said = f"{audits['mismatch']} drawn auditors say mismatch, {audits['match']} match; nobody has won a dispute"
        return Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, said)
    if audits["match"]:
        return Conclusion("AUDITED", Exit.OK, f"{audits['match']} drawn auditors re-executed it and found the same bytes")
    still = "accepted by default, but nobody re-executed it" if standing.final else standing.open_reason
    return Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, f"no right to open, no verdict, no audit: {still}")


def _record(found: Found) -> ReceiptCheck:
    fault = found.checked.fault
    if fault is None:
        return ReceiptCheck("record", PASS, "no defect")
    if found.checked.is_lapse:
        return ReceiptCheck("record", WARN, f"{fault}; the chain accepts such a receipt, and no committee convicts of it")
    return ReceiptCheck("record", FAIL, str(fault))


def _envelope(connection: Connection, found: Found) -> ReceiptCheck:
    signed = found.checked.signed
    try:
        # A proxy may give any bytes: other bytes than the receipt names prove nothing about the operator.
        data = connection.da.get(signed.locator, lambda blob: envelope_hash(blob) == signed.receipt.envelope_hash)
        verify_receipt_envelope(connection.network.anchor_domain, signed.receipt, data)
    except (Unavailable, BadCertificate, CallerError) as error:
        # The operator's signature does not cover the locator, and any proxy can answer 400.
        return ReceiptCheck("sealed envelope", UNKNOWN, str(error))
    except Fault as error:
        return ReceiptCheck("sealed envelope", FAIL, str(error))
    return ReceiptCheck("sealed envelope", PASS, f"{len(data)} bytes on DA, sealed to epoch {signed.receipt.key_epoch}")
