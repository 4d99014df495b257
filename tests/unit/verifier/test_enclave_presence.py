"""An enclave that is away: told once when it goes and once when it is back, asked less often meanwhile; no job fails by it."""

import json
from collections import Counter
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import JobResult, Prepared, RunJob
from bytewise.protocol.units import Digest
from tests.fixtures.committee.seated_member import SeatedMember, disputed_receipt
from tests.fixtures.verifier.audit_node import node_of, run, run_until
from tests.fixtures.verifier.verifier_fixture import Enclave, VerifierFixture
from verifier.audits.auditor import MAX_ATTEMPTS
from verifier.audits.bounties import FAILED, PENDING
from verifier.jobs.enclave_pool import LONGEST_PAUSE_S


class Counting(Enclave):
    """Counts how often it is asked."""

    asked = 0

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        self.asked += 1
        return super().prepare(receipt_id, model_id)


class Failing(Enclave):
    """Takes each job and hangs up."""

    def run(self, job: RunJob) -> JobResult:
        self.jobs += 1
        raise TryAgain("enclave", "closed by the peer")


def events(capsys: pytest.CaptureFixture[str]) -> Counter[str]:
    return Counter(json.loads(line)["event"] for line in capsys.readouterr().err.splitlines())


def test_audits_resume_when_the_enclave_returns(setup: VerifierFixture, capsys: pytest.CaptureFixture[str]) -> None:
    setup.enclave = enclave = Counting(setup.enclave.bench)
    setup.anchor(*(setup.signed(number) for number in range(1, 7)))
    enclave.running = False
    node, audits = node_of(setup)
    since = setup.chain.timestamp
    run_until(setup, node, lambda: setup.chain.timestamp >= since + 40)
    away = events(capsys)
    assert len(audits.audits(PENDING)) == 6, "what was not tried has not failed"
    assert away["enclave.lost"] == 1 and away["job.failed"] == away["job.finished"] == away["audit.failed"] == 0
    assert away.total() < 20 and 40 / LONGEST_PAUSE_S <= enclave.asked <= 20, away
    enclave.running = True
    run(setup, node, 6)
    back = events(capsys)
    assert back["enclave.returned"] == 1 and back["enclave.lost"] == 0 and back["job.finished"] == 6
    assert enclave.jobs == 6


def test_seat_asks_less_often_and_votes_when_the_enclave_returns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup, dispute = disputed_receipt(tmp_path)
    setup.enclave = enclave = Counting(setup.enclave.bench)
    enclave.running = False
    with SeatedMember(setup) as member:
        member.tick()
        for _ in range(20):
            member.tick(1)
            member.until_quiet()
        away = events(capsys)
        enclave.running = True
        setup.chain.pass_time(int(LONGEST_PAUSE_S))
        member.until_quiet()
        assert member.vote(dispute) is not None
    assert away - Counter(("batch.seen", "receipt.checked")) == Counter(("vote.requested", "enclave.lost"))
    assert 3 < enclave.asked - 1 < 8 and events(capsys)["enclave.returned"] == 1


def test_enclave_failing_each_job_gives_a_failed_audit_and_no_result(setup: VerifierFixture) -> None:
    setup.enclave = Failing(setup.enclave.bench)
    setup.anchor(setup.signed(1))
    node, audits = node_of(setup)
    run_until(setup, node, lambda: [row.state for row in audits.audits()] == [FAILED])
    for _ in range(3):
        setup.chain.pass_time(1)
        node.tick()
    assert [row.state for row in audits.audits()] == [FAILED] and setup.sender.of("audit") == []
    assert setup.enclave.jobs == MAX_ATTEMPTS
