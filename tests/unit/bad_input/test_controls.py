"""Each attack wins once its defence is taken away: otherwise a passing test would say nothing about the defence.

Mauled envelopes, poisoned partials, the paper's slashing rule and plain floats have their controls beside their own tests
(`docs/evidence/bad-inputs.md` names them).
"""

from dataclasses import replace

import pytest

from adversaries.dishonest_operator import AltersOneToken, ForgesTheTrace, RunsAnotherArtifact, ShowsAnotherText
from bytewise.crypto.curve import decode_point
from bytewise.crypto.envelope import open_with_point, verify_receipt_envelope
from bytewise.crypto.shares import combine, prove_partial, verify_partial
from bytewise.inference.determinism import fixed
from bytewise.inference.engine import ExactEngine
from bytewise.inference.known_answers import operations
from bytewise.inference.torch_path import Runner
from bytewise.protocol.digests import keccak256
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.errors.records import EnvelopeProofBad
from bytewise.protocol.records.request import output_for
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.records.statements import Outcome, Verdict, Vote
from bytewise.protocol.records.trace import Generated
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U8, U16, U256, ZERO_ADDRESS, ZERO_DIGEST, Address, Digest
from tests.fixtures.bad_input.courtroom import GREEDY, Court
from tests.fixtures.builders import ANCHOR, DISPUTES, signer, word
from tests.fixtures.inference.models import small_artifact
from tests.fixtures.inference.saturating_backend import Saturating
from tests.reference.verdict_rules import RevealedVote, tally

HONEST, THIEF = signer("honest").address, signer("thief").address
CLAIM = (word("claimed tokens"), word("claimed out_hash"))
"""tokens_hash and out_hash of the receipt."""


def vote(voter: Address, seat_mask: int) -> Vote:
    """What an honest seat has found."""
    return Vote(
        word("dispute"), U16(1), voter, U256(seat_mask), U8(Outcome.EXECUTED), U8(0), word("tokens"), word("trace"),
        word("round digest"), word("quote"), word("salt"),
    )  # fmt: skip


# --- votes ---


def voterless(said: Vote) -> Digest:
    """The commitment of a scheme that forgets who commits."""
    return keccak256(encode(replace(said, voter=ZERO_ADDRESS, seat_mask=U256(0))))


def test_copied_commitment_opens_only_where_voter_is_not_bound() -> None:
    honest = vote(HONEST, 0b0011)
    copied, copied_naive = typed_digest(DISPUTES, honest), voterless(honest)
    # The honest seat reveals first; the thief repeats its words under its own name.
    repeated = replace(honest, voter=THIEF, seat_mask=U256(0b1100))
    assert voterless(repeated) == copied_naive
    assert typed_digest(DISPUTES, repeated) != copied
    for name in ("voter", "seat_mask"):
        half = replace(honest, **{name: getattr(repeated, name)})
        assert typed_digest(DISPUTES, half) != copied


def counted(voter: Address, digest: Digest, seats: int) -> RevealedVote:
    return RevealedVote(voter, seats, Outcome.EXECUTED, 0, word("tokens"), word("trace"), digest)


def test_copied_answer_is_paid_only_where_no_round_digest_is_required() -> None:
    """The thief knows tokens hash and trace root, of an earlier round or from a friend, but has no leaves."""
    naive = tally(15, 2, 3, [counted(HONEST, ZERO_DIGEST, 10), counted(THIEF, ZERO_DIGEST, 5)], *CLAIM)
    assert (naive.verdict, naive.winners) == (Verdict.OVERTURNED, (HONEST, THIEF))
    ours = tally(15, 2, 3, [counted(HONEST, word("of the leaves"), 10), counted(THIEF, word("invented"), 5)], *CLAIM)
    assert (ours.verdict, ours.winners) == (Verdict.OVERTURNED, (HONEST,))


# --- envelopes ---


def test_copied_envelope_opens_only_where_shards_check_no_proof(court: Court) -> None:
    victim = court.file(*court.answered())
    own = court.brought(victim.payload, replace(victim.receipt, operator=THIEF), victim.envelope)
    envelope = verify_receipt_envelope(ANCHOR, victim.receipt, victim.envelope)
    base, points = decode_point(envelope.enc), {}
    for record in court.keys.document.record.shards[:2]:
        # What a shard computes for any point that it is given, under the attacker's own receipt.
        share = court.keys.shard(record.index)._rotation.share().scalar()
        partial = prove_partial(record.index, share, base, own.id, court.keys.shard(record.index)._rng)
        points[record.index] = verify_partial(partial, record.index, decode_point(record.verification_key), base, own.id)
    public = court.keys.document.record.public_key
    stolen = open_with_point(envelope, combine(points), public, court.keys.context(victim), victim.id)
    assert unpad(stolen) == victim.payload
    with pytest.raises(EnvelopeProofBad):
        verify_receipt_envelope(ANCHOR, own.receipt, own.envelope)


