"""The paper's Algorithm 3: everything public about a receipt, and with its opening a re-execution, to one conclusion.

What an opening adds: who holds it can recompute the answer. Without it nobody outside may, and the chain's verdict or the
drawn audits are the strongest things that can be said.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bytewise.cli.connect import Connection
from bytewise.cli.exits import Exit
from bytewise.cli.finding import Found
from bytewise.protocol.compare import Divergence
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.docket import Case
from bytewise.protocol.encoding import from_json, verify_depth
from bytewise.protocol.errors import (
    CannotExecute,
    ChainReverted,
    ClientSignatureBad,
    ConfigurationError,
    Fault,
    PlaintextNotCanonical,
    RequestHashMismatch,
    TokensHashMismatch,
    Unavailable,
)
from bytewise.protocol.messages import AuditOutcome, Verdict
from bytewise.protocol.opening import verify_opening
from bytewise.protocol.phases import Phase
from bytewise.protocol.seal import Payload, pad
from bytewise.protocol.suites import kind_of
from bytewise.protocol.units import Digest, hex0x
from kms.envelope import verify_receipt_envelope

PASS, FAIL, UNKNOWN = "PASS", "FAIL", "UNKNOWN"
LoadProgress = Callable[[str, int, int], None]


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    result: str
    detail: str


class Rerun(NamedTuple):
    """A re-execution: its first divergence from the claim, with the text of both tokens where there are any."""

    divergence: Divergence | None
    expected_text: str
    claimed_text: str


class Standing(NamedTuple):
    """What the chain says about a receipt."""

    final: bool
    """Accepted for good."""
    dispute: Case | None
    audits: dict[str, int]
    """Posted results by outcome."""
    assurance: str
    """The label of the receipt's key epoch."""


class Conclusion(NamedTuple):
    """What it comes to."""

    word: str
    exit: Exit
    reason: str


def public_checks(connection: Connection, found: Found) -> list[Check]:
    """Everything that needs no right to open. The receipt was found, so list, root, sequence and signature fit."""
    header, receipt = found.header, found.checked.signed.receipt
    label = label_of(connection, found)
    anchored = f"number {receipt.seq} in batch {header.batch_id}, block {header.block}"
    checks = [
        Check("anchored", PASS, anchored),
        Check("operator signature", PASS, receipt.operator),
        Check("key epoch", PASS, f"epoch {receipt.key_epoch} is on-chain; assurance: {label}; {kind_of(receipt.key_epoch)}"),
        Check("environment", PASS, f"{found.environment.profile}, registered as {hex0x(receipt.environment)[:18]}…"),
    ]
    fault = found.checked.fault
    checks.append(Check("record", PASS, "no defect") if fault is None else Check("record", FAIL, str(fault)))
    checks.append(_envelope(connection, found))
    return checks


def chain_standing(connection: Connection, found: Found, identifier: Digest) -> Standing:
    """Verdict, audits and finality, at the block of the search."""
    reader, first = connection.reader, connection.network.deploy_block
    opened = [each for each in connection.history.opened(first, found.head) if each.receipt_id == identifier]
    dispute = reader.case(opened[0].dispute, found.head) if opened else None
    audits = {outcome.name.lower(): 0 for outcome in AuditOutcome}
    for result, _ in reader.audits(first, found.head):
        if result.receipt_id == identifier:
            audits[AuditOutcome(result.result).name.lower()] += 1
    try:
        reader.verify_final(found.checked.signed, found.header.batch_id, found.checked.proof, found.head)
        final = True
    except ChainReverted:
        final = False
    return Standing(final, dispute, audits, label_of(connection, found))


def label_of(connection: Connection, found: Found) -> str:
    """The chain's label of the receipt's key epoch, at the block of the search."""
    return connection.reader.epoch_on_chain(found.checked.signed.receipt.key_epoch, found.head).assurance


def read_opening(path: Path, identifier: Digest) -> Payload:
    """The opening in a file: the `opening` member of an answer, or the whole answer. `ConfigurationError` if it is neither.

    Of an answer with several choices it is that of the choice with this receipt, if there is one.
    """
    try:
        value = json.loads(verify_depth(path.read_bytes()))
        if isinstance(value, dict):
            value = next((each for each in _choices(value) if _names(each, identifier)), value)
            value = value.get("opening", value)
        return from_json(Payload, value)
    except OSError as error:
        raise ConfigurationError(path.name, str(error.strerror)) from None
    except (ValueError, Fault) as error:
        raise ConfigurationError(path.name, f"is no opening: {error}") from None


