"""One receipt from request to verdict, in memory: read it from top to bottom (`docs/guide/walkthrough.md` names the files).

Every step is the function that the processes call. What is left out is between them: HTTP, databases and contracts, which
`make demo` and the tests of each folder have.
"""

import dataclasses
from pathlib import Path
from typing import NamedTuple

from adversaries.dishonest_operator import AltersOneToken
from bytewise.crypto.envelope import seal
from bytewise.inference.tokenizer import Tokenizer
from bytewise.protocol.court.commitments import claim_of
from bytewise.protocol.court.params import TreeShape
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.sortition import audit_is_drawn, round_seed
from bytewise.protocol.court.tally import Count, RoundVerdict, judge, vote_content
from bytewise.protocol.decisions import snapshot
from bytewise.protocol.decisions.actions import OpenDispute
from bytewise.protocol.decisions.audits import AuditedReceipt
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.decisions.strategies import WatchPolicy
from bytewise.protocol.digests import keccak256, out_hash
from bytewise.protocol.encoding import encode
from bytewise.protocol.records.preflight import PreflightSubject, preflight
from bytewise.protocol.records.receipt import BatchHeader, Receipt, SignedReceipt, receipt_id
from bytewise.protocol.records.request import Request
from bytewise.protocol.records.seal import Payload, envelope_hash, seal_context
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, Outcome, Verdict, Vote
from bytewise.protocol.records.trace import Generated
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U16, U256, ZERO_DIGEST, Blob, Digest
from bytewise.tee.appraisal import verify_result_quote
from serving.openai import read_chat_request
from serving.request_builder import Offer, make_request
from tests.fixtures.builders import ANCHOR, CHAIN_ID, DISPUTES, NOW, World, word
from tests.fixtures.in_memory_network import CONTRACTS, ETHER, PARAMS, SmallNetwork
from tests.fixtures.snapshot_builders import case as a_case
from tests.fixtures.snapshot_builders import holdings
from tests.fixtures.watch_strategies import defended
from tests.reference.stake_tree import StakeTree
from verifier.audits.auditor import conclude
from verifier.jobs.job import JobCase, audit_right, run_job, vote_right
from verifier.watch.batch_check import CheckedReceipt, verify_batch

SEATS = PARAMS.seats(1)
QUESTION = {
    "model": "lighthouse",
    "messages": [{"role": "user", "content": "Why is a receipt worth more than a promise in a network of strangers?"}],
    "max_completion_tokens": 16,
}


class Published(NamedTuple):
    """What the world can see of an answer: the receipt, its batch, and the sealed envelope."""

    signed: SignedReceipt
    envelope: bytes
    header: BatchHeader


def test_one_receipt_from_request_to_verdict(tmp_path: Path) -> None:
    village = SmallNetwork(tmp_path)
    request, signature = somebody_asks(village)

    liar = AltersOneToken(village.engine)
    claimed = liar.generate(request)
    published = the_operator_publishes(village, request, signature, claimed)

    checked = check_list_as_every_actor(village, published)
    case = JobCase(
        checked.receipt_id, checked.signed, published.header, checked.proof, published.envelope,
        village.environment, village.keys.record, Blob(encode(village.appraisal)),
    )  # fmt: skip
    results = drawn_verifiers_audit(village, case)
    assert all(result.result == AuditOutcome.MISMATCH for result in results)

    the_watchtower_opens_a_dispute(village, published.header, results)
    dispute = a_committee_is_drawn(village, case)
    votes = its_members_vote(village, case, dispute)

    verdict = they_are_counted(votes, checked.signed.receipt)
    assert verdict.verdict is Verdict.OVERTURNED
    assert verdict.replacement == village.engine.generate(request).out_hash
    assert {vote_content(vote).key for vote in votes} == {verdict.key}

    the_client_sees_for_itself(village, request, claimed)


