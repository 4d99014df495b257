"""The vote function, cases 2 to 5: every honest seat says the same of the same bytes, for the first reason that applies."""

import dataclasses
from collections.abc import Callable

import pytest

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.protocol.digests import out_hash
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TicketRefused
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import (
    ClientSignatureBad,
    Defect,
    EnvelopeDoesNotOpen,
    EnvelopeProofBad,
    ForeignChain,
    MalformedValue,
    OutsideLimits,
    PlaintextNotCanonical,
    RequestDiffers,
    RequestExpired,
    RequestHashMismatch,
    TokensHashMismatch,
)
from bytewise.protocol.jobs import RunJob
from bytewise.protocol.records import trace
from bytewise.protocol.records.request import output_for
from bytewise.protocol.records.seal import Payload, envelope_hash
from bytewise.protocol.records.statements import CannotReason, Outcome, TicketKind
from bytewise.protocol.units import U64, U256, ZERO_DIGEST, Blob
from enclave.judge import JobOutcome, judge_job, verify_job
from tests.fixtures.builders import CHAIN_ID, MODEL, NOW, World, signer, word
from tests.fixtures.verifier import enclave_in_memory as b

WORLD = World()


def judged(job: RunJob, engine: b.TwoStubEngines | None = None, keys: b.WholeKey | None = None) -> JobOutcome:
    identifier = verify_job(job, CHAIN_ID)
    return judge_job(job, identifier, keys or b.WholeKey(), b"", engine or b.TwoStubEngines(), MODEL)


def case(
    request_changes: dict[str, object] | None = None,
    receipt_changes: dict[str, object] | None = None,
    payload: Callable[[Payload], Payload] = lambda p: p,
    kind: TicketKind = TicketKind.DISPUTE,
) -> RunJob:
    """A job about an honest answer to question 1, with changes."""
    request = WORLD.request(1, **(request_changes or {}))
    generated = WORLD.engine.generate(request)
    receipt = WORLD.receipt(1, request, generated, **(receipt_changes or {}))
    receipt, envelope = b.sealed(WORLD, payload(WORLD.payload(request, generated.output)), receipt)
    return b.job(WORLD, receipt, envelope, kind)


def test_honest_receipt_is_executed_with_its_hashes_and_a_round_digest() -> None:
    job = case()
    found = judged(job)
    truth = WORLD.engine.generate(WORLD.request(1))
    assert (found.outcome, found.code, found.verify_passes) == (Outcome.EXECUTED, 0, 1)
    assert out_hash(found.tokens_hash, found.trace_root) == job.receipt.out_hash
    assert found.round_digest == trace.round_digest(job.round_seed, b.DISPUTE, truth.leaves)


def test_an_audit_has_no_round_digest() -> None:
    assert judged(case(kind=TicketKind.AUDIT)).round_digest == ZERO_DIGEST


def altered(position: int, kind: TicketKind = TicketKind.DISPUTE, keep_out_hash: bool = False) -> RunJob:
    """A job about an answer with another token at `position`; its out_hash is that of the true answer if it is kept."""
    request = WORLD.request(1)
    truth = WORLD.engine.generate(request)
    tokens = list(truth.output.token_ids)
    tokens[position] = (tokens[position] + 1) % 256
    output = output_for(request, tuple(tokens), truth.output.finish_reason)
    claimed = truth.out_hash if keep_out_hash else out_hash(output.tokens_hash, truth.trace_root)
    receipt = WORLD.receipt(1, request, truth, tokens_hash=output.tokens_hash, out_hash=claimed)
    return b.job(WORLD, *b.sealed(WORLD, WORLD.payload(request, output), receipt), kind)


@pytest.mark.parametrize("keep_out_hash", [False, True])
@pytest.mark.parametrize("position", [0, 8, -1])
def test_an_altered_token_anywhere_is_executed_with_the_true_hashes(position: int, keep_out_hash: bool) -> None:
    job = altered(position, keep_out_hash=keep_out_hash)
    found, truth = judged(job), WORLD.engine.generate(WORLD.request(1))
    assert (found.outcome, found.tokens_hash, found.trace_root) == (Outcome.EXECUTED, truth.output.tokens_hash, truth.trace_root)
    assert found.tokens_hash != job.receipt.tokens_hash


@pytest.mark.parametrize("keep_out_hash", [False, True])
def test_divergence_not_confirmed_by_a_second_backend_accuses_nobody(keep_out_hash: bool) -> None:
    found = judged(altered(3, keep_out_hash=keep_out_hash), b.TwoStubEngines(second=8))
    assert found == JobOutcome(Outcome.CANNOT_EXECUTE, CannotReason.BACKEND)


def test_a_match_needs_no_second_backend() -> None:
    assert judged(case(), b.TwoStubEngines(second=8)).outcome is Outcome.EXECUTED


@pytest.mark.parametrize("engine", [b.OutOfMemory(), b.Starved()], ids=["of the interpreter", "of the engine"])
def test_machine_that_is_too_small_reports_it(engine: b.TwoStubEngines) -> None:
    assert judged(case(), engine) == JobOutcome(Outcome.CANNOT_EXECUTE, CannotReason.RESOURCES)


def test_machine_without_the_model_says_so_only_after_record_checks_pass() -> None:
    def elsewhere(job: RunJob) -> JobOutcome:
        return judge_job(job, verify_job(job, CHAIN_ID), b.WholeKey(), b"", b.TwoStubEngines(), word("another model"))

    assert elsewhere(case()) == JobOutcome(Outcome.CANNOT_EXECUTE, CannotReason.MODEL_MISSING)
    bad = case(payload=lambda p: dataclasses.replace(p, client_signature=Blob(bytes(65))))
    assert elsewhere(bad).outcome is Outcome.INVALID


