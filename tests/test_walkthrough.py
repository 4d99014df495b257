"""One receipt from request to verdict, in memory: read it from top to bottom (`docs/walkthrough.md` names the files).

Every step is the function that the processes call. What is left out is between them: HTTP, databases and contracts, which
`make demo` and the tests of each folder have.
"""

import dataclasses
from pathlib import Path
from typing import NamedTuple

from adversaries.engines import AltersOneToken
from bytewise.inference.tokenizer import Tokenizer
from bytewise.protocol.actions import OpenDispute
from bytewise.protocol.compare import Generated
from bytewise.protocol.decide import AuditedReceipt, WatchPolicy, decide_watchtower
from bytewise.protocol.digests import keccak256, out_hash
from bytewise.protocol.dispute import Dispute, Member, Phase
from bytewise.protocol.encoding import encode
from bytewise.protocol.messages import AuditOutcome, AuditResult, Outcome, Verdict, Vote
from bytewise.protocol.preflight import Record, preflight
from bytewise.protocol.receipt import BatchHeader, SignedReceipt, receipt_id
from bytewise.protocol.request import Request
from bytewise.protocol.seal import Payload, envelope_hash, seal_context
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.sortition import audit_is_drawn, draw_seats, round_seed
from bytewise.protocol.tally import RevealedVote, tally
from bytewise.protocol.units import U16, U256, ZERO_DIGEST, Address, Blob, Digest
from bytewise.tee.appraisal import verify_result_quote
from kms.envelope import seal
from serving.openai import read_ask
from serving.recipe import Offer, make_request
from tests.village import CONTRACTS, PARAMS, Village
from tests.world import ANCHOR, CHAIN_ID, DISPUTES, NOW, World, word
from verifier.audit import conclude
from verifier.check import CheckedReceipt, verify_batch
from verifier.tickets import Case, audit_right, run_job, vote_right

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
    village = Village(tmp_path)
    request, signature = somebody_asks(village)

    liar = AltersOneToken(village.engine)
    claimed = liar.generate(request)
    published = the_operator_publishes(village, request, signature, claimed)

    checked = everybody_checks_the_list(village, published)
    case = Case(
        checked.receipt_id, checked.signed, published.header, checked.proof, published.envelope,
        village.environment, village.keys.record, village.appraisal.digest,
    )  # fmt: skip
    results = drawn_verifiers_audit(village, case)
    assert all(result.result == AuditOutcome.MISMATCH for result in results)

    the_watchtower_opens_a_dispute(village, published.header, results)
    dispute = a_committee_is_drawn(village, case)
    votes = its_members_vote(village, case, dispute)

    verdict = tally(15, PARAMS.tau_num, PARAMS.tau_den, votes, checked.signed.receipt.out_hash)
    assert verdict.verdict is Verdict.OVERTURNED
    assert verdict.replacement == village.engine.generate(request).out_hash
    assert set(verdict.winners) == {vote.voter for vote in votes}

    the_client_sees_for_itself(village, request, claimed)


def test_an_honest_answer_is_upheld_whoever_doubts_it(tmp_path: Path) -> None:
    village = Village(tmp_path)
    request, signature = somebody_asks(village)
    published = the_operator_publishes(village, request, signature, village.engine.generate(request))
    checked = everybody_checks_the_list(village, published)
    case = Case(
        checked.receipt_id, checked.signed, published.header, checked.proof, published.envelope,
        village.environment, village.keys.record, village.appraisal.digest,
    )  # fmt: skip
    dispute = a_committee_is_drawn(village, case)
    votes = its_members_vote(village, case, dispute)
    assert tally(15, 2, 3, votes, checked.signed.receipt.out_hash).verdict is Verdict.UPHELD


# --- the chapters ---


def somebody_asks(village: Village) -> tuple[Request, Blob]:
    """The gateway renders the question, fixes every knob, draws a nonce and signs: now there is exactly one right answer."""
    offer = Offer(
        "lighthouse", village.model.model_id, village.model.template_digest, village.model.tokenizer_digest,
        village.environment, CHAIN_ID, 600,
    )  # fmt: skip
    request, signature = make_request(read_ask(QUESTION), offer, Tokenizer(village.model), village.gateway, village.rng, NOW)
    assert len(request.prompt) >= 64
    return request, signature


