"""Every defect of the record, sealed for real, opened by real shards, judged by the enclave's session: INVALID with its code."""

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.records import (
    ClientSignatureBad,
    Defect,
    EnvelopeDoesNotOpen,
    EnvelopeProofBad,
    OutsideLimits,
    PlaintextNotCanonical,
    RequestDiffers,
    RequestExpired,
    RequestHashMismatch,
    TokensHashMismatch,
)
from bytewise.protocol.records.seal import BUCKETS, Envelope, Payload, pad
from bytewise.protocol.records.statements import AuditOutcome, Outcome, Verdict
from bytewise.protocol.units import U64, U256, Blob
from tests.fixtures.bad_input.courtroom import ANCHORED, GREEDY, NOTHING, Court, computed, verdict
from tests.fixtures.builders import signer, word
from tests.fixtures.kms.memory_chain import Case

MANY = 300
"""More prompt tokens than the environment allows."""


def honest(court: Court) -> Case:
    """A receipt without fault."""
    return court.file(*court.answered())


def asked(court: Court, receipt: dict[str, object] | None = None, **request: object) -> Case:
    """A receipt that names its request rightly; what is wrong is in the request."""
    changed = court.people.request(1, **request)
    _, truth = court.honest
    payload = court.people.payload(changed, truth.output)
    return court.file(payload, court.receipt(changed, truth.output, truth.out_hash, **(receipt or {})))


def holding(court: Court, change: Callable[[Payload], Payload]) -> Case:
    """An envelope that holds something else than the receipt names."""
    payload, receipt = court.answered()
    return court.file(change(payload), receipt)


def written(court: Court, plaintext: Callable[[bytes], bytes]) -> Case:
    """An envelope whose plaintext is no canonical payload."""
    payload, receipt = court.answered()
    return court.file(payload, receipt, plaintext(pad(payload)))


def mauled(court: Court, change: Callable[[Envelope], Envelope]) -> Case:
    """An envelope that was changed after it was sealed, and a receipt that names the changed bytes."""
    return court.file(*court.answered(), maul=lambda data: encode(change(decode(Envelope, data))))


def flipped(envelope: Envelope) -> Envelope:
    return replace(envelope, ciphertext=Blob(bytes([envelope.ciphertext[0] ^ 1]) + envelope.ciphertext[1:]))


def copied(court: Court) -> Case:
    """An attacker's own receipt around an honest envelope: it hopes that an enclave opens it for its seat."""
    victim = honest(court)
    return court.brought(victim.payload, replace(victim.receipt, operator=signer("attacker").address), victim.envelope)