def test_honest_answer_is_upheld_after_a_challenge(tmp_path: Path) -> None:
    village = SmallNetwork(tmp_path)
    request, signature = somebody_asks(village)
    published = the_operator_publishes(village, request, signature, village.engine.generate(request))
    checked = check_list_as_every_actor(village, published)
    case = JobCase(
        checked.receipt_id, checked.signed, published.header, checked.proof, published.envelope,
        village.environment, village.keys.record, Blob(encode(village.appraisal)),
    )  # fmt: skip
    dispute = a_committee_is_drawn(village, case)
    votes = its_members_vote(village, case, dispute)
    assert they_are_counted(votes, checked.signed.receipt).verdict is Verdict.UPHELD


# --- the chapters ---


def somebody_asks(village: SmallNetwork) -> tuple[Request, Blob]:
    """The gateway renders the question, fixes every knob, draws a nonce and signs: now there is exactly one right answer."""
    offer = Offer(
        "lighthouse", village.model.model_id, village.model.template_digest, village.model.tokenizer_digest,
        village.environment, CHAIN_ID, 600,
    )  # fmt: skip
    request, signature = make_request(
        read_chat_request(QUESTION), offer, Tokenizer(village.model), village.gateway, village.rng, NOW
    )
    assert len(request.prompt) >= 64
    return request, signature


def the_operator_publishes(village: SmallNetwork, request: Request, signature: Blob, claimed: Generated) -> Published:
    """It seals question and answer for this one receipt, signs the receipt, and anchors the root of a batch of one."""
    world = World()
    unsealed = world.receipt(1, request, claimed, operator=village.operator.address)
    payload = Payload(request, claimed.output, signature)
    envelope = seal(payload, village.keys.record.public_key, seal_context(ANCHOR, unsealed), 1, village.rng)
    receipt = dataclasses.replace(unsealed, envelope_hash=envelope_hash(envelope))
    signed = SignedReceipt(receipt, village.operator.sign(receipt_id(ANCHOR, receipt)), "eigenda:standard:0x00")
    header, _ = world.batch((signed,))
    village.chain.batch = header
    assert request.nonce not in envelope and encode(request) not in envelope
    return Published(signed, envelope, header)


def check_list_as_every_actor(village: SmallNetwork, published: Published) -> CheckedReceipt:
    """Without any key: the list fits the header, and the receipt its operator, number, environment and epoch."""
    _, listed = World().batch((published.signed,))
    (checked,) = verify_batch(ANCHOR, published.header, encode(listed), village.environment, frozenset({1})).receipts
    assert checked.fault is None
    return checked


def drawn_verifiers_audit(village: SmallNetwork, case: JobCase) -> tuple[AuditResult, ...]:
    """A block draws auditors; each has its enclave open the envelope and verify by one forward pass."""
    checklist = preflight(
        PreflightSubject(
            case.signed.receipt,
            case.header,
            village.environment,
            village.appraisal.digest,
            PARAMS.times.window,
            "simulated",
            True,
            True,
        )
    )
    assert checklist.failed == ()
    found = []
    for name, key in village.people.items():
        if audit_is_drawn(village.chain.beacon, case.receipt_id, key.address, PARAMS.shares.audit_rate_bps, 1):
            result = run_job(village.enclaves[name], key, CONTRACTS, case, audit_right(case.receipt_id, NOW + 60))
            profile = village.environment.profile
            found.append(conclude(result, case.signed.receipt, checklist, profile, word(name), NOW).result)
    assert len(found) >= 2
    return tuple(found)


