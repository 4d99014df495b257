"""Rules that no altered file reaches, because the proofs of the state fail first: on other facts, and on a real chain's state."""

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ChainReverted, TooEarly, TryAgain
from bytewise.protocol.records.receipt import Mode, SignedReceipt, receipt_id
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import U8, U64, ZERO_DIGEST, Blob
from chain.capsule.attachments import ProvenVote, proven_votes, quotes_stating
from chain.capsule.facts import Facts, Tally
from chain.capsule.header import header_of
from chain.capsule.maker import AnchoredReceipt, Enclosed, disputed_member, gather, make_capsule
from chain.capsule.report import CapsuleReport, Failure, Group, Result, Stop
from chain.capsule.schema import Capsule
from chain.capsule.verification import Trust, verify_capsule
from chain.capsule.votes import SeatsVote, verdict_by_rule, votes_of
from tests.fixtures.capsule.good_capsules import anchored, made_capsule, member_of, upheld
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import OPERATORS, receipt, word
from tests.fixtures.court.session import DisputeFixture


def verified(kind: str) -> tuple[Capsule, Facts, list[SeatsVote]]:
    """A good capsule, its facts, and its votes."""
    made = made_capsule(kind)
    report = verify_capsule(made.data, made.trust)
    assert report.capsule is not None and report.facts is not None
    return report.capsule, report.facts, votes_of(report.facts, report.capsule.claim.dispute, report.capsule.rounds)


def with_case(facts: Facts, **changes: Any) -> Facts:
    """Facts with another dispute."""
    return facts._replace(case=facts.case._replace(**changes))


def with_round(facts: Facts, number: int, **changes: Any) -> Facts:
    """Facts with another round."""
    rounds = tuple(each._replace(**changes) if each.number == number else each for each in facts.rounds)
    return facts._replace(rounds=rounds)


