"""Claim against truth: where and how they part. Pure (design section 6)."""

from bytewise.protocol.compare import Divergence, DivergenceClass, Generated
from bytewise.protocol.request import Output
from bytewise.protocol.units import Digest


def first_divergence(truth: Generated, claimed: Output, out_hash: Digest) -> Divergence | None:
    """The first divergence of a claimed output and out_hash from the true answer, or None."""
    expected, given = truth.output.token_ids, claimed.token_ids
    for position, (ours, theirs) in enumerate(zip(expected, given, strict=False)):
        if ours != theirs:
            return Divergence(position, DivergenceClass.TOKEN, ours, theirs)
    shared = min(len(expected), len(given))
    if len(expected) > shared:
        return Divergence(shared, DivergenceClass.LENGTH, expected[shared], None)
    if len(given) > shared:
        return Divergence(shared, DivergenceClass.LENGTH, None, given[shared])
    if truth.output != claimed:
        return Divergence(shared, DivergenceClass.STOP, None, None)
    if truth.out_hash != out_hash:
        return Divergence(shared, DivergenceClass.TRACE, None, None)
    return None