def the_watchtower_opens_a_dispute(village: SmallNetwork, header: BatchHeader, results: tuple[AuditResult, ...]) -> None:
    """It holds no key and no stake: two drawn verifiers that say MISMATCH are what it needs to risk its bond."""
    seats = tuple((who, stake // PARAMS.money.audit_unit) for who, stake in village.chain.verifiers)
    rate, bond = PARAMS.shares.audit_rate_bps, PARAMS.required_bond
    audited = AuditedReceipt(results[0].receipt_id, header.batch_id, village.chain.beacon, seats, rate, results, bond)
    rich, poor = (village.chain.snapshot(me=holdings(balance_wei=wei)) for wei in (bond, bond - 1))
    assert defended(rich, [audited], set(), WatchPolicy()) == (OpenDispute(audited.receipt_id, bond),)
    alone = dataclasses.replace(audited, results=results[:1])
    assert defended(rich, [alone], set(), WatchPolicy()) == ()
    assert defended(poor, [audited], set(), WatchPolicy()) == ()


def a_committee_is_drawn(village: SmallNetwork, case: JobCase) -> snapshot.Dispute:
    """Fifteen seats fall to verifiers in proportion to stake; who holds several votes once, with all of them."""
    dispute, seed = word("dispute", case.receipt_id.hex()), word("mix of the seed block")
    tree = StakeTree(TreeShape(epoch_blocks=10, lookahead_blocks=2, unit_wei=ETHER, max_units=1_000))
    for who, stake in village.chain.verifiers:
        tree.set_stake(1, who, stake)
    holders = tree.draw(seed, 15, dispute, 1, (), 0, SEATS)
    masks = {who: sum(1 << seat for seat, holder in enumerate(holders) if holder == who) for who in dict.fromkeys(holders) if who}
    drawn = a_case(
        id=dispute, receipt_id=case.receipt_id, operator=case.header.operator,
        claim=claim_of(case.signed.receipt.tokens_hash, case.signed.receipt.out_hash),
        phase=Phase.COMMIT, round_seed=round_seed(seed, dispute, 1),
        commit_end=NOW + 24, reveal_end=NOW + 48,
        members=tuple(Seat(who, mask, ZERO_DIGEST, ZERO_DIGEST) for who, mask in masks.items()),
    )  # fmt: skip
    village.chain.disputes = (drawn,)
    return drawn


def its_members_vote(village: SmallNetwork, case: JobCase, dispute: snapshot.Dispute) -> list[Vote]:
    """Each commits to a vote that only it can open, then opens it; the quote says which program judged, in how many passes."""
    opened = []
    for member in dispute.members:
        name = village.name_of(member.voter)
        right = vote_right(dispute.id, dispute.round, dispute.round_seed, dispute.commit_end)
        result = run_job(village.enclaves[name], village.people[name], CONTRACTS, case, right)
        vote = Vote(
            dispute.id, U16(1), member.voter, U256(member.seat_mask), result.outcome, result.code, result.tokens_hash,
            result.trace_root, result.round_digest, keccak256(result.quote), Digest(village.rng(32)),
        )  # fmt: skip
        commitment = typed_digest(DISPUTES, vote)
        assert typed_digest(DISPUTES, dataclasses.replace(vote, voter=village.operator.address)) != commitment
        quoted = verify_result_quote(village.appraisal, result.quote, CHAIN_ID).statement
        assert (quoted.verify_passes, quoted.outcome, quoted.voter) == (1, Outcome.EXECUTED, member.voter)
        opened.append(vote)
    return opened


def they_are_counted(votes: list[Vote], receipt: Receipt) -> RoundVerdict:
    """Seats that say the same to the last hash count together; two thirds of all make a verdict."""
    count = Count()
    for vote in votes:
        count = count.add(vote_content(vote), int(vote.seat_mask).bit_count(), (receipt.tokens_hash, receipt.out_hash))
    return judge(count, receipt.out_hash, PARAMS.quorum(SEATS))


def the_client_sees_for_itself(village: SmallNetwork, request: Request, claimed: Generated) -> None:
    """Who kept the opening needs nobody: one pass shows the first token that the model never gave."""
    verification = village.engine.verify(request, claimed.output, claimed.out_hash)
    assert verification.divergence is not None and verification.verify_passes == 1
    assert verification.divergence.position == len(claimed.output.token_ids) // 2
    truth = verification.truth
    assert truth.out_hash == out_hash(truth.output.tokens_hash, truth.trace_root) != claimed.out_hash