# --- arithmetic ---


def saturated(court: Court) -> ExactEngine:
    """An engine on a processor whose int8 product saturates, which nobody has tested against known answers."""
    engine = ExactEngine(court.model)
    with fixed(1):
        engine.path = Runner(court.model, Saturating())
    return engine


def test_wrong_backend_agrees_with_itself_and_fails_the_known_answers(court: Court) -> None:
    request, truth = court.honest
    engine, twin = saturated(court), saturated(court)
    answer = engine.generate(request)
    assert engine.generate(request) == twin.generate(request) == answer
    assert engine.verify(request, answer.output, answer.out_hash).divergence is None, "prefill is decode, too"
    # So without the known-answer test two such seats would vote to slash an honest operator.
    accused = engine.verify(request, truth.output, truth.out_hash)
    assert accused.divergence is not None
    assert twin.verify(request, accused.truth.output, accused.truth.out_hash).divergence is None
    with pytest.raises(CannotExecute, match="saturating"):
        operations.first_exact((Saturating(),))


# --- answers ---


def same_tokens(claimed: Generated, truth: Generated) -> bool:
    """A verifier that compares tokens alone."""
    return claimed.output == truth.output


def same_trace(claimed: Generated, truth: Generated) -> bool:
    """A verifier that compares traces alone."""
    return claimed.trace_root == truth.trace_root


def is_prefix(claimed: Generated, truth: Generated) -> bool:
    """A verifier that compares every claimed token, and asks no more."""
    return claimed.output.token_ids == truth.output.token_ids[: len(claimed.output.token_ids)]


def test_forged_trace_passes_only_a_comparison_of_tokens(court: Court) -> None:
    request, truth = court.honest
    forged = ForgesTheTrace(court.engine).generate(request)
    assert same_tokens(forged, truth)
    assert court.engine.verify(request, forged.output, forged.out_hash).divergence is not None


def test_altered_token_passes_only_a_comparison_of_traces(court: Court) -> None:
    request, truth = court.honest
    altered = AltersOneToken(court.engine).generate(request)
    assert same_trace(altered, truth) and not same_tokens(altered, truth)
    assert court.engine.verify(request, altered.output, altered.out_hash).divergence is not None


def test_other_text_passes_only_a_comparison_of_out_hash(court: Court) -> None:
    request, truth = court.honest
    shown = ShowsAnotherText(court.engine).generate(request)
    assert shown.out_hash == truth.out_hash and not same_tokens(shown, truth)
    assert court.engine.verify(request, shown.output, shown.out_hash).divergence is not None


def test_truncated_answer_passes_only_a_comparison_of_claimed_tokens(court: Court) -> None:
    request, truth = court.honest
    cut = Generated(output_for(request, truth.output.token_ids[:5], "stop"), truth.leaves[:5])
    assert is_prefix(cut, truth)
    assert court.engine.verify(request, cut.output, cut.out_hash).divergence is not None


def test_other_artifact_passes_only_with_the_operators_own_artifact(
    court: Court, tmp_path_factory: pytest.TempPathFactory
) -> None:
    request, _ = court.honest
    cheap = small_artifact(tmp_path_factory.mktemp("cheap"), 8)
    other = ExactEngine(cheap)
    given = RunsAnotherArtifact(court.engine, other, cheap.model_id).generate(request)
    told = replace(request, model_id=cheap.model_id)
    believed = other.verify(told, output_for(told, given.output.token_ids, given.output.finish_reason), given.out_hash)
    assert believed.truth.output.token_ids == given.output.token_ids and believed.truth.leaves == given.leaves
    found = court.engine.verify(request, given.output, given.out_hash)
    assert found.divergence is not None and found.truth.leaves != given.leaves


def test_smaller_limit_passes_only_with_the_limit_of_the_answer(court: Court) -> None:
    """The end of an answer is recomputed from the request, never copied from the claim."""
    request, truth = court.honest
    half = court.engine.generate(replace(request, decode=replace(GREEDY, max_new_tokens=6)))
    copied = replace(request, decode=replace(GREEDY, max_new_tokens=half.output.completion_tokens))
    assert court.engine.verify(copied, half.output, half.out_hash).divergence is None
    ours = output_for(request, half.output.token_ids, "length")
    assert court.engine.verify(request, ours, half.out_hash).truth == truth
