"""Light audits and the watchtower: public draws, one result per receipt, doubt that accuses nobody, one dispute per fraud."""

import dataclasses
import os
from collections.abc import Callable

import pytest

from bytewise.protocol.court.sortition import BEACON_DELAY_BLOCKS, audit_is_drawn
from bytewise.protocol.decisions.actions import Action, PostAudit, RunAudit
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.decisions.snapshot import FINAL_AFTER, Snapshot
from bytewise.protocol.digests import out_hash
from bytewise.protocol.errors.actors import NoAgreement, SignerAway, TryAgain
from bytewise.protocol.errors.branches import Bug
from bytewise.protocol.errors.records import UnknownEnvironment
from bytewise.protocol.evidence.appraisal_policy import policy_digest
from bytewise.protocol.jobs import JobResult, RunJob
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, audit_commitment
from bytewise.protocol.signing import Domain, Preimage, typed_digest, verify_signature
from bytewise.protocol.units import U8, U64, ZERO_DIGEST, Address, Blob, Digest, unhex
from bytewise.storage.archive import LightAudits
from chain.deployment.params import with_changes
from kms.shard.release_policy import verify_unexpired
from tests.fixtures.builders import ANCHOR, DISPUTES, KEY_EPOCHS, NOW, word
from tests.fixtures.kms.release_network import wait_until
from tests.fixtures.snapshot_builders import POOL
from tests.fixtures.verifier import enclave_in_memory as b
from tests.fixtures.verifier.audit_node import auditor_of, node_of, run, run_until
from tests.fixtures.verifier.verifier_fixture import ME, NETWORK, PARAMS, WINDOW_S, WORLD, VerifierFixture
from verifier.audits.audit_hints import AuditHint, HintBox
from verifier.audits.auditor import MAX_ATTEMPTS, Auditor
from verifier.audits.bounties import FAILED, PENDING, SIGNED, own_order
from verifier.executor import ActionExecutor
from verifier.jobs.job import JobOrder
from verifier.node import Node


