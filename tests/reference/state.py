"""Disputes as the model holds them: one immutable value for the whole court, and what can be read off it (`DisputeStore`).

Seconds are of the protocol clock. A mask has bit i set for seat i.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import Count, VoteContent
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from tests.reference.accounting import Accounting


@dataclass(frozen=True, slots=True)
class Claim:
    """What is questioned, as the anchor vouches for it."""

    receipt_id: Digest
    """The receipt."""
    tokens_hash: Digest
    """What it claims: this and the next."""
    out_hash: Digest
    """What it claims."""
    environment: Digest
    """Where it ran."""
    operator: Address
    """Who signed it."""
    batch_id: int
    """Where it is anchored."""
    params_version: int
    """Parameters in force when it was anchored."""
    window_end: int
    """Last second to question it."""

    @property
    def answer(self) -> tuple[Digest, Digest]:
        """What a vote must have found to be equal."""
        return self.tokens_hash, self.out_hash


@dataclass(frozen=True, slots=True)
class Challenger:
    """Who opened."""

    account: Address
    """Who."""
    alt_commit: Digest
    """Commitment to the answer that it expects to win."""
    knew: bool = False
    """Whether it was opened to what the verdict says."""


@dataclass(frozen=True, slots=True)
class VoteRecord:
    """What a member did so far."""

    commitment: Digest = ZERO_DIGEST
    """Zero until committed."""
    said: VoteContent | None = None
    """What it revealed, or a certificate said for it."""


@dataclass(frozen=True, slots=True)
class Round:
    """One committee."""

    level: int
    """How large it is."""
    seats: int
    """How many seats."""
    seed_block: int
    """Whose mix draws them."""
    rearms: int = 0
    """Seeds that were lost."""
    holders: tuple[Address | None, ...] = ()
    """Of the seats drawn so far; None: nobody."""
    commit_end: int = 0
    """Last second to commit, the one before if every seat has; 0 before the draw."""
    reveal_end: int = 0
    """Last second to reveal; 0 before the draw."""
    words: Mapping[Address, VoteRecord] = field(default_factory=dict)
    """Members that committed or spoke."""
    count: Count = field(default_factory=Count)
    """Seats by what they said."""
    roots: tuple[Digest, ...] = ()
    """Commit roots that were posted, each once; members open votes under the first."""
    certified: int = 0
    """Mask of the seats that a certificate counts for."""
    settled: bool = False
    """Whether it is counted."""

    @property
    def drawn(self) -> bool:
        """Whether every seat is drawn."""
        return len(self.holders) == self.seats

    @property
    def members(self) -> tuple[Address, ...]:
        """Holders in the order of their first seats; none before the last seat is drawn."""
        return tuple(dict.fromkeys(who for who in self.holders if who is not None)) if self.drawn else ()

    def mask(self, who: Address) -> int:
        """All seats of an account; 0 without one."""
        return sum(1 << seat for seat, holder in enumerate(self.holders) if holder == who) if self.drawn else 0

    @property
    def committed(self) -> int:
        """Mask of the seats whose members committed."""
        return sum(self.mask(who) for who, word in self.words.items() if word.commitment != ZERO_DIGEST)

    @property
    def revealed(self) -> int:
        """Mask of the seats whose members spoke."""
        return sum(self.mask(who) for who, word in self.words.items() if word.said is not None)


@dataclass(frozen=True, slots=True)
class Account:
    """Where the money of a dispute came from and went: `ISettlement.Account`. Wei."""

    bond: int = 0
    """Of the challenger."""
    appeal_bond: int = 0
    """Of who appealed."""
    advanced: int = 0
    """By the treasury."""
    operator_locked: int = 0
    """Stake that it binds."""
    slashed: int = 0
    """Taken from the operator."""
    penalties: int = 0
    """Taken from verifiers so far, all burned."""
    per_seat: int = 0
    """Pay of a right (or working) seat."""
    to_challenger: int = 0
    """Bond back and α."""
    to_appellant: int = 0
    """The appeal bond, back."""
    to_operator: int = 0
    """Its share of lost bonds."""
    to_verifiers: int = 0
    """Set aside for seats."""
    repaid: int = 0
    """To the treasury."""
    burned: int = 0
    """Without penalties."""
    ended: bool = False
    """Whether the verdict's money was split."""
    appellant: Address | None = None
    """Who appealed."""

    @property
    def sums(self) -> bool:
        """Whether what went in came out, penalties (all burned) on both sides."""
        went_in = self.bond + self.appeal_bond + self.advanced + self.slashed
        outlets = self.to_challenger + self.to_appellant + self.to_operator + self.to_verifiers + self.repaid + self.burned
        return went_in == outlets


