"""Rules R-30 and up of `docs/reference/errors.md`: keys, disputes, services and machines, inference. One class per rule."""

from bytewise.protocol.errors.branches import Bug, ClockFlaw, Fault, TicketFlaw, Unavailable

# --- keys, evidence, release ---


class ShardLied(Fault):
    """A shard gave a wrong answer. Its partial, or the proof of its complaint in a ceremony, is malformed or wrong. Its share
    does not fit the commitment, or it uses other hybrid keys than those of the epoch. Or it said that its part does not open,
    although the part is right.

    The error names the shard.
    """

    rule, template = "R-30", "shard {0} gave a wrong answer: {1}"


class EvidenceRefused(Fault):
    """The appraisal policy refuses the evidence."""

    rule, template = "R-31", "evidence refused: {0}"


class TicketRefused(Fault):
    """A ticket does not give the right to open this receipt."""

    rule, template = "R-32", "ticket refused: {0}"
    reasons = tuple(TicketFlaw)


class ReleaseNotRecorded(Fault):
    """A shard gave a partial without a signed release record."""

    rule, template = "R-33", "shard {0}: release record {1}"


class EpochClosed(Fault):
    """The key epoch is in a state in which its shards release nothing."""

    rule, template = "R-34", "key epoch {0} is {1}"


class BudgetSpent(Fault):
    """A limit of a shard is used up: its audit budget, the number of enclave instances of one voter's round or audit, or the
    number of release records of one instance."""

    rule, template = "R-35", "{0} budget of {1} is spent"


class NoKey(Unavailable):
    """Fewer shards than the threshold answered with valid partials."""

    rule, template = "R-36", "{0} of {1} shards gave a partial: {2}"


class ShardRefused(Fault):
    """A shard refused a release request for a reason that a retry cannot remove."""

    rule, template = "R-37", "{0} refused: {1}"


# --- key ceremonies ---


class CeremonyRefused(Fault):
    """A ceremony plan is impossible, a message does not fit the state of its ceremony, or a reported fork of the log is not
    proven."""

    rule, template = "R-38", "ceremony {0}: {1}"


class DealerLied(Fault):
    """A dealer's deal is malformed, has a wrong proof, does not open, or contradicts its commitment. The error names the
    dealer."""

    rule, template = "R-39", "seat {0} in key ceremony: {1}"


class LogForked(Fault):
    """The coordinator's log, or a shard's copy of it, contradicts the part that this program already has."""

    rule, template = "R-3A", "ceremony {0}: another log than ours: {1}"


class ShareMissing(Unavailable):
    """This shard could not assemble its share of a key. Other shards can repair it; the shares in force stay valid."""

    rule, template = "R-3B", "share {0}: {1}"


class CeremonyFailed(Unavailable):
    """A ceremony ended without a result. The shares in force stay valid, and another attempt may succeed."""

    rule, template = "R-3C", "ceremony {0} failed: {1}"


class ReleaseLogBroken(Fault):
    """A shard's release log was altered or cut off, or contradicts what the shard signed before."""

    rule, template = "R-3D", "release log of shard {0}: {1}"


class StaleBackup(Bug):
    """Data of a shard are older than the chain or the shard's own signatures show.

    The chain names other shares, or the release log lacks a record that the shard signed. The shard must not serve with these
    data.
    """

    rule, template = "R-3E", "stale backup: {0}: {1}"


class PartDoesNotOpen(Fault):
    """A shard states that the part of a hybrid envelope for this shard does not open, or contains another share than the
    envelope commits to."""

    rule, template = "R-3F", "shard {0}: its part of the envelope of receipt {1} does not open"


# --- disputes and votes ---


class NotAMember(Fault):
    """An account without a seat voted."""

    rule, template = "R-40", "{0} has no seat in dispute {1} round {2}"


class CommitmentMismatch(Fault):
    """A revealed vote does not match its commitment: it is copied, altered or of another account."""

    rule, template = "R-41", "vote of {0} does not open commitment {1}"


