"""The result of verifying a capsule: one result for each group of checks, and one for the capsule."""

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from bytewise.protocol.units import Digest
from chain.capsule.facts import Facts
from chain.capsule.schema import Capsule


class Result(enum.StrEnum):
    """Result of a group of checks, and of a capsule."""

    PASS = "PASS"
    """The capsule proves what the group checks."""
    FAIL = "FAIL"
    """The capsule contradicts itself, or a fact that the reader knows."""
    UNVERIFIABLE = "UNVERIFIABLE"
    """Neither the capsule nor the reader's knowledge proves or refutes what the group checks."""


class Group(enum.StrEnum):
    """Groups of checks, in the order in which they run."""

    CAPSULE = "capsule"
    DEPLOYMENT = "deployment"
    HEADER = "header"
    AUTHENTICITY = "authenticity"
    RECEIPT = "receipt"
    STATE = "state"
    BATCH = "batch"
    VOTES = "votes"
    VERDICT = "verdict"
    CLAIM = "claim"
    OPENING = "opening"
    LOGS = "logs"
    QUOTES = "quotes"
    RELEASES = "releases"
    JOURNALS = "journals"


REQUIRED = frozenset(Group) - {Group.OPENING, Group.LOGS, Group.QUOTES, Group.RELEASES, Group.JOURNALS}
"""Groups on which the conclusion rests. Every other group may be UNVERIFIABLE, but may not FAIL."""


class Failure(enum.StrEnum):
    """Reasons why a group of checks of an evidence capsule fails or cannot be decided."""

    TOO_LARGE = "capsule.tooLarge"
    MALFORMED = "capsule.malformed"
    NOT_CANONICAL = "capsule.notCanonical"
    UNKNOWN_MEMBER = "capsule.unknownMember"
    UNKNOWN_VERSION = "capsule.unknownVersion"
    DEPLOYMENT_INCOMPLETE = "deployment.incomplete"
    DEPLOYMENT_LAYOUT = "deployment.layout"
    DEPLOYMENT_UNKNOWN = "deployment.unknown"
    HEADER_MALFORMED = "header.malformed"
    HEADER_HASH = "header.hash"
    HEADER_CHAIN = "header.chain"
    HEADER_TIME = "header.time"
    DECLARED_OTHER = "header.declaredOther"
    UNDECLARED = "header.undeclared"
    WITNESS_SIGNATURE = "witness.signature"
    WITNESS_TOO_FEW = "witness.tooFew"
    FINALITY_ABSENT = "finality.absent"
    FINALITY_NETWORK = "finality.unknownNetwork"
    FINALITY_FORK = "finality.unknownFork"
    FINALITY_CHECKPOINT = "finality.checkpoint"
    FINALITY_FORM = "finality.form"
    FINALITY_PERIOD = "finality.period"
    FINALITY_PARTICIPATION = "finality.participation"
    FINALITY_COMMITTEE = "finality.committee"
    FINALITY_BRANCH = "finality.branch"
    FINALITY_SIGNATURE = "finality.signature"
    FINALITY_EXECUTION = "finality.execution"
    STATE_ACCOUNT = "state.account"
    STATE_CODE_HASH = "state.codeHash"
    STATE_SLOT = "state.slot"
    STATE_VALUE = "state.value"
    STATE_SURPLUS = "state.surplus"
    RECEIPT_DIGEST = "receipt.digest"
    RECEIPT_SIGNATURE = "receipt.signature"
    RECEIPT_MODE = "receipt.mode"
    RECEIPT_ENVIRONMENT = "receipt.environment"
    BATCH_UNKNOWN = "batch.unknown"
    BATCH_SEQUENCE = "batch.sequence"
    BATCH_HEADER = "batch.header"
    BATCH_MEMBERSHIP = "batch.membership"
    VOTES_CLAIM = "votes.claim"
    VOTES_ROUNDS = "votes.rounds"
    VOTES_SEAT_TWICE = "votes.seatTwice"
    VOTES_COMMITTEE = "votes.committee"
    VOTES_MISSING = "votes.missing"
    VOTES_FORM = "votes.form"
    VOTES_GROUP = "votes.group"
    VERDICT_TALLY = "verdict.tally"
    VERDICT_RULE = "verdict.rule"
    VERDICT_NOT_FINAL = "verdict.notFinal"
    VERDICT_REPLACED = "verdict.replaced"
    CLAIM_KIND = "claim.kind"
    CLAIM_DIFFERS = "claim.differs"
    OPENING_REQUEST = "opening.request"
    OPENING_OUTPUT = "opening.output"
    OPENING_CLIENT = "opening.client"
    OPENING_DEFECT = "opening.defect"
    OPENING_ABSENT = "opening.absent"
    LOGS_LINK = "logs.link"
    LOGS_PROOF = "logs.proof"
    LOGS_EMITTER = "logs.emitter"
    LOGS_SURPLUS = "logs.surplus"
    LOGS_ABSENT = "logs.absent"
    QUOTE_HASH = "quote.hash"
    QUOTE_NO_LOG = "quote.noLog"
    QUOTE_NOT_APPRAISED = "quote.notAppraised"
    RELEASES_RECEIPT = "releases.receipt"
    RELEASES_SHARD = "releases.shard"
    RELEASES_RECORD = "releases.record"
    RELEASES_ABSENT = "releases.absent"
    JOURNAL_DOUBLED = "journal.doubled"
    JOURNAL_KEYS = "journal.keys"
    JOURNAL_CHECKPOINT = "journal.checkpoint"
    JOURNAL_POST_QUANTUM = "journal.pq"
    JOURNAL_SUBJECT = "journal.subject"
    JOURNAL_ENTRY = "journal.entry"
    JOURNAL_CHAIN = "journal.chain"
    JOURNAL_INCLUSION = "journal.inclusion"
    JOURNAL_OWNER = "journal.owner"
    JOURNAL_UNWITNESSED = "journal.unwitnessed"
    JOURNAL_ABSENT = "journal.absent"
    NOT_REACHED = "notReached"
    """The group was not checked, because a group that it needs did not pass."""


