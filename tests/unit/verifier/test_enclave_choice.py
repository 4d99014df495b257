"""Two enclaves of one verifier: jobs go to the one that fits by model and approval, and to the other while that is away."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import Prepared
from bytewise.protocol.records.statements import AuditOutcome
from bytewise.protocol.units import Digest
from bytewise.service.clock import SystemClock
from bytewise.service.installation import SOURCE_ROOT
from bytewise.service.readiness import ReadinessRegistry
from bytewise.tee.measurement import measure
from bytewise.tee_simulated.__main__ import policy_for
from bytewise.tee_simulated.authorities import Platform, issue, make_root
from bytewise.tee_simulated.quoter import SimulatedQuoter
from enclave.job_socket import JobContext
from tests.fixtures.builders import CHAIN_ID, MODEL, word
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.audit_node import node_of, run
from tests.fixtures.verifier.verifier_fixture import WORLD, VerifierFixture
from verifier.jobs.enclave_client import EnclaveClient
from verifier.jobs.enclave_readiness import EnclaveChoice, EnclaveReadiness, KnownEnclave, SuitableEnclave, add_enclave_checks
from verifier.jobs.job import EnclaveAway, EnclaveUnsuited

OLD, NEW = measure(SOURCE_ROOT, "enclave.job_socket"), measure(SOURCE_ROOT, "enclave.supervisor")
OTHER_MODEL, PROBE = word("another model"), word("probe")


class Release:
    """One enclave: its measured program, its model, and how many jobs it began."""

    def __init__(self, place: Path, name: str, program: Digest, model: Digest) -> None:
        self.path, self.began = place / f"{name}.sock", 0
        quoter = SimulatedQuoter(Platform(place / "platform.pem"), program, SystemClock())
        self.context = JobContext(b.TwoStubEngines(), model, b.WholeKey(), quoter, CHAIN_ID, os.urandom)

    def serving(self) -> AbstractContextManager[Path]:
        """The enclave, until the block ends."""
        return b.serving(self.path, self.context)

    def known(self) -> KnownEnclave:
        release = self

        class Counting(EnclaveClient):
            def prepare(self, receipt_id: Digest, model_id: Digest = MODEL) -> Prepared:
                found = super().prepare(receipt_id, model_id)
                release.began += 1
                if receipt_id == PROBE:
                    self.close()  # these tests send no job, and the enclave serves one conversation at a time
                return found

        state = EnclaveReadiness(EnclaveClient(self.path, 10.0), lambda: False, CHAIN_ID, SystemClock(), os.urandom)
        return KnownEnclave(Counting(self.path, 10.0), state)


@pytest.fixture
def place() -> Iterator[Path]:
    with b.short_folder() as folder:
        make_root(folder / "root")
        issue(folder / "root", folder / "platform.pem")
        yield folder


def policy(place: Path, *programs: Digest) -> bytes:
    """Approves these programs."""
    made = [policy_for(each, word("shard"), place / "root", CHAIN_ID, 1) for each in programs]
    entries = {entry.measurement: entry for each in made for entry in each.measurements}
    return encode(replace(made[0], measurements=tuple(entries.values())))


def checks(*enclaves: KnownEnclave) -> dict[str, tuple[bool, str]]:
    registry = ReadinessRegistry()
    add_enclave_checks(registry, [each.state for each in enclaves])
    return {each.name: (each.ok, each.value) for each in registry.checks()}


def test_job_goes_to_the_enclave_with_its_model(place: Path) -> None:
    old, new = Release(place, "old", OLD, MODEL), Release(place, "new", NEW, OTHER_MODEL)
    known = [old.known(), new.known()]
    for each in known:
        each.state.note_policy(policy(place, OLD, NEW))
    choice = EnclaveChoice(known)
    with old.serving(), new.serving():
        for model, began in ((MODEL, (1, 0)), (OTHER_MODEL, (1, 1)), (word("of nobody"), (2, 1))):
            choice.prepare(PROBE, model)
            assert (old.began, new.began) == began
        found = checks(*known)
        assert found["measurement"][0] and OLD.hex()[:8] not in OTHER_MODEL.hex()
        assert (
            ", and " in found["enclave"][1]
            and MODEL.hex()[:8] in found["enclave"][1]
            and OTHER_MODEL.hex()[:8] in found["enclave"][1]
        )


def test_job_waits_for_the_enclave_that_had_its_model(place: Path) -> None:
    """The other one would answer that it lacks the model, and that would be the vote."""
    old, new = Release(place, "old", OLD, MODEL), Release(place, "new", NEW, OTHER_MODEL)
    choice = EnclaveChoice([old.known(), new.known()])
    with new.serving():
        with old.serving():
            choice.prepare(PROBE, MODEL)
            assert (old.began, new.began) == (1, 0)
        with pytest.raises(EnclaveUnsuited, match="is away"):
            choice.prepare(PROBE, MODEL)
        choice.prepare(PROBE, OTHER_MODEL)
        assert (old.began, new.began) == (1, 1)
        with old.serving():
            choice.prepare(PROBE, MODEL)
            assert (old.began, new.began) == (2, 1)
        unaware = EnclaveChoice([old.known(), new.known()])
        unaware.prepare(PROBE, MODEL)
        assert (old.began, new.began) == (2, 2), "nothing says that the one that never answered has the model"


def test_only_the_approved_release_is_asked_while_it_is_there(place: Path) -> None:
    old, new = Release(place, "old", OLD, MODEL), Release(place, "new", NEW, MODEL)
    known = [old.known(), new.known()]
    choice = EnclaveChoice(known)
    with old.serving():
        for programs, began in (((OLD, NEW), (1, 0)), ((NEW,), (1, 1)), ((OLD,), (2, 1))):
            with new.serving():
                for each in known:
                    each.state.note_policy(policy(place, *programs))
                choice.prepare(PROBE, MODEL)
                assert (old.began, new.began) == began
                assert checks(*known)["measurement"][0]
        for each in known:
            each.state.note_policy(policy(place, NEW))
        choice.prepare(PROBE, MODEL)
        assert (old.began, new.began) == (3, 1), "what is there is asked, and its shards refuse"
        assert not checks(*known)["measurement"][0] and checks(*known)["enclave"][0]
    choice = EnclaveChoice([old.known(), new.known()])
    with pytest.raises(TryAgain, match="enclave"):
        choice.prepare(PROBE, MODEL)
    with pytest.raises(TryAgain, match="no prepared job"):
        choice.run(b.job(WORLD, WORLD.answered(1).receipt, b""))


def test_further_enclave_takes_only_jobs_that_it_suits(place: Path) -> None:
    release = Release(place, "further", OLD, MODEL)
    known = release.known()
    further = SuitableEnclave([known])
    known.state.note_policy(policy(place, OLD))
    with pytest.raises(EnclaveAway, match="does not answer"):
        further.prepare(PROBE, MODEL)
    with release.serving():
        known = release.known()
        further = SuitableEnclave([known])
        known.state.note_policy(policy(place, NEW))
        assert not known.state.may_suit(MODEL), "it never answered"
        with pytest.raises(EnclaveUnsuited, match="measurement"):
            further.prepare(PROBE, MODEL)
        assert not known.state.may_suit(MODEL)
        known.state.note_policy(policy(place, OLD))
        with pytest.raises(EnclaveUnsuited, match="another model"):
            further.prepare(PROBE, OTHER_MODEL)
        assert release.began == 0
        further.prepare(PROBE, MODEL)
        assert release.began == 1
        assert known.state.may_suit(MODEL) and not known.state.may_suit(OTHER_MODEL)


def test_audits_run_in_the_old_release_and_then_in_the_new(tmp_path: Path, place: Path) -> None:
    """An upgrade: the policy approves both, then only the new one, then the old enclave is gone. No audit is lost."""
    old, new = Release(place, "old", OLD, MODEL), Release(place, "new", NEW, MODEL)
    known = [old.known(), new.known()]

    def audited(name: str) -> list[int]:
        (tmp_path / name).mkdir()
        setup = VerifierFixture(tmp_path / name)
        setup.enclave = EnclaveChoice(known)  # type: ignore[assignment]
        setup.anchor(setup.signed(1), setup.signed(2, cheat=True))
        node, _ = node_of(setup)
        run(setup, node, 2)
        setup.close()
        return sorted(result.result for result, _ in setup.sender.of("audit"))

    both = sorted([int(AuditOutcome.MATCH), int(AuditOutcome.MISMATCH)])
    with new.serving():
        with old.serving():
            for programs, began in (((OLD, NEW), (2, 0)), ((NEW,), (2, 2))):
                for each in known:
                    each.state.note_policy(policy(place, *programs))
                assert audited(f"approved {len(programs)}") == both and (old.began, new.began) == began
        assert audited("gone") == both and (old.began, new.began) == (2, 4)
