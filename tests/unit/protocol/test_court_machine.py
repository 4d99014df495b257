"""Random parties against the model of the court: money, phases, verdicts, and a way for every dispute to its end."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bytewise.protocol.court import commitments
from bytewise.protocol.court.phases import Event, Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.court.tally import judge
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import Digest
from tests.fixtures.court.builders import account, claim, params, word
from tests.fixtures.court.play import ANY_TIME, LEANINGS, Play, alt_keys
from tests.reference import committee_draw, verdicts
from tests.reference.accounting import Accounting
from tests.reference.state import Court, Dispute, Round
from tests.reference.verdict_rules import RevealedVote, tally

OPERATORS = [account(f"operator {i}") for i in range(3)]
CHALLENGERS = [account(f"challenger {i}") for i in range(6)]
VERIFIERS = [account(f"verifier {i}") for i in range(5)]
ENVIRONMENT = word("environment")

UNDRAWN = (Phase.SEED, Phase.DRAWING)
LIVE = (Phase.SEED, Phase.DRAWING, Phase.COMMIT, Phase.REVEAL, Phase.APPEAL, Phase.AIRGAP)
DECIDED = (Phase.APPEAL, Phase.AIRGAP)


def stands(*phases: Phase) -> Callable[[Any], bool]:
    """Precondition: the clock runs, and a dispute stands in one of these phases."""
    return lambda machine: not machine.play.court.paused and bool(machine.standing(*phases))


class CourtMachine(RuleBasedStateMachine):
    """One court, a few disputes at once."""

    @initialize(poor=st.booleans(), rich=st.booleans(), rounds=st.integers(1, 3))
    def build(self, poor: bool, rich: bool, rounds: int) -> None:
        seats = (3, 5 * (rounds > 1), 7 * (rounds > 2))
        self.versions = {1: params(seats, rounds)}
        stakes = {who: 700 if poor else 5000 for who in OPERATORS} | {who: 7 if poor else 100 for who in VERIFIERS}
        books = Accounting(stakes=stakes, treasury=500 if rich else 20)
        self.play = Play(Court(Domain(1, account("court")), self.versions, books), CHALLENGERS, VERIFIERS)
        self.had = books.total
        self.verdicts: dict[Digest, Verdict] = {}

    def standing(self, *phases: Phase) -> list[Dispute]:
        """Disputes in one of these phases by now."""
        return [each for each in self.play.court.disputes.values() if self.play.court.phase(each) in phases]

    @rule(
        data=st.data(),
        number=st.integers(1, 5),
        who=st.sampled_from([*CHALLENGERS, OPERATORS[0]]),
        lean=st.sampled_from([*LEANINGS]),
    )
    def open(self, data: st.DataObject, number: int, who: Any, lean: str) -> None:
        window_end = self.play.court.now + (50 if number < 5 else -1)
        what = claim(number, OPERATORS[number % 3], ENVIRONMENT, window_end)
        fresh = commitments.dispute_id(self.play.court.domain, what.receipt_id) not in self.play.court.disputes
        done = self.play.open(what, who, data.draw(st.sampled_from(alt_keys(what))), lean)
        assert done == (fresh and number < 5 and who != what.operator and not self.play.court.paused)

    @rule(which=st.integers(0, 9), chance=st.integers(0, 2**32), phases=st.integers(1, 12))
    @precondition(stands(*LIVE))
    def advance(self, which: int, chance: int, phases: int) -> None:
        """What the parties of a dispute would do next, for some phases; counted rounds are counted again at once."""
        found = self.standing(*LIVE)[which % len(self.standing(*LIVE))]
        choose = random.Random(chance).choice
        for _ in range(phases):
            before = self.play.now(found)
            self.play.advance(before, choose)
            counted = self.play.now(found).rounds[len(before.rounds) - 1]
            if counted.settled and not before.round.settled:
                self.agrees_with_a_plain_count(found, counted, len(before.rounds))

    def agrees_with_a_plain_count(self, found: Dispute, one: Round, number: int) -> None:
        quorum = self.versions[1].quorum(one.seats)
        assert not (one.count.equal >= quorum and one.count.lead >= quorum), "both verdicts at once"
        assert sum(one.count.groups.values()) == one.revealed.bit_count()
        if one.certified:
            return
        cast = [self.play.votes[found.id, number, who] for who, word_ in one.words.items() if word_.said is not None]
        votes = [
            RevealedVote(v.voter, one.mask(v.voter).bit_count(), v.outcome, v.code, v.tokens_hash, v.trace_root, v.round_digest)
            for v in cast
        ]
        plain = tally(one.seats, 2, 3, votes, *found.claim.answer)
        judged = judge(one.count, found.claim.out_hash, quorum)
        assert (plain.verdict, plain.replacement) == (judged.verdict, judged.replacement)
        if judged.verdict is Verdict.UPHELD:
            winning = {(v.tokens_hash, v.out_hash) for v in votes if v.voter in plain.winners}
            assert winning == {found.claim.answer}, "upheld beside other tokens"
        assert (plain.equal, plain.fault, plain.unavailable) == (one.count.equal, one.count.lead, one.count.unavailable)

    @rule(data=st.data())
    @precondition(stands(*UNDRAWN))
    def rearm(self, data: st.DataObject) -> None:
        self.play.rearm(data.draw(st.sampled_from(self.standing(*UNDRAWN))))

    @rule(data=st.data(), rare=st.integers(0, 5))
    @precondition(stands(*DECIDED))
    def refund(self, data: st.DataObject, rare: int) -> None:
        found = data.draw(st.sampled_from(self.standing(*DECIDED)))
        if rare == 0:
            assert self.play.do("refund", found.id, Event.REFUND, found.id)

    @rule(data=st.data(), name=st.sampled_from(ANY_TIME))
    @precondition(lambda self: self.play.court.disputes)
    def out_of_turn(self, data: st.DataObject, name: str) -> None:
        """Anything at any time: allowed where the phase table has a row for it, else refused."""
        found = data.draw(st.sampled_from(list(self.play.court.disputes.values())))
        self.play.attempt(name, found, lambda several: data.draw(st.sampled_from(several)))

    @rule(number=st.integers(1, 3), count=st.integers(1, 4))
    @precondition(lambda self: self.standing(Phase.FINAL))
    def settle_seats(self, number: int, count: int) -> None:
        for found in self.standing(Phase.FINAL):
            if number <= len(found.rounds):
                self.play.do("settle_seats", found.id, None, found.id, number, count)

    @rule()
    @precondition(lambda self: self.play.court.breaker(ENVIRONMENT).held)
    def reset_breaker(self) -> None:
        self.play.court = verdicts.reset_breaker(self.play.court, ENVIRONMENT)

    @rule(seconds=st.integers(1, 25))
    @precondition(stands(*LIVE))
    def wait(self, seconds: int) -> None:
        self.play.wait(seconds)

    @rule()
    def pause(self) -> None:
        self.play.court = replace(self.play.court, paused=not self.play.court.paused)

    @invariant()
    def every_wei_is_somewhere(self) -> None:
        books = self.play.court.books
        assert books.total == self.had + self.play.paid_in
        assert all(bound >= 0 for bound in books.locked.values())
        assert min([books.treasury, books.burned, *books.pots.values(), *books.credits.values(), *books.stakes.values()]) >= 0

    @invariant()
    def each_dispute_holds_what_it_says(self) -> None:
        locked = dict.fromkeys(OPERATORS, 0)
        for found in self.play.court.disputes.values():
            money, pot = found.account, self.play.court.books.pot(found.id)
            if money.ended:
                left = sum(one.seats - done for one, done in zip(found.rounds, found.settled_seats, strict=True) if one.drawn)
                assert money.sums and pot <= money.to_verifiers and (left or pot == 0)
                assert found.verdict not in CONVICTIONS or money.burned * 5 >= money.slashed
            else:
                assert pot == money.bond + money.appeal_bond + money.advanced
                locked[found.claim.operator] += money.operator_locked
        assert {who: self.play.court.books.locked.get(who, 0) for who in OPERATORS} == locked

    @invariant()
    def an_end_is_final_and_parameters_stay(self) -> None:
        for found in self.play.court.disputes.values():
            if found.phase is Phase.FINAL:
                assert self.verdicts.setdefault(found.id, found.verdict) is found.verdict is not Verdict.NONE
        assert self.play.court.params is self.versions and [*self.versions] == [1]

    def teardown(self) -> None:
        """From wherever the court is left, anybody can bring every dispute to its end, in time and steps that are bounded."""
        if not hasattr(self, "play"):
            return
        court = replace(self.play.court, paused=False)
        for dispute in court.disputes:
            began = court.now
            for _ in range(40):
                court = verdicts.reset_breaker(court, ENVIRONMENT)
                if court.disputes[dispute].phase is not Phase.FINAL:
                    court = pushed(court, court.disputes[dispute])
            assert court.disputes[dispute].phase is Phase.FINAL
            assert court.now - began <= self.versions[1].longest_dispute


def pushed(court: Court, found: Dispute) -> Court:
    """The court after a move of somebody without key, seat or role: waiting, or what anybody may do."""
    one, phase = found.round, court.phase(found)
    if phase in UNDRAWN:
        seconds = one.seed_block + 1 - court.block
        if seconds > 0:
            return court.at(court.now + seconds, court.block + seconds)
        return committee_draw.draw(court, found.id, [VERIFIERS[0]] * (one.seats - len(one.holders)))
    if phase is Phase.REVEAL and court.reveals_closed(one):
        return verdicts.settle(court, found.id, court.block + 4)
    if phase is Phase.AIRGAP and court.now > found.airgap_end:
        return verdicts.finalize(court, found.id)
    ends = {
        Phase.COMMIT: one.commit_end,
        Phase.REVEAL: one.reveal_end,
        Phase.APPEAL: found.appeal_end,
        Phase.AIRGAP: found.airgap_end,
    }
    return court.at(ends[phase] + 1, court.block)


CourtMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestCourt = CourtMachine.TestCase
