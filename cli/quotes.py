"""What the published result quote of a vote is worth: appraised under the round's policy, and compared with vote and chain."""

from collections.abc import Callable
from typing import NamedTuple

from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy
from bytewise.protocol.evidence.claims import ChainClaims, ResultStatement, differing_claims, named_evidence
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U256, Digest
from bytewise.tee.appraisal import decode_result_quote, verify_result_quote
from chain.reads.documents import RegistryDocuments
from chain.reads.history import RevealEvent


def registered_policy(documents: RegistryDocuments, digest: Digest, block: int) -> AppraisalPolicy | None:
    """The appraisal policy of a digest, from the chain; None if none is registered or its bytes are another's."""
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


Policies = Callable[[Digest], AppraisalPolicy | None]
"""The registered appraisal policy of a digest, whether or not it is still in force; None if the chain has no bytes of it."""


def judged(
    policies: Policies, disputes: Domain, receipt_id: Digest, opening: RevealEvent, chain: ChainClaims, assurance: str
) -> Quoted:
    """Whether the quote of a vote is valid, says just this vote, and rests on nothing but what the chain says too.

    `assurance` is the chain's label of the receipt's key epoch: simulated evidence says nothing of an epoch of hardware.

    It is appraised under the policy that it names, if that was in force during the round: what governance changed since says
    nothing of evidence of before.
    """
    if not opening.quote:
        return Quoted(None, NONE)
    try:
        quote = decode_result_quote(opening.quote)
        said, shown = quote.statement, named_evidence(quote.evidence).assurance
        if said.premises.policy in chain.policies:
            policy = policies(said.premises.policy)
            if policy is None:
                return Quoted(None, "no policy on the chain to judge it by")
            verify_result_quote(policy, opening.quote, disputes.chain_id)
    except BytewiseError as error:
        return Quoted(None, f"refused: {type(error).__name__}")
    vote = opening.vote
    expected = ResultStatement(
        U256(disputes.chain_id), disputes.contract, vote.dispute, vote.round, receipt_id, vote.voter, vote.outcome, vote.code,
        vote.tokens_hash, vote.trace_root, vote.round_digest, said.verify_passes, said.premises,
    )  # fmt: skip
    if said != expected:
        return Quoted(None, ANOTHER)
    if shown != assurance:
        return Quoted(None, f"{shown} evidence, and the key epoch is {assurance}")
    # Not appraised if its policy is none of the round's: that is then among what differs, and the quote does not hold.
    wrong = differing_claims(said.premises, chain)
    return (
        Quoted(None, f"rests on what the chain does not say: {', '.join(wrong)}") if wrong else Quoted(said.verify_passes, HOLDS)
    )