def _choices(answer: dict[str, Any]) -> list[dict[str, Any]]:
    choices = answer.get("answers")
    return [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []


def _names(answer: dict[str, Any], identifier: Digest) -> bool:
    # Only to find it: whether the opening is of this receipt is checked afterwards.
    receipt = answer.get("receipt")
    return isinstance(receipt, dict) and receipt.get("receipt_id") == hex0x(identifier)


def check_opening(found: Found, identifier: Digest, payload: Payload) -> tuple[Check, Conclusion | None]:
    """Whether the opening is of this receipt; a conclusion if there is nothing left to re-run."""
    try:
        verify_opening(found.checked.signed.receipt, identifier, pad(payload), found.environment, found.header.anchored_at)
    except (RequestHashMismatch, TokensHashMismatch, ClientSignatureBad, PlaintextNotCanonical) as error:
        # Anybody can write a file: one that does not fit accuses nobody.
        reason = "record_incomplete: this opening is not of this receipt"
        return Check("opening", FAIL, str(error)), Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, reason)
    except Fault as error:
        return Check("opening", FAIL, str(error)), Conclusion("DEFECTIVE", Exit.MISMATCH, f"a defect of the record: {error}")
    return Check("opening", PASS, "request and answer hash to the anchored receipt"), None


def rerun(found: Found, payload: Payload, artifact: Path | None, progress: LoadProgress) -> Rerun:
    """Verifies the answer by one forward pass; `CannotExecute` if this machine cannot tell."""
    # Here, since only this verb of many needs torch, which takes seconds to import.
    from bytewise.inference.profiles import model_id_of, open_engine
    from bytewise.inference.tokenizer import Tokenizer

    receipt = found.checked.signed.receipt
    if artifact is None:
        raise CannotExecute(f"model_missing: give the artifact of model {hex0x(receipt.model_id)} with --artifact")
    if model_id_of(artifact) != receipt.model_id:
        raise CannotExecute(f"model_missing: {artifact.name} is another model than {hex0x(receipt.model_id)}")
    engine = open_engine(artifact, found.environment, progress=progress)
    verification = engine.confirm(payload.request, engine.verify(payload.request, payload.output, receipt.out_hash))
    divergence, words = verification.divergence, Tokenizer(engine.artifact)
    if divergence is None:
        return Rerun(None, "", "")
    shown = [words.text([token]) if token is not None else "" for token in (divergence.expected, divergence.claimed)]
    return Rerun(divergence, *shown)


def conclude(checks: list[Check], standing: Standing, outcome: Rerun | None) -> Conclusion:
    """One word for everything that was seen. A re-execution of one's own is stronger than anybody's word."""
    failed = next((check for check in checks if check.result == FAIL), None)
    if outcome is not None and outcome.divergence is not None:
        where = outcome.divergence
        return Conclusion("MISMATCH", Exit.MISMATCH, f"first divergence at token {where.position}: {where.kind.value}")
    if failed is not None:
        return Conclusion("DEFECTIVE", Exit.MISMATCH, f"{failed.name}: {failed.detail}")
    if outcome is not None:
        return Conclusion("VERIFIED", Exit.OK, "the re-execution gives the same bytes, computation included")
    return _from_chain(standing)


def _from_chain(standing: Standing) -> Conclusion:
    dispute, audits = standing.dispute, standing.audits
    # A verdict is one once its airgap is over: before it may be appealed, refunded or held.
    verdict = Verdict.NONE if dispute is None or dispute.phase is not Phase.FINAL else dispute.verdict
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
    if audits["mismatch"]:
        said = f"{audits['mismatch']} drawn auditors say mismatch, {audits['match']} match; nobody has won a dispute"
        return Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, said)
    if audits["match"]:
        return Conclusion("AUDITED", Exit.OK, f"{audits['match']} drawn auditors re-executed it and found the same bytes")
    still = "accepted by default, but nobody re-executed it" if standing.final else "its challenge window may still be open"
    return Conclusion("INCONCLUSIVE", Exit.INCONCLUSIVE, f"no right to open, no verdict, no audit: {still}")


def _envelope(connection: Connection, found: Found) -> Check:
    signed = found.checked.signed
    try:
        data = connection.da.get(signed.locator)
        verify_receipt_envelope(connection.network.anchor_domain, signed.receipt, data)
    except Unavailable as error:
        return Check("sealed envelope", UNKNOWN, str(error))
    except Fault as error:
        return Check("sealed envelope", FAIL, str(error))
    return Check("sealed envelope", PASS, f"{len(data)} bytes on DA, sealed to epoch {signed.receipt.key_epoch}")
