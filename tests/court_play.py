"""Parties of disputes that do one thing after another, chosen by whoever plays: on the model alone, or on a chain beside it.

Each step is a function of `bytewise.protocol.court` by name. A step that is refused leaves everything as it was; one that is
taken must be a row of the phase table.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bytewise.protocol import merkle
from bytewise.protocol.court import commitments, convening, payment, verdicts, voting
from bytewise.protocol.court.params import MAX_REARMS
from bytewise.protocol.court.phases import AT_ANY_TIME, Event, Phase, ends
from bytewise.protocol.court.state import Account, Challenger, Claim, Court, Dispute, Round
from bytewise.protocol.court.tally import said_by
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.records.statements import Finding, Outcome, Vote
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from tests.court_world import SPEECHES, vote, word

Choose = Callable[[Sequence[Any]], Any]
"""Picks one of several."""

SALT = word("salt of an alt commit")

STEPS: Mapping[str, Callable[..., Court]] = {
    "open": convening.open_dispute,
    "draw": convening.draw,
    "rearm": convening.rearm,
    "commit": voting.commit,
    "post_root": voting.post_root,
    "reveal": voting.reveal,
    "reveal_under_root": voting.reveal_under_root,
    "certify": voting.certify,
    "settle": verdicts.settle,
    "appeal": verdicts.appeal,
    "open_alt": verdicts.open_alt,
    "refund": verdicts.refund,
    "finalize": verdicts.finalize,
    "settle_seats": payment.settle_seats,
}
"""Every step of the model."""

LEANINGS = {
    name: [SPEECHES[i]] * 12 + list(SPEECHES) for name, i in (("guilty", 1), ("innocent", 0), ("gone", 5), ("keyless", 6))
}
"""What most seats of a dispute find."""

SETTLED = frozenset(event for event in Event if event.startswith("settle"))
"""What a count can lead to."""

ANY_TIME = ("draw", "rearm", "commit", "reveal", "reveal_under_root", "certify", "settle", "appeal", "open_alt", "finalize")
"""What somebody may try whenever it likes."""


class Play:
    """One court, its parties and what they said."""

    def __init__(self, court: Court, challengers: Sequence[Address], verifiers: Sequence[Address]) -> None:
        self.court, self.challengers, self.verifiers = court, challengers, verifiers
        self.votes: dict[tuple[Digest, int, Address], Vote] = {}
        self.rooted: dict[tuple[Digest, int], dict[Address, Vote]] = {}
        self.leaning: dict[Digest, str] = {}
        self.paid_in = 0

    def do(self, name: str, dispute: Digest, allowed: frozenset[Event] | Event | None, *args: Any) -> bool:
        """Takes a step; whether it was allowed."""
        before, start = self.court, self.phase(dispute)
        stored = self.phase(dispute, stored=True)
        try:
            self.court = STEPS[name](self.court, *args)
        except (Fault, Unavailable):
            assert self.court is before
            return False
        if allowed is not None:
            events = {allowed} if isinstance(allowed, Event) else allowed
            wanted = {ends(start, event) for event in events}
            # A step that changes no phase need not store the one that time alone led to.
            wanted |= {stored} if start in wanted else set()
            assert self.phase(dispute, stored=True) in wanted, (name, start)
            assert not before.paused or events <= AT_ANY_TIME, name
        return True

    def phase(self, dispute: Digest, stored: bool = False) -> Phase:
        """Where a dispute stands by now, or as the last step left it."""
        found = self.court.disputes.get(dispute)
        return Phase.NONE if found is None else found.phase if stored else self.court.phase(found)

    def now(self, dispute: Dispute) -> Dispute:
        """The dispute as it is by now."""
        return self.court.disputes[dispute.id]

    def wait(self, seconds: int) -> None:
        """Lets time pass; each second is a block."""
        self.court = self.court.at(self.court.now + seconds, self.court.block + seconds)

    def seed_block(self, round_number: int) -> int:
        """The block that the court would name now."""
        return self.court.block + 4

    def holders(self, found: Dispute, count: int, choose: Choose) -> list[Address | None]:
        """Who holds the next seats."""
        return [choose([*self.verifiers, *self.verifiers, None]) for _ in range(count)]

    # --- the steps, each of one party ---

    def open(self, claim: Claim, who: Address, alt_key: Digest, leaning: str) -> bool:
        """Somebody questions a receipt."""
        dispute, bond = (
            commitments.dispute_id(self.court.domain, claim.receipt_id),
            self.court.params[claim.params_version].required_bond,
        )
        alt = commitments.alt_commit(self.court.domain, dispute, who, alt_key, SALT)
        done = self.do("open", dispute, Event.OPEN, claim, who, bond, alt, self.seed_block(1))
        if done:
            self.leaning[dispute], self.paid_in = leaning, self.paid_in + bond
        return done

    def draw(self, found: Dispute, choose: Choose) -> bool:
        """Some of the seats or all that are left."""
        left = found.round.seats - len(found.round.holders)
        count = choose([left, left, 1])
        event = Event.DRAW_LAST if count == left else Event.DRAW_SOME
        return self.do("draw", found.id, event, found.id, self.holders(found, count, choose))

    def rearm(self, found: Dispute) -> bool:
        """Another seed block."""
        event = Event.SEED_LOST if found.round.rearms == MAX_REARMS else Event.REARM
        return self.do("rearm", found.id, event, found.id, self.seed_block(len(found.rounds)))

    def commit(self, found: Dispute, who: Address, choose: Choose) -> bool:
        """A member commits to what it found; some know the result and have not held every leaf."""
        said = vote(found, who, choose(LEANINGS[self.leaning[found.id]]), lazy=choose([False] * 9 + [True]))
        digest = typed_digest(self.court.domain, said)
        done = self.do("commit", found.id, None, found.id, who, said.seat_mask, digest)
        if done:
            self.votes[found.id, len(found.rounds), who] = said
        return done

    def reveal(self, found: Dispute, who: Address) -> bool:
        """A member opens its vote."""
        said = self.votes.get((found.id, len(found.rounds), who))
        return said is not None and self.do("reveal", found.id, None, said)

    def reveal_under_root(self, found: Dispute, who: Address) -> bool:
        """A member opens what the first root has of it."""
        said = self.rooted.get((found.id, len(found.rounds)), {}).get(who)
        if said is None:
            return False
        # Under a root that is not the first nothing opens.
        proof = merkle.commit_proof(self.leaves(found), _place(said))
        done = self.do("reveal_under_root", found.id, None, said, who, proof)
        if done:
            self.votes[found.id, len(found.rounds), who] = said
        return done

    def certify(self, found: Dispute, choose: Choose) -> bool:
        """Members who have not committed sign together, under the one root of the round; now and then one who has joins them.

        Now and then one is left out.
        """
        words, members = self.now(found).round.words, found.round.members
        free = [
            who for who in members if who not in words or words[who].commitment == ZERO_DIGEST or choose([False] * 15 + [True])
        ]
        signers = [who for who in free if choose([True] * 7 + [False])]
        if not signers:
            return False
        one = vote(found, signers[0], choose(LEANINGS[self.leaning[found.id]]))
        finding = Finding(one.dispute, one.round, one.outcome, one.code, one.tokens_hash, one.trace_root, one.round_digest)
        return self.do("certify", found.id, None, finding, self.root(found), signers)

    def root(self, found: Dispute) -> Digest:
        """The commit root of the current round, of what its members would vote."""
        return merkle.commit_root(self.leaves(found))

    def leaves(self, found: Dispute) -> dict[int, Digest]:
        """Of that root; none before it was posted."""
        votes = self.rooted.get((found.id, len(found.rounds)), {}).values()
        return {_place(v): commitments.sealed(typed_digest(self.court.domain, v), v.voter, v.seat_mask) for v in votes}

    def plant(self, found: Dispute, choose: Choose) -> bool:
        """A member collects commitments of all members and posts their root; now and then another root is there before.

        A stranger may try too, in vain.
        """
        if not found.round.members:
            return False
        by = choose(found.round.members)
        if choose([False] * 7 + [True]):
            self.do("post_root", found.id, None, found.id, choose([by, self.challengers[0]]), word("root", found.id))
        leaning = LEANINGS[self.leaning[found.id]]
        self.rooted[found.id, len(found.rounds)] = {who: vote(found, who, choose(leaning)) for who in found.round.members}
        return self.do("post_root", found.id, None, found.id, by, self.root(found))

    def settle(self, found: Dispute) -> bool:
        """Count the round."""
        return self.do("settle", found.id, SETTLED, found.id, self.seed_block(len(found.rounds) + 1))

    def appeal(self, found: Dispute, who: Address) -> bool:
        """Ask for the next level."""
        p = self.court.params_of(found)
        if found.round.level >= p.committee.rounds:
            return False
        bond, seed = p.appeal_bond(found.round.level + 1), self.seed_block(len(found.rounds) + 1)
        done = self.do("appeal", found.id, Event.APPEAL, found.id, who, bond, seed)
        self.paid_in += bond * done
        return done

    def open_alt(self, found: Dispute) -> None:
        """The challenger shows what it knew."""
        self.do("open_alt", found.id, Event.OPEN_ALT, found.id, SALT)

    def attempt(self, name: str, found: Dispute, choose: Choose) -> None:
        """One of `ANY_TIME`, whether it is its time or not."""
        match name:
            case "draw" | "certify":
                getattr(self, name)(found, choose)
            case "commit" if found.round.members:
                self.commit(found, choose(found.round.members), choose)
            case "reveal" | "reveal_under_root" if found.round.members:
                getattr(self, name)(found, choose(found.round.members))
            case "appeal":
                self.appeal(found, choose(self.challengers))
            case "rearm" | "settle" | "open_alt":
                getattr(self, name)(found)
            case "finalize":
                self.do(name, found.id, Event.FINALIZE, found.id)

    # --- what the parties of a dispute would do next ---

    def advance(self, found: Dispute, choose: Choose) -> None:
        """Brings a dispute on by one phase."""
        match self.phase(found.id):
            case Phase.SEED | Phase.DRAWING:
                self.wait(max(0, found.round.seed_block + 1 - self.court.block))
                self.draw(found, choose)
            case Phase.COMMIT:
                self._vote(found, choose)
            case Phase.REVEAL:
                self._count(found, choose)
            case Phase.APPEAL if choose([True, False]):
                self.appeal(found, choose(self.challengers))
            case Phase.APPEAL | Phase.AIRGAP:
                self.open_alt(found)
                self.wait(max(0, found.airgap_end + 1 - self.court.now))
                self.do("finalize", found.id, Event.FINALIZE, found.id)

    def _vote(self, found: Dispute, choose: Choose) -> None:
        rooted = choose([False, False, True]) and self.plant(found, choose)
        for who in found.round.members:
            # Who is to sign is in the root alone.
            if choose([not rooted] * 7 + [rooted]):
                self.commit(found, who, choose)
        if self.phase(found.id) is Phase.COMMIT:
            self.wait(found.round.commit_end + 1 - self.court.now)

    def _count(self, found: Dispute, choose: Choose) -> None:
        if found.round.roots and choose([True, False, False]):
            self.reveal_under_root(found, choose(found.round.members))
        if found.round.roots and choose([True, True, True, False]):
            self.certify(found, choose)
        for who in found.round.members:
            if choose([True] * 9 + [False]) and not self.reveal(found, who) and found.round.roots:
                self.reveal_under_root(found, who)
        if not self.court.reveals_closed(self.now(found).round):
            self.wait(found.round.reveal_end + 1 - self.court.now)
        self.settle(found)


def _place(said: Vote) -> int:
    """The first seat of a vote."""
    return (said.seat_mask & -said.seat_mask).bit_length() - 1


def alt_keys(found: Claim) -> list[Digest]:
    """What challengers may expect: the claim, and the other answer."""
    nobody = Address("0x" + "00" * 20)
    dummy = Dispute(word(), found, Phase.NONE, Challenger(nobody, word()), (Round(1, 1, 0),), Account())
    return [said_by(vote(dummy, nobody, speech)).key for speech in SPEECHES if speech[0] is Outcome.EXECUTED][:2]