RULES: dict[str, tuple[str, Failure, Callable[[Facts], Facts]]] = {
    "another verdict in the state": ("upheld", Failure.VERDICT_RULE, lambda f: with_case(f, verdict=Verdict.OVERTURNED)),
    "a verdict that was mixed": ("unavailable", Failure.VERDICT_RULE, lambda f: with_case(f, is_mixed=True)),
    "a verdict that was not mixed": ("mixed", Failure.VERDICT_RULE, lambda f: with_case(f, is_mixed=False)),
    "decided in a divided round": ("escalated", Failure.VERDICT_RULE, lambda f: with_case(f, decided_in=1)),
    "decided in no round": ("escalated", Failure.VERDICT_RULE, lambda f: with_case(f, decided_in=0)),
    "a draw against a quorum": ("upheld", Failure.VERDICT_RULE, lambda f: with_case(f, verdict=Verdict.DRAW, decided_in=0)),
    "a higher quorum": ("upheld", Failure.VERDICT_RULE, lambda f: with_round(f, 1, quorum=16)),
    "a lower quorum in the divided round": ("escalated", Failure.VERDICT_RULE, lambda f: with_round(f, 1, quorum=6)),
    "another count": ("upheld", Failure.VERDICT_TALLY, lambda f: with_round(f, 1, tally=Tally(15, 0, 0, 0, 0))),
    "another leading answer": (
        "escalated", Failure.VERDICT_TALLY, lambda f: with_round(f, 2, lead=(Outcome.EXECUTED, 0, word("other"))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_verdict_that_votes_do_not_give_is_refused(name: str) -> None:
    kind, failure, change = RULES[name]
    capsule, facts, said = verified(kind)
    verdict_by_rule(facts, said, capsule.receipt)
    with pytest.raises(Stop) as stop:
        verdict_by_rule(change(facts), said, capsule.receipt)
    assert stop.value.failure is failure


def test_true_out_hash_beside_altered_tokens_is_not_upheld() -> None:
    capsule, facts, said = verified("upheld")
    lie = dataclasses.replace(capsule.receipt, tokens_hash=word("other tokens"))
    with pytest.raises(Stop) as stop:
        verdict_by_rule(facts, said, lie)
    assert stop.value.failure is Failure.VERDICT_TALLY


def test_an_appealed_verdict_may_precede_the_one_that_stands() -> None:
    capsule, facts, said = verified("escalated")
    tally = facts.rounds[0].tally
    lower = with_round(facts, 1, quorum=8)
    with pytest.raises(Stop):
        verdict_by_rule(lower, said, capsule.receipt)
    appealed = Verdict.UPHELD if tally.equal > tally.lead else Verdict.OVERTURNED
    verdict_by_rule(with_case(lower, appealed=appealed), said, capsule.receipt)


def test_event_of_another_vote_or_quote_is_refused() -> None:
    made = made_capsule("upheld")
    report = verify_capsule(made.data, made.trust)
    capsule, facts, said = verified("upheld")
    assert report.attested is False and facts.rounds
    header = header_of(capsule.header)
    assert header is not None
    earlier = [header_of(each) for each in capsule.log_headers]
    proven = proven_votes(capsule, header, {each.number: each.hash for each in earlier if each is not None})
    assert quotes_stating(capsule, said, proven) == 0
    first = proven[0]
    for wrong in (
        ProvenVote(first.vote, Blob(b"another quote")),
        ProvenVote(dataclasses.replace(first.vote, quote_hash=ZERO_DIGEST), first.quote),
        ProvenVote(dataclasses.replace(first.vote, tokens_hash=word("other")), first.quote),
    ):
        with pytest.raises(Stop) as stop:
            quotes_stating(capsule, said, [wrong])
        assert stop.value.failure is Failure.QUOTE_HASH


def reported(court: DisputeFixture, member: AnchoredReceipt, enclosed: Enclosed | None = None) -> CapsuleReport:
    """The report on whatever the node gives, without the maker's own verification."""
    capsule = gather(court.anvil.client, court.network, member, enclosed or Enclosed(), "latest")
    return verify_capsule(encode(capsule), Trust(frozenset({capsule.deployment.digest}), capsule.claim.block_hash))


def first_failure(report: CapsuleReport) -> str | None:
    """Its name."""
    found = report.first_failure
    return None if found is None or found.failure is None else found.failure.value


def test_states_of_a_running_and_of_other_receipts_are_refused(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    member, domain = member_of(court, 0), court.network.anchor_domain
    assert first_failure(reported(court, member)) is None
    operator = OPERATORS[0]

    def signed(**changes: Any) -> AnchoredReceipt:
        other = dataclasses.replace(member.receipt, **changes)
        return AnchoredReceipt(other, operator.sign(receipt_id(domain, other)), 0, member.proof)

    assert first_failure(reported(court, signed(seq=U64(9)))) == "batch.sequence"
    assert first_failure(reported(court, signed(model_id=word("another model")))) == "batch.header"
    assert first_failure(reported(court, signed(req_hash=word("another request")))) == "batch.membership"
    with pytest.raises(TooEarly, match="batch 7"):
        gather(anvil.client, court.network, member._replace(batch_id=7), Enclosed(), "latest")
    with pytest.raises(TryAgain, match=r"batch\.sequence"):
        make_capsule(anvil.client, court.network, signed(seq=U64(9)), Enclosed(), "latest")
    court.open(0, word("guess"))
    assert first_failure(reported(court, member)) == "verdict.notFinal"
    with pytest.raises(TooEarly, match="end of the dispute"):
        make_capsule(anvil.client, court.network, member, Enclosed(), "latest")
    assert disputed_member(anvil.client, court.network, court.dispute) == member
    with pytest.raises(TryAgain, match="lacks the event that opened dispute"):
        disputed_member(anvil.client, court.network, word("no dispute"))


def test_receipt_with_modes_that_are_never_final_is_refused(anvil: Anvil, tmp_path: Path) -> None:
    """A batch is posted without its receipts, so such a receipt can be anchored and outlive its window."""
    court, now = DisputeFixture(anvil, tmp_path), anvil.client.head().timestamp
    lies: list[dict[str, Any]] = [
        {}, {"mode": U8(Mode.TEE)}, {"enclave_key": OPERATORS[0].address}, {"client_mode": U8(0)}, {"client_mode": U8(3)},
    ]  # fmt: skip
    plain = [receipt(OPERATORS[0], 4 + number, now) for number in range(len(lies))]
    members = anchored(court, [dataclasses.replace(each, **lie) for each, lie in zip(plain, lies, strict=True)])
    anvil.pass_time(10_000)
    found = [first_failure(reported(court, member)) for member in members]
    assert found == [None, *["receipt.mode"] * 4]
    for member, failure in zip(members, found, strict=True):
        signed = SignedReceipt(member.receipt, member.signature, "")
        with nullcontext() if failure is None else pytest.raises(ChainReverted, match=r"UnsupportedMode|UnknownClientMode"):
            court.reader.verify_final(signed, member.batch_id, member.proof, court.reader.head())


def test_capsule_of_a_finalized_block(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    # The newest finalized block is older than the state with which this chain began.
    with pytest.raises(TryAgain, match="no proof of the block's state"):
        make_capsule(anvil.client, court.network, member_of(court, 0), Enclosed(), "finalized")
    anvil.mine(70)
    data = make_capsule(anvil.client, court.network, member_of(court, 0), Enclosed(), "finalized")
    assert verify_capsule(data).first_failure is None


def test_every_group_is_reached_on_a_real_dispute(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path, commit_time=300, reveal_time=300, rerun_time=900, window=600)
    member, enclosed = upheld(court)
    report = reported(court, member, enclosed)
    assert court.case().phase is Phase.FINAL and report.result is Result.PASS
    assert [each.group for each in report.checks if each.result is Result.PASS] == [
        each for each in Group if each not in (Group.OPENING, Group.QUOTES, Group.RELEASES, Group.JOURNALS)
    ]
