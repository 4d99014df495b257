"""Rules R-30 and up of `docs/reference/errors.md`: keys, disputes, the world, inference. One class per rule."""

from bytewise.protocol.errors.branches import Bug, Fault, Unavailable
from bytewise.protocol.errors.reasons import ClockFlaw, TicketFlaw

# --- keys, evidence, release ---


class ShardLied(Fault):
    """A shard's partial whose proof fails, or share that is not the one which its epoch's commitments fix; the shard is named."""

    rule, template = "R-30", "shard {0} gave a wrong answer: {1}"


class EvidenceRefused(Fault):
    """Evidence that the appraisal policy refuses."""

    rule, template = "R-31", "evidence refused: {0}"


class TicketRefused(Fault):
    """A ticket that gives no right to this key."""

    rule, template = "R-32", "ticket refused: {0}"
    reasons = tuple(TicketFlaw)


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


# --- key ceremonies ---


class CeremonyRefused(Fault):
    """A plan that cannot be right, a message that has no place where its ceremony stands, or evidence that convicts no scribe."""

    rule, template = "R-38", "ceremony {0}: {1}"


class DealerLied(Fault):
    """A dealer whose deal contradicts its commitment, or a receiver whose complaint is false; it is named."""

    rule, template = "R-39", "seat {0} in key ceremony: {1}"


class LogForked(Fault):
    """The scribe shows another log than before."""

    rule, template = "R-3A", "ceremony {0}: another log than ours: {1}"


class ShareMissing(Unavailable):
    """Our own share of a key could not be put together; it can be repaired from others, what is in force stays."""

    rule, template = "R-3B", "share {0}: {1}"


class CeremonyFailed(Unavailable):
    """A ceremony that ended without a result; what was in force before stays, and another attempt may succeed."""

    rule, template = "R-3C", "ceremony {0} failed: {1}"


class ReleaseLogBroken(Fault):
    """A shard's release log that was altered, cut off, or contradicts what the shard signed before."""

    rule, template = "R-3D", "release log of shard {0}: {1}"


class StaleBackup(Bug):
    """Shares that the chain means no more, or a log that ends before what was signed: with them a shard must not serve."""

    rule, template = "R-3E", "stale backup: {0}: {1}"


class PartDoesNotOpen(Fault):
    """A shard's word that its part of a hybrid envelope does not open, or holds another share than the envelope commits to."""

    rule, template = "R-3F", "shard {0}: its part of the envelope of receipt {1} does not open"


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


class WrongPhase(Fault):
    """A step that the phase table does not know for where the dispute stands."""

    rule, template = "R-45", "dispute {0} is in {1}, this step is for {2}"


class TooEarly(Unavailable):
    """A step before its time, or while the protocol clock stands still."""

    rule, template = "R-46", "{0} is not before {1}, now {2}"


class NoProgress(Fault):
    """A step that would change nothing: it was taken already, or nothing is left of it."""

    rule, template = "R-47", "{0}: {1}"


class BondMismatch(Fault):
    """Another amount than the step costs."""

    rule, template = "R-48", "{0}: {1} wei sent, {2} asked"


class ConvictionsHeld(Unavailable):
    """The breaker holds convictions in this environment until governance has looked."""

    rule, template = "R-49", "convictions in environment {0} are held"


# --- the world ---


class CallerError(Bug):
    """We asked a service for something malformed (HTTP 400)."""

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


class ClockWrong(ConfigurationError):
    """Times that cannot all be right: our clock, the chain's newest final block, and when this process started last."""

    rule, reasons = "R-5A", tuple(ClockFlaw)


class StoreCorrupt(Bug):
    """Our own database contradicts itself, or was asked for a step that its rules forbid."""

    rule, template = "R-56", "store {0}: {1}"


class LeaseTaken(Unavailable):
    """Another process holds the nonce lease of this account."""

    rule, template = "R-57", "the nonce lease of {0} is held by {1}"


class LeaseLost(Bug):
    """Another process took over our nonce lease: a write with the old fencing token is refused."""

    rule, template = "R-58", "the nonce lease of {0} was taken over: fencing token {1} is out of date"


class RpcRefused(Unavailable):
    """A node refused a call for a reason of its own: pool full, nonce, underpriced, no such method."""

    rule, template = "R-59", "{0} refused: {1}"


class LeaseStopped(Unavailable):
    """Sending is stopped until a person resumes it: somebody else sent with our key."""

    rule, template = "R-65", "sending for {0} is stopped: {1}"


class NotServed(Unavailable):
    """DA was asked just now and gave no bytes that fit what the chain names: the one thing that can become UNAVAILABLE."""

    rule, template = "R-66", "{0} is not served: {1}"


class NoAgreement(Unavailable):
    """Too few of several chain endpoints gave the same answer; which ones differ or said nothing is named by their places."""

    rule, template = "R-67", "{0}: fewer than {1} chain endpoints agree: {2}"


class SharesUnproven(Unavailable):
    """A ceremony that made a key while some of its shards did not prove their shares: it is put in force only without them."""

    rule, template = "R-68", "ceremony {0}: no proof of the shares of shards {1}"


# --- inference ---


class ArtifactMismatch(Fault):
    """An artifact whose bytes are not the ones its digest names."""

    rule, template = "R-60", "artifact {0}: {1}"


class UnsupportedModel(Fault):
    """A checkpoint that the profile cannot run exactly."""

    rule, template = "R-61", "unsupported model: {0}"


class CannotExecute(Unavailable):
    """This machine cannot reproduce the profile: no backend passes, out of memory, model missing.

    The second value, if any, is the `CannotReason` of a vote that says so; BACKEND without one.
    """

    rule, template = "R-62", "cannot execute: {0}"


class NotExact(Bug):
    """An operation, exponent or self-test outside the profile."""

    rule, template = "R-63", "not exact: {0}"


class BadRequest(Fault):
    """A client request that cannot be served; nothing is published."""

    rule, template = "R-64", "{0}: {1}"