DEFECTS: dict[str, tuple[type[Defect], Callable[[Court], Case]]] = {
    "a mauled ciphertext": (EnvelopeProofBad, lambda c: mauled(c, flipped)),
    "a mauled epoch": (EnvelopeProofBad, lambda c: mauled(c, lambda e: replace(e, key_epoch=U64(2)))),
    "a copied envelope": (EnvelopeProofBad, copied),
    "no envelope at all": (EnvelopeProofBad, lambda c: c.file(*c.answered(), maul=lambda _: b"no envelope at all")),
    "sealed to another key": (EnvelopeDoesNotOpen, lambda c: c.file(*c.answered(), key=encode_point(GENERATOR * 5))),
    "random plaintext": (PlaintextNotCanonical, lambda c: written(c, lambda p: os.urandom(len(p)))),
    "only zeros": (PlaintextNotCanonical, lambda c: written(c, lambda p: bytes(len(p)))),
    "padding that is not zero": (PlaintextNotCanonical, lambda c: written(c, lambda p: p[:-1] + b"\1")),
    "a larger bucket than needed": (PlaintextNotCanonical, lambda c: written(c, lambda p: p.ljust(BUCKETS[1], b"\0"))),
    "a payload that ends early": (
        PlaintextNotCanonical, lambda c: written(c, lambda p: (int.from_bytes(p[:4]) - 1).to_bytes(4) + p[4:])
    ),
    "an answer that contradicts itself": (
        PlaintextNotCanonical, lambda c: written(c, lambda p: p.replace(b'"completion_tokens":12', b'"completion_tokens":13'))
    ),
    "another request": (RequestHashMismatch, lambda c: holding(c, lambda p: replace(p, request=c.people.request(2)))),
    "another nonce": (
        RequestHashMismatch, lambda c: holding(c, lambda p: replace(p, request=replace(p.request, nonce=word("nonce"))))
    ),
    "another answer": (
        TokensHashMismatch, lambda c: holding(c, lambda p: replace(p, output=replace(p.output, finish_reason="error")))
    ),
    "no client signature": (ClientSignatureBad, lambda c: holding(c, lambda p: replace(p, client_signature=Blob(bytes(65))))),
    "a signature of another": (ClientSignatureBad, lambda c: asked(c, client=signer("stranger").address)),
    "another model": (RequestDiffers, lambda c: asked(c, {"model_id": c.model.model_id}, model_id=word("model"))),
    "another environment": (
        RequestDiffers, lambda c: asked(c, {"environment": c.environment.digest}, environment=word("environment"))
    ),
    "another chain": (RequestDiffers, lambda c: asked(c, chain_id=U256(1))),
    "too long a prompt": (OutsideLimits, lambda c: asked(c, prompt=(65,) * MANY)),
    "too many new tokens": (OutsideLimits, lambda c: asked(c, decode=replace(GREEDY, max_new_tokens=65))),
    "a token outside the vocabulary": (OutsideLimits, lambda c: asked(c, prompt=(2**31 - 1,))),
    "an expired request": (RequestExpired, lambda c: asked(c, expiry=U64(ANCHORED - 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defective_record_is_invalid_with_its_own_code(sitting: Court, name: str) -> None:
    defect, make = DEFECTS[name]
    case = make(sitting)
    passes = sitting.engine.verify_passes
    result = sitting.judge(case)
    assert (result.outcome, result.code, computed(result)) == (Outcome.INVALID, defect.code, NOTHING)
    said = sitting.stated(result)
    assert (said.receipt_id, said.outcome, said.code, said.verify_passes) == (case.id, Outcome.INVALID, defect.code, 0)
    assert sitting.engine.verify_passes == passes, "nothing is computed for a record that is none"
    # Without a proof under this receipt's own context no shard is asked at all.
    assert bool(sitting.released(case)) == (defect is not EnvelopeProofBad)
    assert verdict(case, result)[:2] == (Verdict.INVALID, defect.code)
    assert sitting.audited(case, result).result.result == AuditOutcome.MISMATCH


def test_every_code_is_among_them() -> None:
    assert {defect.code for defect, _ in DEFECTS.values()} == set(range(1, 10))


def test_the_same_record_without_a_defect_is_upheld(sitting: Court) -> None:
    """The control: what the cases above have in common is no reason for any of their codes."""
    case = honest(sitting)
    _, truth = sitting.honest
    result = sitting.judge(case)
    assert (result.outcome, result.code) == (Outcome.EXECUTED, 0)
    assert computed(result)[:2] == (truth.output.tokens_hash, truth.trace_root)
    assert sitting.stated(result).verify_passes == 1 and len(sitting.released(case)) == 2
    assert verdict(case, result)[0] is Verdict.UPHELD
    assert sitting.audited(case, result).result.result == AuditOutcome.MATCH


def test_request_that_expires_at_the_second_of_its_anchoring_is_valid(sitting: Court) -> None:
    request = sitting.people.request(1, expiry=ANCHORED)
    truth = sitting.engine.generate(request)
    payload = sitting.people.payload(request, truth.output)
    case = sitting.file(payload, sitting.receipt(request, truth.output, truth.out_hash))
    assert verdict(case, sitting.judge(case))[0] is Verdict.UPHELD
