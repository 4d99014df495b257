"""Wrong shards and tickets up to the judgement: a liar is blamed by name, too few give NO_KEY, nobody is accused."""

from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import pytest

from bytewise.protocol.errors.actors import ShardLied, ShardRefused, TicketRefused, TryAgain
from bytewise.protocol.jobs import JobResult, RunJob, key_domain
from bytewise.protocol.records.statements import AuditOutcome, Outcome, Verdict
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.units import Digest
from enclave.job_socket import JobContext
from tests.fixtures.bad_input.courtroom import NOTHING, Blame, Court, computed, verdict
from tests.fixtures.builders import word
from tests.fixtures.in_memory_network import Enclave
from tests.fixtures.kms.key_source import WrongShare
from tests.fixtures.kms.memory_chain import OTHER_VOTER, VOTER, Case
from tests.fixtures.verifier.enclave_in_memory import CONTRACTS
from verifier.audits.auditor import Cause


def case_of(court: Court, cheat: bool = False) -> Case:
    """An honest receipt, or one that claims another trace."""
    payload, receipt = court.answered()
    return court.file(payload, replace(receipt, out_hash=word("another out_hash")) if cheat else receipt)


@pytest.mark.parametrize("liar", [1, 2])
def test_lying_shard_is_named_and_receipt_judged_with_the_other_shards(court: Court, liar: int) -> None:
    case, blame = case_of(court), Blame()
    with court.sitting(*[(i, WrongShare.of(court.keys, i) if i == liar else court.keys.shard(i)) for i in (1, 2, 3)]):
        result = court.judge(case, blame)
    assert verdict(case, result)[0] is Verdict.UPHELD
    assert blame == [(liar, ShardLied)]


@pytest.mark.parametrize("cheat", [False, True])
def test_one_shard_of_two_needed_gives_no_key_and_no_accusation(court: Court, cheat: bool) -> None:
    """Also where the receipt is a fraud: without its plaintext nobody can know."""
    case, blame = case_of(court, cheat), Blame()
    with court.sitting((2, court.keys.shard(2))):
        result = court.judge(case, blame)
    assert (result.outcome, result.code, computed(result)) == (Outcome.NO_KEY, 0, NOTHING)
    assert court.released(case) == [2] and {error for _, error in blame} == {TryAgain}
    assert verdict(case, result)[0] is Verdict.NONE
    audited = court.audited(case, result)
    assert (audited.cause, audited.result.result) == (Cause.VERIFIER, AuditOutcome.NONE)


def test_one_honest_shard_among_liars_gives_no_key_and_no_other_plaintext(court: Court) -> None:
    case, blame = case_of(court), Blame()
    with court.sitting((1, court.keys.shard(1)), *[(i, WrongShare.of(court.keys, i)) for i in (2, 3)]):
        result = court.judge(case, blame)
    assert result.outcome == Outcome.NO_KEY and blame == [(2, ShardLied), (3, ShardLied)]


class Tampering(Enclave):
    """A duty process that changes the ticket of its job and has it signed by `signer`."""

    def __init__(self, bench: JobContext, signer: LocalSigner, **changes: object) -> None:
        super().__init__(bench)
        self._signer, self._changes = signer, changes

    def run(self, job: RunJob) -> JobResult:
        """The result of the job with that ticket."""
        ticket = replace(job.ticket, **self._changes)  # type: ignore[arg-type]
        signature = self._signer.sign(typed_digest(key_domain(CONTRACTS), ticket))
        return super().run(replace(job, ticket=ticket, ticket_signature=signature))


def test_a_ticket_for_another_receipt_gets_no_judgement(sitting: Court) -> None:
    case, other = case_of(sitting), case_of(sitting)
    with pytest.raises(TicketRefused):
        sitting.judge(case, between=partial(Tampering, signer=VOTER, receipt_id=other.id))
    assert sitting.released(case) == sitting.released(other) == []


def test_a_ticket_for_a_dispute_about_another_receipt_gets_no_key(sitting: Court) -> None:
    case, other, blame = case_of(sitting), case_of(sitting), Blame()
    result = sitting.judge(case, blame, partial(Tampering, signer=VOTER, subject=Digest(other.id[::-1])))
    assert result.outcome == Outcome.NO_KEY and sorted(blame, key=itemgetter(0)) == [(i, ShardRefused) for i in (1, 2, 3)]
    assert sitting.released(case) == sitting.released(other) == []


@pytest.mark.parametrize("own_name", [False, True], ids=["in the seat's name", "in its own name"])
def test_another_seats_ticket_gets_no_key(sitting: Court, own_name: bool) -> None:
    case, blame = case_of(sitting), Blame()
    changes: dict[str, Any] = {"voter": OTHER_VOTER.address} if own_name else {}
    result = sitting.judge(case, blame, partial(Tampering, signer=OTHER_VOTER, **changes))
    assert result.outcome == Outcome.NO_KEY and sorted(blame, key=itemgetter(0)) == [(i, ShardRefused) for i in (1, 2, 3)]
    assert sitting.released(case) == []