def the_operator_publishes(village: Village, request: Request, signature: Blob, claimed: Generated) -> Published:
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


def everybody_checks_the_list(village: Village, published: Published) -> CheckedReceipt:
    """Without any key: the list fits the header, and the receipt its operator, number, environment and epoch."""
    _, listed = World().batch((published.signed,))
    (checked,) = verify_batch(ANCHOR, published.header, encode(listed), village.environment, frozenset({1}))
    assert checked.fault is None
    return checked


def drawn_verifiers_audit(village: Village, case: Case) -> tuple[AuditResult, ...]:
    """A block draws auditors; each has its enclave open the envelope and verify by one forward pass."""
    checklist = preflight(
        Record(case.signed.receipt, case.header, village.environment, case.policy, PARAMS.window_s, "simulated", True, True)
    )
    assert checklist.failed == ()
    found = []
    for name, key in village.people.items():
        if audit_is_drawn(village.chain.beacon, case.receipt_id, key.address, PARAMS.audit_rate_bps, 1):
            result = run_job(village.enclaves[name], key, CONTRACTS, case, audit_right(case.receipt_id, NOW + 60))
            profile = village.environment.profile
            found.append(conclude(result, case.signed.receipt, checklist, profile, word(name), NOW).result)
    assert len(found) >= 2
    return tuple(found)


def the_watchtower_opens_a_dispute(village: Village, header: BatchHeader, results: tuple[AuditResult, ...]) -> None:
    """It holds no key and no stake: two drawn verifiers that say MISMATCH are what it needs to risk its bond."""
    audited = AuditedReceipt(results[0].receipt_id, header.anchored_at, village.chain.beacon, village.chain.verifiers, results)
    snapshot = village.chain.snapshot()
    bond = PARAMS.required_bond_wei
    assert decide_watchtower(snapshot, [audited], set(), bond, WatchPolicy()) == (OpenDispute(audited.receipt_id, bond),)
    alone = dataclasses.replace(audited, results=results[:1])
    assert decide_watchtower(snapshot, [alone], set(), bond, WatchPolicy()) == ()
    assert decide_watchtower(snapshot, [audited], set(), bond - 1, WatchPolicy()) == ()


def a_committee_is_drawn(village: Village, case: Case) -> Dispute:
    """Fifteen seats fall to verifiers in proportion to stake; who holds several votes once, with all of them."""
    dispute, seed = word("dispute", case.receipt_id.hex()), word("hash of the seed block")
    holders = draw_seats(seed, dispute, 1, 15, village.chain.verifiers)
    masks = {holder: sum(1 << seat for seat, who in enumerate(holders) if who == holder) for holder in dict.fromkeys(holders)}
    members = tuple(Member(who, mask, ZERO_DIGEST, False, 0, 0, ZERO_DIGEST) for who, mask in masks.items())
    drawn = Dispute(
        dispute, case.receipt_id, 0, case.header.operator, Address("0x" + "cc" * 20), case.signed.receipt.out_hash, 1,
        Phase.COMMIT, 1, 15, 20, round_seed(seed, dispute, 1), NOW, NOW + 24, 0, PARAMS.required_bond_wei, Verdict.NONE,
        ZERO_DIGEST, members,
    )  # fmt: skip
    village.chain.disputes = (drawn,)
    return drawn


def its_members_vote(village: Village, case: Case, dispute: Dispute) -> list[RevealedVote]:
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
        revealed = (vote.outcome, vote.code, vote.tokens_hash, vote.trace_root, vote.round_digest)
        opened.append(RevealedVote(member.voter, member.seat_mask.bit_count(), *revealed))
    return opened


def the_client_sees_for_itself(village: Village, request: Request, claimed: Generated) -> None:
    """Who kept the opening needs nobody: one pass shows the first token that the model never gave."""
    verification = village.engine.verify(request, claimed.output, claimed.out_hash)
    assert verification.divergence is not None and verification.verify_passes == 1
    assert verification.divergence.position == len(claimed.output.token_ids) // 2
    truth = verification.truth
    assert truth.out_hash == out_hash(truth.output.tokens_hash, truth.trace_root) != claimed.out_hash
