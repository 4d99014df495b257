"""From a question to a seated committee: open, draw, rearm (`DisputeDraw.sol`)."""

from collections.abc import Sequence
from dataclasses import replace

from bytewise.protocol.court import commitments
from bytewise.protocol.court.params import MAX_REARMS
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.errors.actors import TooEarly
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from tests.reference import checks, verdicts
from tests.reference.state import Account, Challenger, Claim, Court, Dispute, Round


def open_dispute(court: Court, claim: Claim, who: Address, bond: int, alt_commit: Digest, seed_block: int) -> Court:
    """Question a receipt: bond taken, operator's stake bound, seed block named."""
    checks.running(court)
    dispute_ = commitments.dispute_id(court.domain, claim.receipt_id)
    checks.new(dispute_ not in court.disputes, f"receipt {claim.receipt_id.hex()}", "disputed already")
    checks.not_after("the window", claim.window_end, court.now)
    p = court.params[claim.params_version]
    checks.paid("opening", bond, p.required_bond)
    _known(who, claim.operator, alt_commit)
    books, locked = court.books.take(dispute_, bond).bind(claim.operator, p.money.slash_amount)
    found = Dispute(
        dispute_, claim, Phase.SEED, Challenger(who, alt_commit),
        (Round(1, p.seats(1), seed_block),), Account(bond=bond, operator_locked=locked),
    )  # fmt: skip
    return replace(court, books=books).put(found)


def draw(court: Court, dispute: Digest, holders: Sequence[Address | None]) -> Court:
    """Seat the next holders: who `StakeTree.draw` names for the seed of the seed block, in its stake epoch, paused or not."""
    found = checks.in_phase(court, dispute, Phase.SEED, Phase.DRAWING)
    current = found.round
    if court.block <= current.seed_block:
        raise TooEarly("a draw", f"block {current.seed_block + 1}", f"block {court.block}")
    left = current.seats - len(current.holders)
    if not 1 <= len(holders) <= left:
        raise MalformedValue("draw", f"{len(holders)} seats, {left} are left")
    found = found.with_round(holders=(*current.holders, *holders))
    if not found.round.drawn:
        return court.put(replace(found, phase=Phase.DRAWING))
    times = court.params_of(found).times
    ends = {"commit_end": court.now + times.commit_time, "reveal_end": court.now + times.commit_time + times.reveal_time}
    return court.put(replace(found.with_round(**ends), phase=Phase.COMMIT))


def rearm(court: Court, dispute: Digest, seed_block: int) -> Court:
    """Name another seed block where the seed was lost or its stake epoch is over, which the caller has seen.

    Once too often, and the dispute ends as after a last round without a verdict.
    """
    checks.running(court)
    found = checks.in_phase(court, dispute, Phase.SEED, Phase.DRAWING)
    if found.round.rearms == MAX_REARMS:
        return verdicts.undecided(court, found.with_round(holders=()))
    changed = found.with_round(holders=(), seed_block=seed_block, rearms=found.round.rearms + 1)
    return court.put(replace(changed, phase=Phase.SEED))


def _known(who: Address, operator: Address, alt_commit: Digest) -> None:
    if who == operator:
        raise MalformedValue("challenger", f"{who} is the operator")
    if alt_commit == ZERO_DIGEST:
        raise MalformedValue("alt commit", "empty")