@dataclass(frozen=True, slots=True)
class Dispute:
    """One questioned receipt."""

    id: Digest
    """Dispute id."""
    claim: Claim
    """What is questioned."""
    phase: Phase
    """As stored; `Court.phase` says what it is by now."""
    challenger: Challenger
    """Who opened it."""
    rounds: tuple[Round, ...]
    """All committees; the last is the current one."""
    account: Account
    """Its money."""
    reruns: int = 0
    """Rounds that had no key and were held again."""
    verdict: Verdict = Verdict.NONE
    """Of the last conclusive round; final in FINAL."""
    decided_in: int = 0
    """Number of that round; 0 without one."""
    appealed: Verdict = Verdict.NONE
    """The verdict that somebody appealed; NONE while nobody did."""
    appeal_end: int = 0
    """Last second to appeal; 0 for a verdict that cannot be."""
    airgap_end: int = 0
    """Money moves after it."""
    key: Digest = ZERO_DIGEST
    """What the verdict says; zero without one."""
    second_key: Digest = ZERO_DIGEST
    """The leading fault of a mixed UNAVAILABLE."""
    replacement: Digest = ZERO_DIGEST
    """The output that replaces the claim."""
    settled_seats: tuple[int, ...] = ()
    """Seats of each round that are paid or charged; empty before FINAL."""

    @property
    def round(self) -> Round:
        """The current committee."""
        return self.rounds[-1]

    def with_round(self, **changes: object) -> "Dispute":
        """The dispute with its current committee changed."""
        return replace(self, rounds=(*self.rounds[:-1], replace(self.round, **changes)))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Breaker:
    """What happened in one environment of late: accused operator → when."""

    convicted: Mapping[Address, int] = field(default_factory=dict)
    """Operators overturned; forgotten when it trips."""
    drawn: Mapping[Address, int] = field(default_factory=dict)
    """Operators whose committees agreed on nothing; forgotten when it trips."""
    held: bool = False
    """Whether convictions wait for governance."""
    closed: bool = False
    """Whether it takes no batches."""


@dataclass(frozen=True, slots=True)
class Court:
    """The whole court at one moment."""

    domain: Domain
    """Under which votes are signed."""
    params: Mapping[int, ParamSet]
    """By version; a version never changes."""
    books: Accounting
    """All money."""
    now: int = 0
    """The protocol clock."""
    block: int = 0
    """Number of the running block."""
    paused: bool = False
    """Whether it stands still."""
    disputes: Mapping[Digest, Dispute] = field(default_factory=dict)
    """By id, oldest first."""
    breakers: Mapping[Digest, Breaker] = field(default_factory=dict)
    """By environment."""
    draws: Mapping[Address, Mapping[Digest, int]] = field(default_factory=dict)
    """By operator, its disputes that ended in a DRAW of late → when; forgotten when it is suspended for them."""
    suspended: Mapping[Address, int] = field(default_factory=dict)
    """Operators whose batches are taken until then."""

    def at(self, now: int, block: int) -> "Court":
        """The court later; `MalformedValue` for an earlier time, or another while the clock stands still."""
        if now < self.now or block < self.block or (self.paused and now != self.now):
            raise MalformedValue("clock", f"{now} in block {block} after {self.now} in block {self.block}")
        return replace(self, now=now, block=block)

    def params_of(self, dispute: Dispute) -> ParamSet:
        """The parameters that a dispute keeps to."""
        return self.params[dispute.claim.params_version]

    def breaker(self, environment: Digest) -> Breaker:
        """What the breaker knows of an environment."""
        return self.breakers.get(environment, Breaker())

    def phase(self, dispute: Dispute) -> Phase:
        """Where a dispute stands by now: phases that follow from time included."""
        if dispute.phase is Phase.COMMIT and self.commits_closed(dispute.round):
            return Phase.REVEAL
        if dispute.phase is Phase.APPEAL and self.now > dispute.appeal_end:
            return Phase.AIRGAP
        return dispute.phase

    def commits_closed(self, current: Round) -> bool:
        """Whether nobody can commit any more."""
        return current.drawn and self.now > current.commit_end

    def reveals_closed(self, current: Round) -> bool:
        """Whether the round can be counted. A posted commit root may stand for members that nobody sees."""
        if not self.commits_closed(current):
            return False
        everybody = current.revealed == (1 << current.seats) - 1
        open_ = current.committed & ~current.revealed
        return self.now > current.reveal_end or everybody or not (open_ or current.roots)

    def put(self, dispute: Dispute) -> "Court":
        """The court with this dispute as it is now."""
        return replace(self, disputes={**self.disputes, dispute.id: dispute})
