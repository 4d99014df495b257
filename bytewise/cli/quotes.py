"""What the published result quote of a vote is worth: appraised under the policy on-chain, and compared with the vote."""

from bytewise.protocol.appraisal import AppraisalPolicy
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import BytewiseError
from bytewise.protocol.evidence import ResultStatement
from bytewise.protocol.network import Network
from bytewise.protocol.units import Digest
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


def attested_passes(policy: AppraisalPolicy | None, network: Network, receipt_id: Digest, opening: Opening) -> int | None:
    """Teacher-forced passes of a vote, as its enclave attests; None without a quote that is valid and says just this vote."""
    if policy is None or not opening.quote:
        return None
    try:
        said = verify_result_quote(policy, opening.quote, network.chain_id).statement
    except BytewiseError:
        return None
    vote = opening.vote
    expected = ResultStatement(
        network.chain_id, network.addresses.disputes, vote.dispute, vote.round, receipt_id, vote.voter, vote.outcome, vote.code,
        vote.tokens_hash, vote.trace_root, vote.round_digest, said.verify_passes,
    )  # fmt: skip
    return said.verify_passes if said == expected else None
