"""How long what is out of date is accepted: by the date of its level, for as long as the rule says, in policies old and new."""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.evidence import TcbRefused
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import MAX_OUT_OF_DATE_GRACE_S, AppraisalPolicy, TcbStatus, policy_digest
from bytewise.protocol.evidence.policy_updates import ADDITION_DELAY_S, first_policy_state, is_narrower, update_policy
from bytewise.tee_simulated.quoter import LEVEL_AGE_S, SimulatedStatus
from tests.fixtures.tee.body_changes import EVERY, OLD
from tests.fixtures.tee.policy_update_cases import FIRST, NOW, RULE, after, at
from tests.fixtures.tee.simulated_platform import Bench

DAY_S = 86_400


def outdated_module(level_age_s: int, bench: Bench) -> Mapping[str, object]:
    """TCB info in which the module that the bench's domain runs is out of date, and its platform is not."""
    dated = datetime.datetime.fromtimestamp(bench.now - level_age_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    level = {"tcb": {"isvsvn": 2}, "tcbDate": dated, "tcbStatus": "OutOfDate"}
    zeros = {"mrsigner": "00" * 48, "attributes": "00" * 8, "attributesMask": "FF" * 8}
    return {"tdxModuleIdentities": [{"id": "TDX_01", **zeros, "tcbLevels": [level]}]}


AGED: dict[str, Callable[[Bench, int], bytes]] = {
    "the platform": lambda bench, age: bench.signed(bench.body, SimulatedStatus(status=OLD[0], level_age_s=age)),
    "the platform's configuration, too": lambda bench, age: bench.signed(
        bench.body, SimulatedStatus(status=OLD[1], level_age_s=age)
    ),
    "the quoting enclave": lambda bench, age: bench.signed(bench.body, SimulatedStatus(qe_status=OLD[0], level_age_s=age)),
    "the module": lambda bench, age: bench.signed(
        replace(bench.body, tee_tcb_svn=b"\2\1".ljust(16, b"\0")),
        SimulatedStatus(tcb_info=outdated_module(age, bench), level_age_s=age),
    ),
}


@pytest.mark.parametrize("name", AGED)
@pytest.mark.parametrize("age", [1, LEVEL_AGE_S, 600 * DAY_S])
def test_outdated_status_is_accepted_for_the_grace_of_the_rule(bench: Bench, name: str, age: int) -> None:
    """By the date of the level, which is older than the collateral, and than our clock."""
    data, now = AGED[name](bench, age), bench.now + 7

    def under(grace_s: int | None) -> TcbStatus:
        return bench.appraise(data, bench.with_rule(statuses=EVERY, out_of_date_grace_s=grace_s), now).claims.status

    assert under(age + 7) in OLD and under(MAX_OUT_OF_DATE_GRACE_S) in OLD
    for grace_s in (age + 6, None):
        with pytest.raises(TcbRefused, match=f"too old: .*out_of_date_grace_s of the rule is {grace_s or 0}"):
            under(grace_s)
    with pytest.raises(TcbRefused, match="OutOfDate"):
        bench.appraise(data, now=now)


def test_up_to_date_level_may_be_of_any_age(bench: Bench) -> None:
    data = bench.signed(bench.body, SimulatedStatus(level_age_s=10 * 365 * DAY_S))
    assert bench.appraise(data).claims.status is TcbStatus.UP_TO_DATE


@pytest.mark.parametrize("grace_s", [0, -1, MAX_OUT_OF_DATE_GRACE_S + 1])
def test_zero_or_endless_grace_is_a_wrong_rule(bench: Bench, grace_s: int) -> None:
    with pytest.raises(ConfigurationError, match="out_of_date_grace_s"):
        bench.with_rule(statuses=EVERY, out_of_date_grace_s=grace_s)
    for end in (1, MAX_OUT_OF_DATE_GRACE_S):
        assert bench.with_rule(statuses=EVERY, out_of_date_grace_s=end)


def test_grace_for_a_refused_status_is_a_wrong_rule(bench: Bench) -> None:
    fine = tuple(each for each in EVERY if each not in OLD)
    with pytest.raises(ConfigurationError, match="out_of_date_grace_s"):
        bench.with_rule(statuses=fine, out_of_date_grace_s=DAY_S)
    for old in OLD:
        assert bench.with_rule(statuses=(old,), out_of_date_grace_s=DAY_S)


def test_policy_without_the_grace_keeps_its_bytes_digest_and_meaning(bench: Bench) -> None:
    """It accepted nothing that is out of date, whatever it listed, and goes on so; the member is left out, or says a number."""
    before = bench.with_rule(statuses=EVERY)
    document = encode(before)
    assert b"grace" not in document and decode(AppraisalPolicy, document) == before
    assert policy_digest(document) == before.digest
    with pytest.raises(TcbRefused, match="out_of_date_grace_s of the rule is 0"):
        bench.appraise(bench.signed(bench.body, SimulatedStatus(status=OLD[0])), decode(AppraisalPolicy, document))
    graced = bench.with_rule(statuses=EVERY, out_of_date_grace_s=DAY_S)
    assert decode(AppraisalPolicy, encode(graced)) == graced and graced.digest != before.digest
    with pytest.raises(MalformedValue, match="null"):
        decode(AppraisalPolicy, encode(graced).replace(b'"out_of_date_grace_s":86400', b'"out_of_date_grace_s":null'))


def test_longer_grace_for_outdated_status_waits_and_a_shorter_one_counts() -> None:
    old = replace(RULE, statuses=(*RULE.statuses, TcbStatus.OUT_OF_DATE))
    graces = (None, 1, 1000, MAX_OUT_OF_DATE_GRACE_S)
    for mine in graces:
        for theirs in graces:
            rules = [replace(old, out_of_date_grace_s=each) for each in (mine, theirs)]
            assert is_narrower(rules[0], rules[1]) == ((mine or 0) <= (theirs or 0))
    short, long = (replace(old, out_of_date_grace_s=each) for each in (1000, 1001))
    before = replace(FIRST, rules=(short,))
    standing = update_policy(first_policy_state(before), after(rules=(short, long)), at(NOW))
    assert standing.at(NOW).rules == (short,) and standing.at(NOW + ADDITION_DELAY_S).rules == (short, long)
    assert update_policy(first_policy_state(replace(FIRST, rules=(long,))), after(rules=(short,)), at(NOW)).at(NOW).rules == (
        short,
    )
