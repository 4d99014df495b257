"""A court for tests: parameters, accounts, claims and votes, the same for the model alone and for the model beside a chain."""

from bytewise.protocol import digests
from bytewise.protocol.court.params import Committee, Money, ParamSet, Shares, Times
from bytewise.protocol.court.state import Claim, Dispute
from bytewise.protocol.digests import Label
from bytewise.protocol.records.statements import Outcome, Vote
from bytewise.protocol.units import U8, U16, U256, ZERO_DIGEST, Address, Digest

HONEST, FORGED, OTHER = "honest", "forged", "other"
"""Results that a seat may have computed: the claim, the one that convicts, and one of its own."""

SPEECHES: tuple[tuple[Outcome, int, str], ...] = (
    (Outcome.EXECUTED, 0, HONEST),
    (Outcome.EXECUTED, 0, FORGED),
    (Outcome.EXECUTED, 0, OTHER),
    (Outcome.INVALID, 4, ""),
    (Outcome.INVALID, 7, ""),
    (Outcome.UNAVAILABLE, 0, ""),
    (Outcome.NO_KEY, 0, ""),
    (Outcome.CANNOT_EXECUTE, 1, ""),
)
"""What a vote may say: outcome, code, result."""


def word(*parts: object) -> Digest:
    """An arbitrary digest."""
    return digests.labelled(Label.KEY_DERIVATION, b"court", *(str(part).encode() for part in parts))


def account(name: object) -> Address:
    """An arbitrary account."""
    return Address("0x" + word("account", name)[:20].hex())


def params(seats: tuple[int, int, int] = (3, 5, 7), rounds: int = 3) -> ParamSet:
    """Parameters under which each phase takes a few seconds and money is small enough to run out."""
    return ParamSet(
        Times(
            window=100, max_anchor_delay=10, cure=1, seed_time=20, draw_time=20, commit_time=12, reveal_time=9, appeal_time=7,
            rerun_time=130, airgap=5, max_pause=30, execution_bound=6, unbond_delay=2000, da_retention=9000, da_margin=10,
            key_retention=2000, withdraw_delay=60, breaker_time=300,
        ),
        Committee(seats, rounds, 2, 2, 2, 3, 3, 5000),
        Money(
            fee_per_seat=11, privacy_price=17, slash_amount=1000, absent_penalty=3, no_reveal_penalty=5, wrong_penalty=13,
            min_operator_stake=1000, min_verifier_stake=100, receipt_collateral=1, withheld_penalty=1, unanchored_penalty=1000,
            demand_bond=1, audit_unit=1, bounty=1,
        ),
        Shares(3000, 4000, 5000, 9000, 5, 64),
    )  # fmt: skip


def lies(number: int) -> bool:
    """Whether the operator of a receipt altered the tokens and kept the out_hash."""
    return number % 3 == 2


def claim(number: int, operator: Address, environment: Digest, window_end: int) -> Claim:
    """A receipt whose result is `HONEST`; every third has the true out_hash beside other tokens."""
    truth = word(number, HONEST, "tokens")
    out = digests.out_hash(truth, word(number, HONEST, "trace"))
    return Claim(
        word("receipt", number), word("altered") if lies(number) else truth, out, environment, operator, number, 1, window_end
    )


def vote(found: Dispute, voter: Address, speech: tuple[Outcome, int, str], lazy: bool = False) -> Vote:
    """What a member says in the current round; a lazy one knows the result and has not held every leaf."""
    outcome, code, result = speech
    number = found.claim.batch_id
    ran = outcome is Outcome.EXECUTED
    return Vote(
        dispute=found.id, round=U16(len(found.rounds)), voter=voter, seat_mask=U256(found.round.mask(voter)),
        outcome=U8(outcome), code=U8(code), tokens_hash=word(number, result, "tokens") if ran else ZERO_DIGEST,
        trace_root=word(number, result, "trace") if ran else ZERO_DIGEST,
        round_digest=word("round", found.id, len(found.rounds), lazy) if ran else ZERO_DIGEST,
        quote_hash=ZERO_DIGEST, salt=word("salt", voter, found.id, len(found.rounds)),
    )  # fmt: skip