def test_drawn_receipts_are_audited_signed_and_posted_with_the_truth(
    setup: VerifierFixture, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    honest, fraud = setup.signed(1), setup.signed(2, cheat=True)
    setup.anchor(honest, fraud)
    node, audits = node_of(setup)
    run(setup, node, 2)
    said = {}
    for result, signature in setup.sender.of("audit"):
        verify_signature("audit", typed_digest(DISPUTES, result), signature, ME.address)
        said[result.receipt_id] = result.result
    honest_id, fraud_id = receipt_id(ANCHOR, honest.receipt), receipt_id(ANCHOR, fraud.receipt)
    assert said == {honest_id: AuditOutcome.MATCH, fraud_id: AuditOutcome.MISMATCH}
    opening = audits.find(fraud_id).opening  # type: ignore[union-attr]
    tokens, root, salt = (Digest(unhex(opening[name])) for name in ("tokens_hash", "trace_root", "salt"))
    assert audits.find(fraud_id).result.commitment == audit_commitment(fraud_id, ME.address, tokens, root, salt)  # type: ignore[union-attr]
    assert out_hash(tokens, root) != fraud.receipt.out_hash
    signed = [line for line in capsys.readouterr().err.splitlines() if '"event":"audit.signed"' in line]
    assert len(signed) == 2 and all('"assurance":"simulated"' in line for line in signed)
    setup.journal.verify_journal()


class AwaySigner:
    """A remote signer that does not answer while it is away."""

    def __init__(self) -> None:
        self.address, self.asked = ME.address, 0
        self.away: Callable[[Preimage], bool] = lambda _: True

    def sign_preimage(self, preimage: Preimage) -> Blob:
        self.asked += 1
        if self.away(preimage):
            raise SignerAway("signer:9000", "HTTP 500")
        return ME.sign_preimage(preimage)


@pytest.mark.parametrize("domain", [KEY_EPOCHS, DISPUTES])
def test_audit_waits_for_a_signer_that_is_away(setup: VerifierFixture, domain: Domain) -> None:
    """Away for tickets, the audit is tried again and never counts as failed; away for results, the result is kept."""
    remote = AwaySigner()
    setup.anchor(setup.signed(1))
    remote.away = lambda preimage: preimage[2:34] == domain.separator
    node, audits = node_of(setup, remote)
    run_until(setup, node, lambda: remote.asked > 2 * MAX_ATTEMPTS)
    assert setup.sender.of("audit") == [] and [row.state for row in audits.audits()] == [PENDING]
    jobs = setup.enclave.jobs
    remote.away = lambda _: False
    run(setup, node, 1)
    assert setup.enclave.jobs == jobs + (domain == KEY_EPOCHS), "a finished job is not run again"


def test_no_receipt_can_be_made_to_be_audited_last_by_all_verifiers(setup: VerifierFixture) -> None:
    """An operator that makes ids until one is the highest would win if the order were that of the ids."""
    audits = LightAudits(setup.database, setup.clock)
    chosen = Digest(b"\xff" * 32)
    for receipt in (chosen, *(word("receipt", i) for i in range(15))):
        audits.add(receipt, 1_020)
    audits.add(word("urgent"), 1_019)
    rows = audits.audits("PENDING")
    assert rows[-1].receipt_id == chosen, "control: all verifiers would come to it last"
    orders = [own_order(rows, bytes([salt]) * 32) for salt in range(20)]
    assert all(
        order[0].receipt_id == word("urgent") and {row.receipt_id for row in order} == {row.receipt_id for row in rows}
        for order in orders
    )
    places = [[row.receipt_id for row in order].index(chosen) for order in orders]
    assert min(places) < 4 and len(set(places)) > 5
    assert own_order(reversed(rows), bytes(32)) == orders[0], "and one verifier keeps its order from tick to tick"


def test_verifier_of_another_pool_or_a_later_member_is_not_drawn(setup: VerifierFixture) -> None:
    """Shards and contract refuse both: it would run a job for which no shard releases a partial."""
    setup.anchor(setup.signed(1))
    at = setup.chain.headers[0].block
    for pool, joined_at, drawn in (
        (word("another pool"), at, 0), (ZERO_DIGEST, at, 0), (POOL, at + 1, 0), (POOL, at, 1),
    ):  # fmt: skip
        setup.chain.own_pool, setup.chain.own_joined_at = pool, joined_at
        setup.records.step(setup.chain.pass_time(1))
        auditor, audits = auditor_of(setup)
        auditor.step(setup.chain.now())
        assert len(audits.audits()) == drawn


def test_audit_of_a_verifier_that_joined_again_ends(setup: VerifierFixture) -> None:
    header = setup.anchor(setup.signed(1))
    node, audits = node_of(setup)
    setup.enclave.running = False
    node.tick()
    assert [each.state for each in audits.audits()] == [PENDING]
    wait_until(setup.pools[-1].away)  # the first job has met no enclave, so it cannot meet the one that runs from now on
    setup.chain.own_joined_at, setup.enclave.running = header.block + 1, True
    run_until(setup, node, lambda: audits.audits()[0].state == FAILED)
    assert setup.enclave.jobs == 0


def test_own_stake_is_read_once_for_all_receipts_of_a_batch(setup: VerifierFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy day has a million receipts in some thousand batches."""
    reads: list[int] = []
    read = setup.chain.stake_at

    def counted(account: Address, stake_block: int, block: int) -> int:
        reads.append(stake_block)
        return read(account, stake_block, block)

    monkeypatch.setattr(setup.chain, "stake_at", counted)
    setup.anchor(*[setup.signed(seq) for seq in range(1, 6)])
    setup.records.step(setup.chain.now())
    auditor, audits = auditor_of(setup)
    auditor.step(setup.chain.now())
    assert len(reads) == 1 and len(audits.audits()) == 5


def test_auditor_sends_hints_of_a_fraud_to_watchtowers_before_publishing(setup: VerifierFixture) -> None:
    honest, fraud = setup.signed(1), setup.signed(2, cheat=True)
    setup.anchor(honest, fraud)
    told: list[tuple[AuditHint, int]] = []
    pool, audits = setup.pool(), LightAudits(setup.database, setup.clock)

    def hand_over(hint: AuditHint) -> None:
        told.append((hint, len([each for each in setup.sender.of("audit") if each[0] == hint.result])))

    auditor = Auditor(
        setup.chain, NETWORK, setup.records, audits, setup.journal, ME, pool, os.urandom, 5, hand_over
    )  # fmt: skip
    executor = ActionExecutor(setup.sender, setup.journal, auditor, None, None)
    node = Node(setup.chain, setup.sender, setup.pages, setup.records, executor, MovePolicy(), [auditor], pool, auditor)
    run(setup, node, 2)
    ((hint, published),) = told
    assert published == 0 and hint.result.receipt_id == receipt_id(ANCHOR, fraud.receipt)
    box = HintBox(DISPUTES, {ME.address})
    box.put(hint)
    assert box.key([hint.result]) == hint.key


def test_a_restart_posts_the_stored_result_and_judges_nothing_again(setup: VerifierFixture) -> None:
    setup.anchor(setup.signed(1))
    node, _ = node_of(setup)
    run(setup, node, 1)
    first = setup.sender.of("audit")
    setup.reopen()
    node, _ = node_of(setup)
    for _ in range(3):
        setup.chain.pass_time(1)
        node.tick()
    assert setup.sender.of("audit") == first and setup.enclave.jobs == 1


def test_too_few_shards_long_after_finality_accuse_nobody(setup: VerifierFixture) -> None:
    header = setup.anchor(setup.signed(2, cheat=True), first_seq=U64(2))
    setup.enclave.bench.keys = b.WholeKey(available=False)
    node, _ = node_of(setup)
    run(setup, node, 1)
    ((result, _),) = setup.sender.of("audit")
    assert result.result == AuditOutcome.NONE and setup.chain.number > header.block + BEACON_DELAY_BLOCKS + FINAL_AFTER
    assert 2 * MAX_ATTEMPTS < setup.enclave.jobs < 12, "each pause is twice the last"
    assert setup.chain.timestamp < header.anchored_at + WINDOW_S


def test_auditor_waits_for_shards_that_wait_for_a_final_block(setup: VerifierFixture) -> None:
    """They release nothing before the draw is in a final block, a quarter of an hour on a public chain."""
    header = setup.anchor(setup.signed(2, cheat=True), first_seq=U64(2))
    setup.enclave.bench.keys = b.WholeKey(available=False)
    node, _ = node_of(setup)
    run_until(setup, node, lambda: setup.chain.number > header.block + BEACON_DELAY_BLOCKS + FINAL_AFTER - 20)
    assert setup.enclave.jobs > MAX_ATTEMPTS
    setup.enclave.fails = 1  # which is the first job that fails
    run_until(setup, node, lambda: not setup.enclave.fails)
    setup.enclave.bench.keys = b.WholeKey()
    run(setup, node, 1)
    ((result, _),) = setup.sender.of("audit")
    assert result.result == AuditOutcome.MISMATCH


def test_nothing_is_audited_or_posted_after_a_compromise(setup: VerifierFixture) -> None:
    """Shards give no key for such an audit, and the contract takes no result of it."""
    setup.anchor(setup.signed(1))
    node, audits = node_of(setup)
    setup.chain.open_for_audits.clear()
    for _ in range(3):
        setup.chain.pass_time(1)
        node.tick()
    assert len(audits.audits(PENDING)) == 1 and setup.enclave.jobs == 0
    setup.chain.open_for_audits.add(1)
    judge = setup.enclave.run

    def judge_and_compromise(job: RunJob) -> JobResult:
        found = judge(job)
        setup.chain.open_for_audits.clear()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup.enclave, "run", judge_and_compromise)
        run_until(setup, node, lambda: bool(audits.audits(SIGNED)) and not setup.pools[-1].busy())
    assert len(audits.audits(SIGNED)) == 1 and setup.sender.of("audit") == []


def test_job_names_the_policy_by_which_shards_decide(setup: VerifierFixture) -> None:
    """A new policy that is in no final block yet is not the shards', which then answer an enclave of it with "try again"."""
    setup.anchor(setup.signed(1))
    setup.records.step(setup.chain.now())
    newer = dataclasses.replace(setup.chain.now(), policy=word("newer policy"))
    case = setup.records.case(setup.records.live[0].seen.receipt_id, newer)
    assert policy_digest(case.policy) == setup.chain.final_policy() != newer.policy
    with pytest.MonkeyPatch.context() as patch, pytest.raises(UnknownEnvironment):
        patch.setattr(setup.chain, "final_policy", lambda: None)
        setup.records.case(case.receipt_id, newer)


def test_audit_that_waits_for_an_enclave_keeps_a_valid_ticket(setup: VerifierFixture) -> None:
    """Shards compare the ticket's end with a clock that has gone on while the job waited, and refuse an expired one for good."""
    header = setup.anchor(setup.signed(1))
    setup.chain.extended[int(header.batch_id)] = 300
    asked: list[JobOrder] = []
    with pytest.MonkeyPatch.context() as patch:
        auditor, _ = auditor_of(setup)
        patch.setattr(setup.pools[-1], "submit", asked.append)
        setup.records.step(setup.chain.now())
        (action,) = auditor.step(setup.chain.now())
        assert isinstance(action, RunAudit)
        auditor.start(action, setup.chain.now())
    jobs: list[RunJob] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup.enclave, "run", jobs.append)
        asked[0].run(setup.enclave)
    end = header.anchored_at + WINDOW_S + 300
    assert verify_unexpired(jobs[0].ticket, end) and jobs[0].ticket.expires_at == end + 1


def test_audit_waits_for_the_beacon_block(setup: VerifierFixture) -> None:
    header = setup.anchor(setup.signed(1), block=U64(20))
    auditor, _ = auditor_of(setup)
    for number, expected in ((20, ()), (21, ()), (22, (RunAudit,))):
        setup.chain.number = number
        setup.records.step(setup.chain.now())
        assert tuple(map(type, auditor.step(setup.chain.now()))) == expected
    assert header.block == 20


@pytest.mark.parametrize(
    ("stakes", "drawn"), [([(1, 1000)], 1), ([(11, 1000)], 0), ([(1, 9), (11, 1000)], 0), ([(1, 1000), (11, 9)], 1)]
)
def test_audit_seats_follow_the_stake_at_the_block_of_the_batch(
    setup: VerifierFixture, stakes: list[tuple[int, int]], drawn: int
) -> None:
    """The batch is in block 10; a unit is 10 wei. Joining, paying in or leaving afterwards changes no draw."""
    setup.chain.joined[ME.address] = stakes
    setup.anchor(setup.signed(1))
    setup.records.step(setup.chain.now())
    auditor, _ = auditor_of(setup)
    assert len(auditor.step(setup.chain.now())) == drawn


def test_draw_of_a_reorganised_block_is_made_again(setup: VerifierFixture) -> None:
    setup.chain.joined[ME.address] = [(0, 10)]
    setup.chain.parameters = with_changes(PARAMS, {"shares": {"audit_rate_bps": 5000}})
    setup.anchor(setup.signed(1), block=14)
    setup.records.step(setup.chain.now())
    auditor, _ = auditor_of(setup)
    identifier = setup.records.live[0].seen.receipt_id
    branches = [f"branch {number}" for number in range(40)]

    def drawn(branch: str) -> bool:
        return audit_is_drawn(word("block", branch, 16), identifier, ME.address, 5000, 1)

    def step(branch: str) -> tuple[Action, ...]:
        setup.chain.branch = branch
        return auditor.step(setup.chain.now())

    assert step(next(branch for branch in branches if not drawn(branch))) == ()
    assert step(next(branch for branch in branches if drawn(branch))) == (RunAudit(identifier),)


@pytest.mark.parametrize(
    "changes",
    [{"anchor_by": U64(0)}, {"gpu_arch": word("another architecture")}, {"mode": U8(1)}, {"locator": "ftp:nowhere"}],
    ids=str,
)
def test_fraud_combined_with_a_small_fault_is_still_audited(setup: VerifierFixture, changes: dict[str, object]) -> None:
    signed = setup.signed(1, cheat=True)
    locator = str(changes.pop("locator", signed.locator))
    setup.anchor(WORLD.sign(dataclasses.replace(signed.receipt, **changes), locator))  # type: ignore[arg-type]
    setup.records.step(setup.chain.now())
    assert [live.seen.finding for live in setup.records.live] != ["Good"]
    auditor, _ = auditor_of(setup)
    assert list(map(type, auditor.step(setup.chain.now()))) == [RunAudit]


def test_fraud_whose_envelope_appears_after_the_deadline_is_audited(setup: VerifierFixture) -> None:
    signed = setup.signed(1, cheat=True)
    setup.anchor(signed)
    data = setup.shelf.blobs.pop(signed.locator)
    node, _ = node_of(setup)
    for _ in range(3):
        setup.chain.pass_time(40)
        node.tick()
    assert [live.seen.finding for live in setup.records.live] == ["Withheld"]
    setup.shelf.blobs[signed.locator] = data
    setup.chain.pass_time(64)
    run(setup, node, 1)
    ((result, _),) = setup.sender.of("audit")
    assert result.result == AuditOutcome.MISMATCH


def test_node_without_chain_access_retries_and_loses_nothing(setup: VerifierFixture) -> None:
    setup.anchor(setup.signed(1))
    node, _ = node_of(setup)
    node.tick()
    setup.chain.pass_time(1)
    setup.chain.reachable = False
    with pytest.raises(TryAgain):
        node.tick()
    setup.chain.reachable = True
    run(setup, node, 1)


class Deaf:
    """A part for which the endpoints cannot agree."""

    def __init__(self) -> None:
        self.silent = True

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        if self.silent:
            raise NoAgreement("logs", 2, "endpoint 0 against 1")
        return ()


def test_component_lacking_a_dependency_blocks_no_other(setup: VerifierFixture) -> None:
    deaf = Deaf()
    setup.anchor(setup.signed(1))
    auditor, _ = auditor_of(setup)
    executor, pool = ActionExecutor(setup.sender, setup.journal, auditor, None, None), setup.pools[-1]
    node = Node(setup.chain, setup.sender, setup.pages, setup.records, executor, MovePolicy(), [deaf, auditor], pool, auditor)
    run(setup, node, 1)
    assert node.ticks == 0, "a tick that was not whole is repeated"
    deaf.silent = False
    node.tick()
    assert node.ticks == 1


def test_action_without_its_part_is_a_bug_and_a_failing_one_stops_no_other(setup: VerifierFixture) -> None:
    result = AuditResult(word("r"), ME.address, U8(1), ZERO_DIGEST, U64(NOW))
    bare = ActionExecutor(setup.sender, setup.journal, None, None, None)
    with pytest.raises(Bug):
        bare.perform_all((PostAudit(result, 0),), setup.chain.now())
    auditor, _ = auditor_of(setup)
    executor = ActionExecutor(setup.sender, setup.journal, auditor, None, None)
    setup.anchor(setup.signed(1))
    setup.records.step(setup.chain.now())
    known = setup.records.live[0].seen.receipt_id
    executor.perform_all((RunAudit(word("unknown")), RunAudit(known)), setup.chain.now())
    assert setup.pools[-1].busy() == {("audit", known, 0)}
