"""One root, three branches; the branch decides behaviour, the class names the rule of `docs/protocol.md`.

`Fault`: the other side is provably wrong and may be challenged. `Unavailable`: cannot tell, so retry and never accuse of
wrong bytes. `Bug`: we are wrong, so stop. How to choose: could an honest counterpart behind a bad network cause it? Then
it is `Unavailable`.
"""

from typing import ClassVar


class BytewiseError(Exception):
    """Root of every error of ours. `rule` is the number in `docs/protocol.md`; `values` are the offending values."""

    rule: ClassVar[str] = ""
    template: ClassVar[str] = "{0}"

    def __init__(self, *values: object) -> None:
        self.values = values
        super().__init__(f"[{self.rule}] " + self.template.format(*values, *[""] * 4))


class Fault(BytewiseError):
    """The other side is provably wrong."""


class Unavailable(BytewiseError):
    """Cannot tell: retry within a bound, never accuse."""


class Bug(BytewiseError):
    """We are wrong: stop."""


# --- values and encodings ---


class MalformedValue(Fault):
    """A value outside its type: length, range, alphabet."""

    rule, template = "R-01", "malformed {0}: {1}"


class NotCanonical(Fault):
    """Bytes that do not re-encode to themselves (RFC 8785), repeated key, float, trailing byte."""

    rule, template = "R-02", "not canonical JSON: {0}"


class WrongFields(Fault):
    """A record with a missing or unknown field."""

    rule, template = "R-03", "{0}: missing fields {1}, unknown fields {2}"


class MerkleProofMismatch(Fault):
    """A leaf and path that do not lead to the root."""

    rule, template = "R-04", "Merkle proof of leaf {0} does not lead to root {1}"


class BadSignature(Fault):
    """A signature that does not recover to the expected signer."""

    rule, template = "R-05", "{0}: signature by {2}, expected {1}"


# --- receipts, lists and batches ---


class ForeignChain(Fault):
    """A record made for another chain."""

    rule, template = "R-10", "record for chain {0}, this is chain {1}"


class SequenceBroken(Fault):
    """A sequence number reused, missing or outside its batch."""

    rule, template = "R-11", "operator {0}: sequence number {1}, expected {2}"


class UnknownKeyEpoch(Fault):
    """A receipt of a key epoch that does not exist or was not open for inclusion."""

    rule, template = "R-12", "key epoch {0} is not open for inclusion"


class UnknownEnvironment(Fault):
    """A receipt whose environment or model is not the batch's registered one."""

    rule, template = "R-13", "receipt names {0} {1}, batch has {2}"


class RootMismatch(Fault):
    """A list whose receipts do not have the batch's Merkle root."""

    rule, template = "R-14", "list has root {0}, batch {1} has {2}"


class ListMismatch(Fault):
    """List bytes that do not hash to the header's list hash, or with another operator, number or count."""

    rule, template = "R-15", "batch {0}: list differs in {1}"


class AnchoredLate(Fault):
    """A receipt anchored after its own `anchorBy`."""

    rule, template = "R-16", "receipt {0} anchored at {1}, after {2}"


# --- envelopes: defects of the record, each a code of an INVALID vote ---


class Defect(Fault):
    """A defect that every honest seat finds alike (design section 9, case 2). `code` goes into the vote."""

    code: ClassVar[int] = 0


class EnvelopeProofBad(Defect):
    """Envelope malformed, or its proof fails under the recomputed seal context (mauled or copied envelope)."""

    rule, template, code = "R-20", "envelope of receipt {0}: {1}", 1


class EnvelopeDoesNotOpen(Defect):
    """AEAD failure under the agreed key."""

    rule, template, code = "R-21", "envelope of receipt {0} does not open", 2


class PlaintextNotCanonical(Defect):
    """The plaintext is not one canonical payload."""

    rule, template, code = "R-22", "plaintext of receipt {0}: {1}", 3


class RequestHashMismatch(Defect):
    """The envelope opens to another request than the receipt names."""

    rule, template, code = "R-23", "request hashes to {0}, receipt says {1}", 4


class TokensHashMismatch(Defect):
    """The envelope opens to another output than the receipt names."""

    rule, template, code = "R-24", "output hashes to {0}, receipt says {1}", 5


class ClientSignatureBad(Defect):
    """The client's signature over the request does not verify."""

    rule, template, code = "R-25", "client {0} did not sign request {1}", 6


class RequestDiffers(Defect):
    """A request field that differs from the receipt's."""

    rule, template, code = "R-26", "request {0} is {1}, receipt says {2}", 7


class OutsideLimits(Defect):
    """A request or answer outside the registered environment's limits."""

    rule, template, code = "R-27", "{0} is {1}, the environment allows {2}", 8


class RequestExpired(Defect):
    """A request that had expired when its batch was anchored."""

    rule, template, code = "R-28", "request expired at {0}, anchored at {1}", 9


