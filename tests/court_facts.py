"""What the contracts must say of a court, from the model of it: views by name, structs by field."""

from collections.abc import Mapping, Sequence
from typing import Any

from bytewise.protocol.court.commitments import claim_of
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.seat_outcomes import standing
from bytewise.protocol.court.state import Court, Dispute, Round
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import ZERO_ADDRESS, ZERO_DIGEST, Address, Digest
from tests.court_network import Read

AFTER_VERDICT = (Phase.APPEAL, Phase.AIRGAP, Phase.FINAL)


def money(court: Court, accounts: Sequence[Address], environment: Digest) -> dict[Read, Any]:
    """All money, the clock and the breaker."""
    books = court.books
    want: dict[Read, Any] = {
        Read("Guardian", "clock"): court.now,
        Read("Ledger", "totalCredits"): sum(books.credits.values()),
        Read("Ledger", "treasury"): books.treasury,
        Read("Ledger", "totalBurned"): books.burned,
        Read("StakeVault", "totalStake"): sum(books.stakes.values()),
        Read("Breaker", "isHeld", (environment,)): court.breaker(environment).held,
    }
    want |= {Read("Ledger", "potOf", (id_,)): books.pot(id_) for id_ in court.disputes}
    want |= {Read("Disputes", "phaseOf", (id_,)): court.phase(found) for id_, found in court.disputes.items()}
    for who in accounts:
        want[Read("Ledger", "creditOf", (who,))] = books.credits.get(who, 0)
        want[Read("StakeVault", "stakeOf", (who,))] = books.stakes.get(who, 0)
        want[Read("StakeVault", "lockedOf", (who,))] = books.locked.get(who, 0)
    want |= {Read("Registry", "operatorUntil", (who,)): until for who, until in court.suspended.items()}
    return want


def facts(court: Court, found: Dispute) -> dict[Read, Any]:
    """Everything that the contracts say about one dispute and its current round."""
    number, one = len(found.rounds), found.round
    want: dict[Read, Any] = {
        Read("Disputes", "dispute", (found.id,)): _dispute(found),
        Read("Rounds", "roundOf", (found.id, number)): _round(found, one),
        Read("Rounds", "tallyOf", (found.id, number)): _tally(one),
        Read("Disputes", "isSettleable", (found.id,)): court.phase(found) is Phase.REVEAL and court.reveals_closed(one),
        Read("Disputes", "challengerOf", (found.id,)): {"0": found.challenger.account, "1": found.challenger.knew},
        Read("Settlement", "accountOf", (found.id,)): _account(found),
    }  # fmt: skip
    if found.phase is Phase.FINAL:
        for i, each in enumerate(found.rounds, 1):
            want[Read("Settlement", "settledSeats", (found.id, i))] = found.settled_seats[i - 1]
            seated = each.holders if each.drawn else ()
            want[Read("Rounds", "standingsOf", (found.id, i, 0, 255))] = {
                "holders": tuple(holder or ZERO_ADDRESS for holder in seated),
                "standings": bytes(standing(found, each, holder) for holder in seated),
            }
    return want


def _dispute(found: Dispute) -> Mapping[str, Any]:
    return {
        "claim": claim_of(found.claim.tokens_hash, found.claim.out_hash), "environment": found.claim.environment,
        "operator": found.claim.operator,
        "challenger": found.challenger.account, "batchId": found.claim.batch_id,
        "paramsVersion": found.claim.params_version, "level": found.round.level, "round": len(found.rounds),
        "reruns": found.reruns,
        "appealed": found.appealed is not Verdict.NONE,
        "refunded": found.verdict is Verdict.REFUNDED, "verdict": found.verdict,
        "appealEnd": found.appeal_end if found.phase is Phase.APPEAL else 0,
        "airgapEnd": found.airgap_end if found.phase in AFTER_VERDICT else 0,
        # What stands where the claim does is known from the claim.
        "key": ZERO_DIGEST if found.verdict is Verdict.UPHELD else found.key,
        "secondKey": found.second_key, "replacement": found.replacement,
    }  # fmt: skip


def _round(found: Dispute, one: Round) -> Mapping[str, Any]:
    # Of a draw that was given up nothing is left.
    is_there = one.drawn or found.phase in (Phase.SEED, Phase.DRAWING)
    return {
        "seedBlock": is_there * one.seed_block, "commitEnd": one.commit_end, "revealEnd": one.reveal_end,
        "seats": is_there * one.seats, "drawn": len(one.holders), "level": is_there * one.level, "rearms": one.rearms,
        "settled": one.settled,
        "committedMask": one.committed, "revealedMask": one.revealed, "certifiedMask": one.certified,
    }  # fmt: skip


def _tally(one: Round) -> Mapping[str, Any]:
    count, spoken = one.count, one.committed | one.revealed
    lead = count.lead_said
    return {
        "equal": count.equal, "lead": count.lead, "unavailable": count.unavailable, "noKey": count.no_key,
        "cannotExecute": count.cannot_execute, "notRevealed": (one.committed & ~one.revealed).bit_count(),
        "absent": one.seats - spoken.bit_count() if one.drawn else 0, "leadKey": lead.key if lead else ZERO_DIGEST,
        "leadOutHash": lead.out_hash if lead else ZERO_DIGEST,
    }  # fmt: skip


def _account(found: Dispute) -> Mapping[str, Any]:
    a = found.account
    return {
        "bond": a.bond, "appealBond": a.appeal_bond, "advanced": a.advanced, "operatorLocked": a.operator_locked,
        "slashed": a.slashed, "penalties": a.penalties, "perSeat": a.per_seat, "toChallenger": a.to_challenger,
        "toAppellant": a.to_appellant, "toOperator": a.to_operator, "toVerifiers": a.to_verifiers, "repaid": a.repaid,
        "burned": a.burned, "appellant": a.appellant or ZERO_ADDRESS, "ended": a.ended, "paid": a.ended,
    }  # fmt: skip


def within(have: Any, want: Any) -> Any:
    """The part of a struct that the model has too."""
    return {name: have[name] for name in want} if isinstance(want, Mapping) else have
