"""Claim against truth: where they part, and what that shows of the claim. Pure (design section 6)."""

from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.records.compare import Divergence, DivergenceClass, Generated
from bytewise.protocol.records.request import Output
from bytewise.protocol.records.trace import TraceStep, trace_leaves, trace_root
from bytewise.protocol.units import Decimal, Digest


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verifier holds besides the claimed output: it sees one hash of the committed rows, never the rows."""

    nonce: Digest
    """Of the request; blinds the leaves."""
    out_hash: Digest
    """Claimed."""
    truth: tuple[TraceStep, ...]
    """Rows and tokens of the true answer."""
    replayed: tuple[TraceStep, ...]
    """Rows that this model gives where it is fed the claimed tokens, with these; fewer than claimed if some cannot be fed."""


def first_divergence(truth: Generated, claimed: Output, evidence: Evidence, gap: Decimal | None) -> Divergence | None:
    """The first divergence of a claim from the true answer, or None. `gap` is that of the logits at its position."""
    expected, given = truth.output.token_ids, claimed.token_ids
    for position, (ours, theirs) in enumerate(zip(expected, given, strict=False)):
        if ours != theirs:
            return Divergence(position, _of_a_token(truth, claimed, evidence), ours, theirs, gap)
    shared = min(len(expected), len(given))
    if len(expected) > shared:
        return Divergence(shared, DivergenceClass.LENGTH, expected[shared], None, gap)
    if len(given) > shared:
        return Divergence(shared, DivergenceClass.LENGTH, None, given[shared])
    if truth.output != claimed:
        return Divergence(shared, DivergenceClass.STOP, None, None)
    if truth.out_hash != evidence.out_hash:
        return Divergence(shared, DivergenceClass.TRACE, None, None)
    return None


def _of_a_token(truth: Generated, claimed: Output, evidence: Evidence) -> DivergenceClass:
    def committed(rows: tuple[TraceStep, ...]) -> bool:
        # Whether the claimed hash is that of the claimed output over these rows.
        steps = [TraceStep(row.row, row.exponent, token) for row, token in zip(rows, claimed.token_ids, strict=False)]
        root = trace_root(trace_leaves(evidence.nonce, steps))
        return evidence.out_hash == digests.out_hash(claimed.tokens_hash, root)

    # Fed with the claimed tokens only as far as that is possible: more of them than the request allows, or no token at all.
    if len(evidence.replayed) < len(claimed.token_ids):
        return DivergenceClass.TOKEN
    if committed(evidence.replayed):
        return DivergenceClass.SAMPLER
    # The true computation, its hash or its leaves kept, under another text; with the leaves made to fit the text, or not.
    kept = digests.out_hash(claimed.tokens_hash, truth.trace_root)
    if evidence.out_hash in (truth.out_hash, kept) or (
        len(evidence.truth) == len(claimed.token_ids) and committed(evidence.truth)
    ):
        return DivergenceClass.TOKEN
    return DivergenceClass.MODEL