class SecondVote(Bug):
    """This program was asked for a second, different vote of one account in one round of a dispute. The protection table refuses
    to sign or import such a vote, and the outbox refuses to send it."""

    rule, template = "R-42", "already signed {2} for dispute {0} round {1}"


class WindowClosed(Fault):
    """An action came after the end of its time window, for example a dispute, a commitment or a reveal."""

    rule, template = "R-43", "{0} closed at {1}, now {2}"


class ProtectionMissing(Bug):
    """The chain shows a vote of this account that the protection table does not have. Restore the table; never empty it."""

    rule, template = "R-44", "chain shows our vote in dispute {0} round {1}, the protection table does not"


class WrongPhase(Fault):
    """The phase table does not allow this step in the dispute's phase."""

    rule, template = "R-45", "dispute {0} is in {1}, this step is for {2}"


class TooEarly(Unavailable):
    """A step came before its time, or while the protocol clock is paused."""

    rule, template = "R-46", "{0} is not before {1}, now {2}"


class NoProgress(Fault):
    """A step would change nothing: it was done already, or nothing is left to do."""

    rule, template = "R-47", "{0}: {1}"


class BondMismatch(Fault):
    """The amount of wei sent is not the price of the step."""

    rule, template = "R-48", "{0}: {1} wei sent, {2} asked"


class BreakerHolds(Unavailable):
    """The breaker holds back convictions in this environment until the curator has examined them."""

    rule, template = "R-49", "convictions in environment {0} are held"


class UnknownAuditor(Fault):
    """An audit hint names an auditor that is in no pool."""

    rule, template = "R-4A", "audit hint of {0}: the account is a verifier of no pool"


class HintMismatch(Fault):
    """The opening in an audit hint does not match the commitment of the audit result: it is copied, altered or of another
    account."""

    rule, template = "R-4B", "audit hint of {0} does not open commitment {1} of the audit"


# --- the world ---


class CallerError(Bug):
    """This program sent a malformed request to a service (HTTP 400)."""

    rule, template = "R-50", "{0} refused our call: {1}"


class BadCertificate(Fault):
    """Two DA proxies report that a DA certificate is invalid, or a locator contains no certificate of a known version."""

    rule, template = "R-51", "certificate {0} is bad: {1}"


class TryAgain(Unavailable):
    """A service failed in a way that a retry may cure."""

    rule, template = "R-52", "{0} is unavailable: {1}"


class TransactionPending(TryAgain):
    """Transactions were sent, and no node says that they are in a block. They may still get into a block, so sending them once
    more may pay twice."""

    rule, template = "R-5B", "{0} was sent, and may still get into a block: {1}"


class FailOver(Unavailable):
    """A DA service asks its client to use another service instead (HTTP 503)."""

    rule, template = "R-53", "{0} asks to fail over: {1}"


class ChainReverted(Fault):
    """A contract refused a call. The third value, if any, is the decoded custom error with its name and arguments."""

    rule, template = "R-54", "{0} reverted: {1}"


class ConfigurationError(Bug):
    """A setting, file or database is wrong."""

    rule, template = "R-55", "{0}: {1}"


class ClockWrong(ConfigurationError):
    """Times contradict each other: the clock of this machine, the chain's newest final block, and the last start of this
    process."""

    rule, reasons = "R-5A", tuple(ClockFlaw)


class StoreCorrupt(Bug):
    """This program's database contradicts itself, or was asked for a step that its rules forbid."""

    rule, template = "R-56", "store {0}: {1}"


class LeaseTaken(Unavailable):
    """Another process has the nonce lease of this account."""

    rule, template = "R-57", "the nonce lease of {0} is held by {1}"


class LeaseLost(Bug):
    """Another process took over this process's nonce lease. The database refuses a write with the old fencing token."""

    rule, template = "R-58", "the nonce lease of {0} was taken over: fencing token {1} is out of date"