class GroupResult(NamedTuple):
    """The result of one group of checks."""

    group: Group
    """The group of checks."""
    result: Result
    """Its result."""
    failure: Failure | None
    """The reason; None if the group passes."""
    detail: str
    """Sentence about the finding."""


class Stop(Exception):
    """Exception that ends a group of checks without a pass. The result is FAIL, or UNVERIFIABLE if `unverifiable` is true."""

    def __init__(self, failure: Failure, detail: str, unverifiable: bool = False) -> None:
        super().__init__(failure, detail)
        self.failure, self.detail = failure, detail
        self.result = Result.UNVERIFIABLE if unverifiable else Result.FAIL


@dataclass
class CapsuleReport:
    """The findings of one verification."""

    digest: Digest
    """SHA-256 of the file."""
    capsule: Capsule | None = None
    """The parsed capsule; None if the file is no capsule."""
    facts: Facts | None = None
    """Facts that the state proves; None unless the group STATE passes."""
    attested: bool | None = None
    """Whether at least one quote states the same as its vote; None if no quote is proven."""
    checks: list[GroupResult] = field(default_factory=list)
    """One result for each group, in order. If the file is no capsule, only the result of group CAPSULE."""

    @property
    def result(self) -> Result:
        """FAIL if any group fails; else UNVERIFIABLE if a required group is UNVERIFIABLE; else PASS."""
        if any(each.result is Result.FAIL for each in self.checks):
            return Result.FAIL
        return Result.UNVERIFIABLE if self.open_conditions else Result.PASS

    @property
    def first_failure(self) -> GroupResult | None:
        """Result of the first group that fails; None if no group fails."""
        return next((each for each in self.checks if each.result is Result.FAIL), None)

    @property
    def open_conditions(self) -> list[GroupResult]:
        """Results of the required groups that are UNVERIFIABLE."""
        return [each for each in self.checks if each.result is Result.UNVERIFIABLE and each.group in REQUIRED]

    def passes(self, *groups: Group) -> bool:
        """Returns whether all these groups were checked and none of them failed. A checked group with the result UNVERIFIABLE
        counts as passed."""
        seen = {each.group: each for each in self.checks}
        return all(
            group in seen and seen[group].result is not Result.FAIL and seen[group].failure is not Failure.NOT_REACHED
            for group in groups
        )
