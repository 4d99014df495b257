"""Receipts of profile `pinned-1` at the job socket: judged in an equal environment, *cannot execute* in every other."""

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from bytewise.inference.convert.make import make_model
from bytewise.inference.pinned import checkpoint
from bytewise.inference.pinned.engine import PinnedEngine
from bytewise.inference.pinned.fingerprint import fingerprint
from bytewise.protocol.digests import out_hash
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.preflight import PreflightSubject, preflight
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.request import Request, output_for
from bytewise.protocol.records.statements import CannotReason, Outcome
from bytewise.protocol.records.trace import Generated
from enclave.job_socket import JobContext
from tests.fixtures.builders import ANCHOR, CHAIN_ID, MODEL, World, word
from tests.fixtures.verifier import enclave_in_memory as b
from verifier.audits.auditor import Cause, attribute
from verifier.jobs.enclave_client import EnclaveClient
from verifier.jobs.job import JobCase, run_job, vote_right

WORLD = World()
RIGHT = vote_right(b.DISPUTE, 1, word("round seed"), 2_000_000_000)


class Place(NamedTuple):
    """A pinned engine on this machine, and the environment of a machine with another driver."""

    engine: PinnedEngine
    here: Environment
    elsewhere: Environment


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("pinned-jobs")
    make_model(folder / "checkpoint", 7, layers=2, width=64, heads=4, key_value_heads=2, context=128)
    checkpoint.pin(folder / "checkpoint", folder / "artifact")
    artifact = checkpoint.load(folder / "artifact")
    here = fingerprint(artifact.manifest.architecture)
    return Place(PinnedEngine(artifact, here), here, dataclasses.replace(here, driver="580.65.06"))


@contextmanager
def enclave(place: Place | None) -> Iterator[EnclaveClient]:
    """An enclave that serves the pinned artifact, or the exact one of these tests."""
    with b.short_folder() as folder:
        exact = b.bench(folder)
        bench = exact
        if place is not None:
            model_id = place.engine.artifact.model_id
            bench = JobContext(place.engine, model_id, b.WholeKey(), exact.quoter, CHAIN_ID, os.urandom, place.engine.profile)
        with b.serving(folder / "s", bench) as path:
            yield EnclaveClient(path, prepare_timeout_s=10.0)


def asked(place: Place, environment: Environment) -> Request:
    return WORLD.request(1, environment=environment.digest, model_id=place.engine.artifact.model_id)


def case(request: Request, environment: Environment, claimed: Generated) -> JobCase:
    """A receipt that signs `claimed` for the request; the payload holds the same output."""
    receipt = WORLD.receipt(1, request, claimed, gpu_arch=environment.gpu_arch_id)
    receipt, envelope = b.sealed(WORLD, WORLD.payload(request, claimed.output), receipt)
    signed = WORLD.sign(receipt)
    header, _ = WORLD.batch((signed,))
    return JobCase(receipt_id(ANCHOR, receipt), signed, header, (), envelope, environment, b.EPOCH, b.POLICY)


def judged(socket: EnclaveClient, one: JobCase) -> JobResult:
    return run_job(socket, b.VOTER, b.CONTRACTS, one, RIGHT)


def altered(request: Request, true: Generated) -> Generated:
    tokens = list(true.output.token_ids)
    tokens[5] = (tokens[5] + 1) % 250
    return Generated(output_for(request, tuple(tokens), true.output.finish_reason), true.leaves)


def test_pinned_job_is_executed_in_an_equal_environment_and_finds_fraud(place: Place) -> None:
    request = asked(place, place.here)
    true = place.engine.generate(request)
    with enclave(place) as socket:
        honest = judged(socket, case(request, place.here, true))
        fraud = judged(socket, case(request, place.here, altered(request, true)))
    assert honest.outcome == fraud.outcome == Outcome.EXECUTED
    assert (honest.tokens_hash, honest.trace_root) == (fraud.tokens_hash, fraud.trace_root)
    assert out_hash(honest.tokens_hash, honest.trace_root) == true.out_hash


def test_foreign_environment_cannot_execute_and_accuses_nobody(place: Place) -> None:
    request = asked(place, place.elsewhere)
    # What such an operator answered is not known here: any answer will do, and none may be judged.
    own = asked(place, place.here)
    answer = place.engine.generate(own)
    claimed = Generated(output_for(request, answer.output.token_ids, answer.output.finish_reason), answer.leaves)
    one = case(request, place.elsewhere, claimed)
    with enclave(place) as socket:
        found = judged(socket, one)
    assert (found.outcome, found.code) == (Outcome.CANNOT_EXECUTE, CannotReason.ENVIRONMENT)
    record = PreflightSubject(one.signed.receipt, one.header, place.elsewhere, word("policy"), 45, "simulated", True, False)
    assert attribute(found, one.signed.receipt, preflight(record), place.elsewhere.profile) is Cause.ENVIRONMENT


def test_enclave_of_the_other_profile_cannot_execute(place: Place) -> None:
    request = asked(place, place.here)
    true = place.engine.generate(request)
    with enclave(None) as socket:
        found = judged(socket, case(request, place.here, true))
    assert (found.outcome, found.code) == (Outcome.CANNOT_EXECUTE, CannotReason.PROFILE_UNKNOWN)
    exact = WORLD.request(1)
    with enclave(place) as socket:
        generated = WORLD.engine.generate(exact)
        found = judged(socket, case(exact, WORLD.environment, generated))
    assert exact.model_id == MODEL
    assert (found.outcome, found.code) == (Outcome.CANNOT_EXECUTE, CannotReason.PROFILE_UNKNOWN)