UNKNOWN_METHOD = (-32601, -32004)
"""JSON-RPC error codes of a node that does not have a method at all. Source: JSON-RPC 2.0 section 5.1 and EIP-1474."""


class RpcRefused(Unavailable):
    """A chain node refused a call for a reason of its own: full pool, nonce, price too low, unknown method. The third value, if
    any, is the error code of JSON-RPC."""

    rule, template = "R-59", "{0} refused: {1}"

    @property
    def is_unknown_method(self) -> bool:
        """Whether the node says by its error code that it does not have the method. Every other refusal may end, for example that
        of a rate limit."""
        return len(self.values) > 2 and self.values[2] in UNKNOWN_METHOD


class LeaseStopped(Unavailable):
    """Sending for an account is stopped until a person resumes it, because another process sent with its key."""

    rule, template = "R-65", "sending for {0} is stopped: {1}"


class NotServed(Unavailable):
    """The DA layer was asked just now and served no bytes with the hash on the chain.

    Only this error can become the vote UNAVAILABLE.
    """

    rule, template = "R-66", "{0} is not served: {1}"


class NoAgreement(Unavailable):
    """Too few chain endpoints gave the same answer. The error lists the positions of endpoints that differed or were silent."""

    rule, template = "R-67", "{0}: fewer than {1} chain endpoints agree: {2}"


class SignerAway(Unavailable):
    """The remote signer of the account does not answer, or cannot sign now. Nothing was signed."""

    rule, template = "R-69", "remote signer {0} does not sign: {1}"


class SignerRefused(Fault):
    """The remote signer refuses to sign for the account, or returns bytes that are not the account's signature of the message."""

    rule, template = "R-6A", "remote signer {0}: {1}"


class SigningRefused(Fault):
    """A signing rule forbids signing a message, so no signer got it. The values are the rule and the forbidden content."""

    rule, template = "R-6B", "signing rule {0}: {1}"


class SharesUnproven(Unavailable):
    """A ceremony made a key, but some shards did not prove their shares.

    The key can be put in force only without these shards.
    """

    rule, template = "R-68", "ceremony {0}: no proof of the shares of shards {1}"


class KeyInUse(Unavailable):
    """Another process of this machine uses the key file of this account."""

    rule, template = "R-6C", "the key file {0} is used by process {1}"


class OlderBackup(Bug):
    """A newer backup of the same node exists. It may contain votes that the chosen backup lacks."""

    rule, template = "R-6D", "backup {0} is not the newest: {1} was made later"


class ResultsDiffer(Bug):
    """Two jobs about one receipt gave different results. The engine is deterministic, so a machine or the program is broken."""

    rule, template = "R-6E", "two jobs about receipt {0} differ: find the machine that is wrong before this node runs again"


class RevealRefused(Fault):
    """A reveal of attention tests does not prove its claims. The values are the refused part and the reason."""

    rule, template = "R-6F", "reveal of attention tests, {0}: {1}"


# --- inference ---


class ArtifactMismatch(Fault):
    """The bytes of an artifact do not match its digest."""

    rule, template = "R-60", "artifact {0}: {1}"


class UnsupportedModel(Fault):
    """The arithmetic profile cannot run this checkpoint exactly."""

    rule, template = "R-61", "unsupported model: {0}"


class CannotExecute(Unavailable):
    """This machine cannot reproduce the arithmetic profile: no backend passes, memory is too small, or the model is missing.

    The second value, if any, is the `CannotReason` of the vote. Without a second value the reason is BACKEND.
    """

    rule, template = "R-62", "cannot execute: {0}"


class NotExact(Bug):
    """An operation, an exponent or a self-test is outside the arithmetic profile."""

    rule, template = "R-63", "not exact: {0}"


class BadRequest(Fault):
    """A client request cannot be served. Nothing is published."""

    rule, template = "R-64", "{0}: {1}"
