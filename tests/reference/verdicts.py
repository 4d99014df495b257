"""From a counted round to the end: settle, appeal, open the other answer, refund, finalize, and the breaker (`Disputes.sol`)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from bytewise.protocol.court import commitments
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.court.tally import judge
from bytewise.protocol.errors.actors import BreakerHolds, CommitmentMismatch, TooEarly
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from tests.reference import checks, payment
from tests.reference.state import Court, Dispute, Round

_Subject = TypeVar("_Subject", Address, Digest)


def settle(court: Court, dispute: Digest, seed_block: int) -> Court:
    """Count the round: decided, or a larger one, or one more of this size because nobody got the key."""
    checks.running(court)
    found = checks.in_phase(court, dispute, Phase.REVEAL)
    current, p = found.round, court.params_of(found)
    if not court.reveals_closed(current):
        raise TooEarly("settling", current.reveal_end + 1, court.now)
    found = found.with_round(settled=True)
    quorum = p.quorum(current.seats)
    said = judge(current.count, found.claim.out_hash, quorum)
    if said.verdict is not Verdict.NONE:
        found = replace(
            found, verdict=said.verdict, decided_in=len(found.rounds), key=said.key, second_key=said.second_key,
            replacement=said.replacement, challenger=replace(found.challenger, knew=False),
        )  # fmt: skip
        return _decided(court, found, current.level < p.committee.rounds and found.appealed is Verdict.NONE)
    if current.count.no_key > current.seats - quorum and found.reruns < p.committee.max_reruns:
        return _next(court, replace(found, reruns=found.reruns + 1), current.level, seed_block)
    if current.level == p.committee.rounds:
        return undecided(_disagreed(court, found) if found.verdict is Verdict.NONE else court, found)
    books, amount = court.books.advance(dispute, p.seats(current.level + 1) * p.money.fee_per_seat)
    account = replace(found.account, advanced=found.account.advanced + amount)
    return _next(replace(court, books=books), replace(found, account=account), current.level + 1, seed_block)


def undecided(court: Court, found: Dispute) -> Court:
    """No committee will say more: an earlier verdict stands, else it is a draw."""
    verdict = Verdict.DRAW if found.verdict is Verdict.NONE else found.verdict
    return _decided(court, replace(found, verdict=verdict), appealable=False)


def appeal(court: Court, dispute: Digest, who: Address, bond: int, seed_block: int) -> Court:
    """Ask for the next level, once in a dispute, for twice its fees."""
    found = checks.in_phase(court, dispute, Phase.APPEAL)
    level = found.round.level + 1
    checks.paid("an appeal", bond, court.params_of(found).appeal_bond(level))
    account = replace(found.account, appeal_bond=bond, appellant=who)
    books = court.books.take(dispute, bond)
    return _next(replace(court, books=books), replace(found, account=account, appealed=found.verdict), level, seed_block)


def open_alt(court: Court, dispute: Digest, salt: Digest) -> Court:
    """Show that the challenger committed to what the verdict says."""
    found = checks.in_phase(court, dispute, Phase.APPEAL, Phase.AIRGAP)
    checks.not_after("the airgap", found.airgap_end, court.now)
    one = found.challenger
    checks.new(not one.knew, one.account, "opened already")
    # A draw says nothing that anybody could have known, and that the claim stands is no answer of the challenger's.
    if found.verdict not in CONVICTIONS or one.alt_commit != commitments.alt_commit(
        court.domain, dispute, one.account, found.key, salt
    ):
        raise CommitmentMismatch(one.account, one.alt_commit.hex())
    return court.put(replace(found, challenger=replace(one, knew=True)))


def finalize(court: Court, dispute: Digest) -> Court:
    """End the dispute and move its money."""
    checks.running(court)
    found = checks.in_phase(court, dispute, Phase.AIRGAP)
    if court.now <= found.airgap_end:
        raise TooEarly("the end", found.airgap_end + 1, court.now)
    if found.verdict in CONVICTIONS and court.breaker(found.claim.environment).held:
        raise BreakerHolds(found.claim.environment.hex())
    return payment.end(court, replace(found, phase=Phase.FINAL))


def refund(court: Court, dispute: Digest) -> Court:
    """The guardian gives everybody its own back."""
    found = checks.in_phase(court, dispute, Phase.APPEAL, Phase.AIRGAP)
    ended = replace(found, phase=Phase.FINAL, verdict=Verdict.REFUNDED)
    return payment.end(court, replace(ended, key=ZERO_DIGEST, second_key=ZERO_DIGEST, replacement=ZERO_DIGEST))


def reset_breaker(court: Court, environment: Digest) -> Court:
    """Governance has looked: convictions go on."""
    return replace(court, breakers={**court.breakers, environment: replace(court.breaker(environment), held=False)})


def _decided(court: Court, found: Dispute, appealable: bool) -> Court:
    times = court.params_of(found).times
    appeal_end = court.now + times.appeal_time if appealable else 0
    airgap_end = (appeal_end or court.now) + times.airgap
    if found.verdict is Verdict.OVERTURNED:
        court = _convicted(court, found)
    phase = Phase.APPEAL if appealable else Phase.AIRGAP
    return court.put(replace(found, phase=phase, appeal_end=appeal_end, airgap_end=airgap_end))


def _next(court: Court, found: Dispute, level: int, seed_block: int) -> Court:
    added = Round(level, court.params_of(found).seats(level), seed_block)
    return court.put(replace(found, phase=Phase.SEED, rounds=(*found.rounds, added)))


def _convicted(court: Court, found: Dispute) -> Court:
    """Convictions of many operators at once look like a fault of their environment: they wait for a look at it."""
    breaker = court.breaker(found.claim.environment)
    if breaker.held:
        return court
    seen, trips = _of_late(breaker.convicted, found.claim.operator, court, found)
    changed = replace(breaker, convicted={} if trips else seen, held=trips)
    return replace(court, breakers={**court.breakers, found.claim.environment: changed})


def _disagreed(court: Court, found: Dispute) -> Court:
    """Committees that agree on nothing: for many operators, no new batches there; for one again and again, none of its own."""
    operator, breaker = found.claim.operator, court.breaker(found.claim.environment)
    seen, trips = _of_late(breaker.drawn, operator, court, found)
    changed = replace(breaker, drawn={} if trips else seen, closed=breaker.closed or trips)
    own, suspends = _of_late(court.draws.get(operator, {}), found.id, court, found)
    until = court.now + court.params[max(court.params)].times.max_anchor_delay
    return replace(
        court,
        breakers={**court.breakers, found.claim.environment: changed},
        draws={**court.draws, operator: {} if suspends else own},
        suspended={operator: until, **court.suspended} if suspends else court.suspended,
    )


def _of_late(
    seen: Mapping[_Subject, int], subject: _Subject, court: Court, found: Dispute
) -> tuple[Mapping[_Subject, int], bool]:
    """To whom it happened within the breaker's time, this one included; and whether they are too many."""
    p = court.params_of(found)
    late = {who: when for who, when in seen.items() if when + p.times.breaker_time >= court.now}
    late[subject] = court.now
    return late, len(late) > p.committee.breaker_operators
