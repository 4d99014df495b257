"""What the published result quote of a vote is worth: appraised under the policy on-chain, and compared with vote and chain."""

from typing import NamedTuple

from bytewise.protocol.appraisal import AppraisalPolicy
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import BytewiseError
from bytewise.protocol.evidence import ResultStatement
from bytewise.protocol.premises import ChainPremises, differing
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U256, Digest
from bytewise.tee.appraisal import verify_result_quote
from chain.documents import RegistryDocuments
from chain.history import Opening


def registered_policy(documents: RegistryDocuments, digest: Digest, block: int) -> AppraisalPolicy | None:
    """The appraisal policy in force, from the chain; None if none is registered or its bytes are another's."""
    try:
        policy = decode(AppraisalPolicy, documents.policy_document(digest, block))
    except BytewiseError:
        return None
    return policy if policy.digest == digest else None


class Quoted(NamedTuple):
    """What a published quote is worth."""

    passes: int | None
    """Teacher-forced passes of the vote, as its enclave attests; None unless the quote holds."""
    finding: str
    """`holds`, or what is wrong with it."""


HOLDS, NONE, ANOTHER = "holds", "none", "says another vote"
"""Findings about a quote; others name the refusal, or the premises that are not the chain's."""


def judged(
    policy: AppraisalPolicy | None, disputes: Domain, receipt_id: Digest, opening: Opening, chain: ChainPremises
) -> Quoted:
    """Whether the quote of a vote is valid, says just this vote, and rests on nothing but what the chain says too."""
    if policy is None or not opening.quote:
        return Quoted(None, NONE if not opening.quote else "no policy on the chain to judge it by")
    try:
        said = verify_result_quote(policy, opening.quote, disputes.chain_id).statement
    except BytewiseError as error:
        return Quoted(None, f"refused: {type(error).__name__}")
    vote = opening.vote
    expected = ResultStatement(
        U256(disputes.chain_id), disputes.contract, vote.dispute, vote.round, receipt_id, vote.voter, vote.outcome, vote.code,
        vote.tokens_hash, vote.trace_root, vote.round_digest, said.verify_passes, said.premises,
    )  # fmt: skip
    if said != expected:
        return Quoted(None, ANOTHER)
    wrong = differing(said.premises, chain)
    return (
        Quoted(None, f"rests on what the chain does not say: {', '.join(wrong)}") if wrong else Quoted(said.verify_passes, HOLDS)
    )
