"""Whether the enclave is there and approved: asked over a real job socket, judged by a real policy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import EnclaveStatus
from bytewise.protocol.units import Digest
from bytewise.service.clock import SystemClock
from bytewise.service.readiness import Check, ReadinessRegistry
from bytewise.tee_simulated.__main__ import simulated_policy
from tests.fixtures.builders import CHAIN_ID, MODEL, NOW, word
from tests.fixtures.metric_values import value_of
from tests.fixtures.verifier import enclave_in_memory as b
from verifier.jobs import enclave_readiness
from verifier.jobs.enclave_client import EnclaveClient
from verifier.jobs.enclave_readiness import EnclaveReadiness, add_enclave_checks


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short name."""
    with b.short_folder() as folder:
        yield folder


@pytest.fixture
def enclave(place: Path) -> Iterator[Path]:
    """A serving enclave; its socket."""
    with b.serving(place / "jobs.sock", b.bench(place)) as path:
        yield path


class Counted:
    """A client that counts its questions, and how the worker is."""

    def __init__(self, path: Path) -> None:
        self._client = EnclaveClient(path, prepare_timeout_s=10.0)
        self.asked = 0
        self.working = False
        self.now = 0.0

    def status(self, nonce: Digest) -> EnclaveStatus:
        self.asked += 1
        return self._client.status(nonce)

    def readiness(self) -> EnclaveReadiness:
        return EnclaveReadiness(
            self, lambda: self.working, CHAIN_ID, SystemClock(), lambda size: word("n", self.asked)[:size], lambda: self.now
        )


def checks(found: EnclaveReadiness) -> tuple[Check, Check]:
    """`enclave` and `measurement`, each as it is now."""
    registry = ReadinessRegistry()
    found.add_checks(registry)
    listed = {check.name: check for check in registry.checks()}
    return listed["enclave"], listed["measurement"]


def policy(place: Path, entry: str = b.ENTRY) -> bytes:
    return encode(simulated_policy(place / "root", CHAIN_ID, 1, entry))


def test_approved_enclave_is_ready(enclave: Path, place: Path) -> None:
    source = Counted(enclave)
    readiness = source.readiness()
    add_enclave_checks(ReadinessRegistry(), [readiness, source.readiness()])
    assert checks(readiness)[1].value == "the appraisal policy was not read yet"
    source.now = 50.0
    assert value_of("bytewise_attestation_age_seconds") == 50, "since the start, so that an enclave never accepted is noticed"
    accepted = value_of("bytewise_attestation_total", result="accepted")
    readiness.note_policy(policy(place))
    there, approved = checks(readiness)
    assert there.ok and there.value == f"model 0x{MODEL.hex()[:8]}, all fences" and value_of("bytewise_enclave_up") == 1
    assert approved.ok and approved.value.startswith("0x") and ", simulated, " in approved.value
    assert value_of("bytewise_attestation_total", result="accepted") == accepted + 1
    source.now = 150.0
    assert value_of("bytewise_attestation_age_seconds") == 100, "that of the newest evidence"
    source.now = 50.0 + enclave_readiness.EVERY_S
    checks(readiness)
    assert value_of("bytewise_attestation_age_seconds") == 0


def test_collateral_must_last_a_week_and_only_that_of_hardware(enclave: Path, place: Path) -> None:
    readiness, registry = Counted(enclave).readiness(), ReadinessRegistry()
    readiness.add_checks(registry)
    (before,) = [check for check in registry.checks() if check.name == "collateral"]
    assert not before.ok and before.value == "no evidence was accepted"
    readiness.note_policy(policy(place))
    registry = ReadinessRegistry()
    readiness.add_checks(registry)
    (after,) = [check for check in registry.checks() if check.name == "collateral"]
    assert after.ok and "simulated" in after.value
    assert not value_of("bytewise_collateral_expires_timestamp_seconds") > 0, "simulated evidence sets no date"
    week = enclave_readiness.LASTS_S
    assert enclave_readiness.collateral_check(NOW + week, NOW).ok
    late = enclave_readiness.collateral_check(NOW + week - 1, NOW)
    assert not late.ok and late.value == "7.0 days" and "enclave collateral --once" in late.advice
    assert not enclave_readiness.collateral_check(NOW - 1, NOW).ok


def test_enclave_of_another_measurement_is_not_approved(enclave: Path, place: Path) -> None:
    readiness = Counted(enclave).readiness()
    readiness.note_policy(policy(place, "enclave.supervisor"))
    refused = value_of("bytewise_attestation_total", result="refused")
    there, approved = checks(readiness)
    assert value_of("bytewise_attestation_total", result="refused") == refused + 1
    assert (
        there.ok and not approved.ok and "is not trusted as verifier-enclave" in approved.value and "release" in approved.advice
    )


def test_evidence_for_another_nonce_is_refused(enclave: Path, place: Path) -> None:
    class Replaying(Counted):
        def status(self, nonce: Digest) -> EnclaveStatus:
            return super().status(word("another"))

    readiness = Replaying(enclave).readiness()
    readiness.note_policy(policy(place))
    assert "does not bind this request" in checks(readiness)[1].value


def test_enclave_that_is_away_is_reported_and_asked_again(place: Path) -> None:
    source = Counted(place / "nothing.sock")
    readiness = source.readiness()
    readiness.note_policy(policy_of_another_network(place))
    there, approved = checks(readiness)
    assert not there.ok and "FileNotFoundError" in there.value and not approved.ok and value_of("bytewise_enclave_up") == 0
    checks(readiness)
    assert source.asked == 1
    source.now = enclave_readiness.AFTER_FAILURE_S
    checks(readiness)
    assert source.asked == 2


def policy_of_another_network(place: Path) -> bytes:
    b.bench(place)  # makes the root of a platform
    return policy(place)


def test_enclave_is_not_asked_while_it_works_or_was_asked_lately(enclave: Path, place: Path) -> None:
    source = Counted(enclave)
    readiness = source.readiness()
    readiness.note_policy(policy(place))
    checks(readiness)
    source.now, source.working = enclave_readiness.EVERY_S + 1, True
    assert checks(readiness)[0].ok and source.asked == 1
    source.working = False
    assert checks(readiness)[0].ok and source.asked == 2


def test_job_still_runs_after_a_question(enclave: Path) -> None:
    client = EnclaveClient(enclave, prepare_timeout_s=10.0)
    assert client.status(word("nonce")).model_id == MODEL
    assert client.prepare(word("receipt")).instance
    client.close()
    with pytest.raises(TryAgain):
        EnclaveClient(enclave.with_name("other"), 1.0).status(word("nonce"))