def test_too_few_shards_give_no_verdict_on_the_operator() -> None:
    assert judged(case(), keys=b.WholeKey(available=False)) == JobOutcome(Outcome.NO_KEY)


def test_unknown_profile_is_not_executed() -> None:
    place = dataclasses.replace(WORLD.environment, profile="exact-9")
    job = case({"environment": place.digest}, {"environment": place.digest})
    assert judged(dataclasses.replace(job, environment=place)) == JobOutcome(Outcome.CANNOT_EXECUTE, CannotReason.PROFILE_UNKNOWN)


def _mauled() -> RunJob:
    """The envelope's ciphertext is altered and the receipt names the altered bytes."""
    request = WORLD.request(1)
    generated = WORLD.engine.generate(request)
    receipt, envelope = b.sealed(WORLD, WORLD.payload(request, generated.output), WORLD.receipt(1, request, generated))
    cut = envelope.index(b'"ciphertext":"0x') + 40
    digit = b"0" if envelope[cut : cut + 1] != b"0" else b"1"
    mauled = envelope[:cut] + digit + envelope[cut + 1 :]
    return b.job(WORLD, dataclasses.replace(receipt, envelope_hash=envelope_hash(mauled)), mauled)


def _copied() -> RunJob:
    """An attacker puts an honest envelope into a receipt of its own."""
    request = WORLD.request(1)
    generated = WORLD.engine.generate(request)
    honest, envelope = b.sealed(WORLD, WORLD.payload(request, generated.output), WORLD.receipt(1, request, generated))
    return b.job(WORLD, dataclasses.replace(honest, operator=signer("attacker").address), envelope)


def _garbage(receipt_changes: dict[str, object] | None = None) -> RunJob:
    request = WORLD.request(1)
    receipt = WORLD.receipt(1, request, WORLD.engine.generate(request), **(receipt_changes or {}))
    return b.job(WORLD, *b.seal(receipt, b"\x01" * 4096))


def _sealed_to_another_key() -> RunJob:
    job = case()
    other = dataclasses.replace(b.EPOCH, public_key=encode_point(GENERATOR * 5))
    return dataclasses.replace(job, epoch=other)


def _other_payload(**changes: object) -> RunJob:
    return case(payload=lambda p: dataclasses.replace(p, **changes))  # type: ignore[arg-type]


OTHER = WORLD.request(2)

DEFECTS: list[tuple[type[Defect], Callable[[], RunJob]]] = [
    (EnvelopeProofBad, _mauled),
    (EnvelopeProofBad, _copied),
    (EnvelopeDoesNotOpen, _sealed_to_another_key),
    (PlaintextNotCanonical, _garbage),
    (RequestHashMismatch, lambda: _other_payload(request=OTHER)),
    (TokensHashMismatch, lambda: _other_payload(output=WORLD.engine.generate(OTHER).output)),
    (ClientSignatureBad, lambda: _other_payload(client_signature=Blob(bytes(65)))),
    (RequestDiffers, lambda: case({"model_id": word("other model")}, {"model_id": MODEL})),
    (OutsideLimits, lambda: case({"prompt": tuple(range(250))})),
    (RequestExpired, lambda: case({"expiry": U64(NOW - 1)})),
]


@pytest.mark.parametrize(("defect", "make"), DEFECTS, ids=[f"{d.rule}-{i}" for i, (d, _) in enumerate(DEFECTS)])
def test_each_defect_of_the_record_is_its_own_code(defect: type[Defect], make: Callable[[], RunJob]) -> None:
    assert judged(make()) == JobOutcome(Outcome.INVALID, defect.code)


def test_all_defect_codes_are_covered() -> None:
    assert {defect.code for defect, _ in DEFECTS} == set(range(1, 10))


@pytest.mark.parametrize(
    ("fault", "changes"),
    [
        (MalformedValue, {"envelope": Blob(b"other bytes")}),
        (TicketRefused, {"environment": dataclasses.replace(WORLD.environment, driver="another")}),
        (TicketRefused, {"epoch": dataclasses.replace(b.EPOCH, epoch=U64(2))}),
        (ForeignChain, {"contracts": dataclasses.replace(b.CONTRACTS, chain_id=U256(1))}),
        (TicketRefused, {"contracts": dataclasses.replace(b.CONTRACTS, anchor=b.CONTRACTS.disputes)}),
    ],
)
def test_a_job_that_contradicts_itself_gets_no_judgement(fault: type[Fault], changes: dict[str, object]) -> None:
    with pytest.raises(fault):
        verify_job(dataclasses.replace(case(), **changes), CHAIN_ID)  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{"receipt_id": word("another")}, {"kind": 7}, {"kind": 2}, {"key_epoch": U64(2)}])
def test_a_ticket_for_something_else_gets_no_judgement(changes: dict[str, object]) -> None:
    job = case()
    with pytest.raises(TicketRefused):
        verify_job(dataclasses.replace(job, ticket=dataclasses.replace(job.ticket, **changes)), CHAIN_ID)  # type: ignore[arg-type]


def test_judgement_contains_nothing_of_the_plaintext() -> None:
    assert encode(WORLD.request(1)) not in repr(judged(case())).encode()