# --- keys, evidence, release ---


class ShardLied(Fault):
    """A shard's partial decapsulation whose proof fails; the shard is named."""

    rule, template = "R-30", "shard {0} gave a wrong partial: {1}"


class EvidenceRefused(Fault):
    """Evidence that the appraisal policy refuses."""

    rule, template = "R-31", "evidence refused: {0}"


class TicketRefused(Fault):
    """A ticket that gives no right to this key."""

    rule, template = "R-32", "ticket refused: {0}"


class ReleaseNotRecorded(Fault):
    """A partial without a signed release record."""

    rule, template = "R-33", "shard {0}: release record {1}"


class EpochClosed(Fault):
    """A key epoch that releases nothing."""

    rule, template = "R-34", "key epoch {0} is {1}"


class BudgetSpent(Fault):
    """An audit budget or the cap on instances per receipt is used up."""

    rule, template = "R-35", "{0} budget of {1} is spent"


class NoKey(Unavailable):
    """Fewer than t shards answered with valid partials."""

    rule, template = "R-36", "{0} of {1} shards gave a partial: {2}"


class ShardRefused(Fault):
    """A shard answered a release request with a refusal that a retry cannot cure."""

    rule, template = "R-37", "{0} refused: {1}"


# --- disputes and votes ---


class NotAMember(Fault):
    """A vote by an account without a seat."""

    rule, template = "R-40", "{0} has no seat in dispute {1} round {2}"


class CommitmentMismatch(Fault):
    """A reveal that does not open its commitment (copied, altered or of another voter)."""

    rule, template = "R-41", "vote of {0} does not open commitment {1}"


class SecondVote(Bug):
    """A second, different vote by us for one (dispute, round); the protection table refuses it."""

    rule, template = "R-42", "already signed {2} for dispute {0} round {1}"


class WindowClosed(Fault):
    """An act after its window: a challenge, a commitment, a reveal."""

    rule, template = "R-43", "{0} closed at {1}, now {2}"


class ProtectionMissing(Bug):
    """Own votes on-chain that the protection table does not know: it must be restored, never emptied."""

    rule, template = "R-44", "chain shows our vote in dispute {0} round {1}, the protection table does not"


# --- the world ---


class CallerError(Bug):
    """We asked a service for something malformed (HTTP 4xx)."""

    rule, template = "R-50", "{0} refused our call: {1}"


class BadCertificate(Fault):
    """A DA certificate that the proxy calls bad; accuse only when a second proxy agrees."""

    rule, template = "R-51", "certificate {0} is bad: {1}"


class TryAgain(Unavailable):
    """A service failed in a way that a retry may cure."""

    rule, template = "R-52", "{0} is unavailable: {1}"


class FailOver(Unavailable):
    """A service that asks to be replaced by another (HTTP 503)."""

    rule, template = "R-53", "{0} asks to fail over: {1}"


class ChainReverted(Fault):
    """A contract refused a call; the third value, if any, is the decoded custom error with its name and arguments."""

    rule, template = "R-54", "{0} reverted: {1}"


class ConfigurationError(Bug):
    """A setting, file or database that cannot be right."""

    rule, template = "R-55", "{0}: {1}"


class StoreCorrupt(Bug):
    """Our own database contradicts itself, or was asked for a step that its rules forbid."""

    rule, template = "R-56", "store {0}: {1}"


class LaneOwned(Unavailable):
    """Another process holds the lease of a nonce lane."""

    rule, template = "R-57", "nonce lane of {0} is leased by {1}"


class LaneLost(Bug):
    """Our lease of a nonce lane was taken over: a write with the old fencing token is refused."""

    rule, template = "R-58", "nonce lane of {0}: fence {1} is no longer ours"


class RpcRefused(Unavailable):
    """A node refused a call for a reason of its own: pool full, nonce, underpriced, no such method."""

    rule, template = "R-59", "{0} refused: {1}"


class LaneStopped(Unavailable):
    """A nonce lane that waits for a person: somebody else sent with our key."""

    rule, template = "R-5A", "nonce lane of {0} is stopped: {1}"


# --- inference ---


class ArtifactMismatch(Fault):
    """An artifact whose bytes are not the ones its digest names."""

    rule, template = "R-60", "artifact {0}: {1}"


class UnsupportedModel(Fault):
    """A checkpoint that the profile cannot run exactly."""

    rule, template = "R-61", "unsupported model: {0}"


class CannotExecute(Unavailable):
    """This machine cannot reproduce the profile: no backend passes, out of memory, model missing."""

    rule, template = "R-62", "cannot execute: {0}"


class NotExact(Bug):
    """An operation, exponent or self-test outside the profile."""

    rule, template = "R-63", "not exact: {0}"


class BadRequest(Fault):
    """A client request that cannot be served; nothing is published."""

    rule, template = "R-64", "{0}: {1}"
