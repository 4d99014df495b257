"""How policies follow each other: signatures, serials, delays; what a shard without its history forgets (attacks 8, 28)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.evidence import PolicyRefused
from bytewise.protocol.evidence.appraisal_policy import (
    AppraisalPolicy,
    Coverage,
    EvidenceType,
    GpuUse,
    MeasurementRole,
    PlatformKind,
    SignedPolicy,
    TcbStatus,
    approval_digest,
)
from bytewise.protocol.evidence.policy_updates import (
    ADDITION_DELAY_S,
    PolicyState,
    first_policy_state,
    is_narrower,
    update_policy,
    verify_approval,
)
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64, U256, Address, Blob
from bytewise.tee.policy import load_policy_state
from tests.fixtures.tee.policy_update_cases import FIRST, NOW, RULE, after, at, program

GOVERNORS = [LocalSigner(bytes([n]) * 32) for n in range(1, 6)]
ADDRESSES: list[Address] = [each.address for each in GOVERNORS]
STRANGER = LocalSigner(b"\x77" * 32)


def signed(policy: AppraisalPolicy, signers: list[LocalSigner]) -> SignedPolicy:
    return SignedPolicy(policy, tuple(each.sign(approval_digest(policy)) for each in signers))


# --- approval ---


def test_threshold_of_governors_approves(tmp_path: Path) -> None:
    for chosen in (GOVERNORS[:3], GOVERNORS[2:], GOVERNORS):
        assert verify_approval(signed(FIRST, chosen), ADDRESSES, 3) == FIRST


def test_too_few_foreign_or_repeated_signatures_do_not_approve() -> None:
    for chosen in ([], GOVERNORS[:2], [GOVERNORS[0]] * 3, [*GOVERNORS[:3], STRANGER], [*GOVERNORS, GOVERNORS[0]]):
        with pytest.raises(PolicyRefused):
            verify_approval(signed(FIRST, chosen), ADDRESSES, 3)
    # Control: where two suffice, or anybody is a governor, the same signatures approve it.
    assert verify_approval(signed(FIRST, GOVERNORS[:2]), ADDRESSES, 2) == FIRST
    assert verify_approval(signed(FIRST, [*GOVERNORS[:3], STRANGER]), [*ADDRESSES, STRANGER.address], 3) == FIRST


def test_signatures_over_another_policy_or_its_bare_digest_do_not_approve() -> None:
    other = signed(replace(FIRST, serial=U64(6)), GOVERNORS).signatures
    bare = tuple(each.sign(FIRST.digest) for each in GOVERNORS)
    garbage = (Blob(b""), Blob(b"x" * 65), Blob(bytes(65)))
    for signatures in (other, bare, garbage):
        with pytest.raises(PolicyRefused):
            verify_approval(SignedPolicy(FIRST, signatures), ADDRESSES, 3)


@pytest.mark.parametrize("threshold", [0, -1, 6])
def test_impossible_threshold_is_a_wrong_setting(threshold: int) -> None:
    with pytest.raises(ConfigurationError):
        verify_approval(signed(FIRST, GOVERNORS), ADDRESSES, threshold)


# --- succession ---


def test_attack_8_older_policy_is_not_accepted_again() -> None:
    standing = update_policy(first_policy_state(FIRST), after(measurements=(program(1),)), at(NOW))
    for serial in (0, 4, 5, 6):
        with pytest.raises(PolicyRefused, match="was accepted before"):
            update_policy(standing, replace(FIRST, serial=U64(serial)), at(NOW))
    assert update_policy(standing, standing.policy, at(NOW + 1)) == standing


def test_removal_counts_at_once_and_an_addition_after_the_delay() -> None:
    standing = update_policy(first_policy_state(FIRST), after(measurements=(program(2), program(3))), at(NOW))
    assert standing.at(NOW).measurements == (program(2),)
    assert standing.at(NOW + ADDITION_DELAY_S - 1).measurements == (program(2),)
    assert standing.at(NOW + ADDITION_DELAY_S).measurements == (program(2), program(3))


def test_attack_28_addition_by_governors_waits_for_public_review() -> None:
    """Control: without the delay the colluders' program would count at once."""
    hostile = after(measurements=(program(9),))
    with pytest.raises(PolicyRefused, match="has to wait"):
        update_policy(first_policy_state(FIRST), hostile, at(NOW)).at(NOW)
    assert update_policy(first_policy_state(FIRST), hostile, at(NOW), delay_s=0).at(NOW).measurements == (program(9),)


def test_announcing_an_addition_again_does_not_change_its_delay() -> None:
    standing = update_policy(first_policy_state(FIRST), after(measurements=(program(1), program(3))), at(NOW))
    again = replace(standing.policy, serial=U64(7))
    later = update_policy(standing, again, at(NOW + 1000))
    assert later.at(NOW + ADDITION_DELAY_S).measurements == (program(1), program(3))
    with pytest.raises(PolicyRefused):
        replace(later, policy=replace(again, measurements=(program(3),))).at(NOW + ADDITION_DELAY_S - 1)


def test_withdrawn_addition_waits_again_when_it_returns() -> None:
    standing = update_policy(first_policy_state(FIRST), after(measurements=(program(1), program(3))), at(NOW))
    standing = update_policy(standing, after(serial=U64(7), measurements=(program(1),)), at(NOW + 10))
    standing = update_policy(standing, after(serial=U64(8), measurements=(program(1), program(3))), at(NOW + 20))
    assert standing.at(NOW + ADDITION_DELAY_S + 19).measurements == (program(1),)
    assert standing.at(NOW + ADDITION_DELAY_S + 20).measurements == (program(1), program(3))


WIDER: dict[str, dict[str, object]] = {
    "another root": {"root": Blob(b"other")},
    "one more status": {"statuses": (TcbStatus.UP_TO_DATE, TcbStatus.SW_HARDENING_NEEDED, TcbStatus.OUT_OF_DATE)},
    "one advisory less": {"refused_advisories": ()},
    "an older evaluation": {"min_evaluation": 16},
    "an older age": {"max_age_s": 1001},
}
NARROWER: dict[str, dict[str, object]] = {
    "one status less": {"statuses": (TcbStatus.UP_TO_DATE,)},
    "one advisory more": {"refused_advisories": ("INTEL-SA-00001", "INTEL-SA-00002")},
    "a newer evaluation": {"min_evaluation": 18},
    "a shorter age": {"max_age_s": 999},
    "no threads that share": {"smt": False},
    "no processors added": {"dynamic_platform": False},
    "no cached keys": {"cached_keys": False},
    "a list of platforms": {"platforms": (Blob(b"\x01" * 16),)},
}


@pytest.mark.parametrize("name", NARROWER)
def test_a_tighter_rule_counts_at_once_and_its_loosening_waits(name: str) -> None:
    tight = replace(RULE, **NARROWER[name])  # type: ignore[arg-type]
    standing = update_policy(first_policy_state(FIRST), after(rules=(tight,)), at(NOW))
    assert standing.at(NOW).rules == (tight,)
    back = update_policy(standing, after(serial=U64(7), rules=(tight, RULE)), at(NOW))
    assert back.at(NOW).rules == (tight,) and back.at(NOW + ADDITION_DELAY_S).rules == (tight, RULE)


@pytest.mark.parametrize("name", WIDER)
def test_wider_rule_waits_for_the_delay(name: str) -> None:
    wide = replace(RULE, **WIDER[name])  # type: ignore[arg-type]
    standing = update_policy(first_policy_state(FIRST), after(rules=(RULE, wide)), at(NOW))
    assert standing.at(NOW).rules == (RULE,) and standing.at(NOW + ADDITION_DELAY_S).rules == (RULE, wide)


def test_accepted_rule_is_used_before_an_added_one() -> None:
    """Else evidence that satisfies both would be taken for an addition's, which the chain may not let count yet."""
    wide = replace(RULE, refused_advisories=())
    standing = update_policy(first_policy_state(FIRST), after(rules=(wide, RULE)), at(NOW))
    assert standing.policy.rules == (wide, RULE) and standing.at(NOW + ADDITION_DELAY_S).rules == (RULE, wide)


def test_longer_platform_list_waits_and_an_empty_one_is_the_longest() -> None:
    one, two = (replace(RULE, platforms=tuple(Blob(bytes([n]) * 16) for n in range(1, size + 1))) for size in (1, 2))
    assert is_narrower(one, two) and is_narrower(two, RULE) and not is_narrower(two, one) and not is_narrower(RULE, two)


def test_dropping_the_revocation_list_demand_waits() -> None:
    plain = replace(RULE, type=EvidenceType.SNP, statuses=(TcbStatus.UP_TO_DATE,), min_evaluation=0, min_tcb=Blob(bytes(8)))
    asked, never = plain, replace(plain, max_age_s=0)
    assert is_narrower(asked, never) and not is_narrower(never, asked) and is_narrower(never, never)


def test_program_trusted_in_another_role_waits() -> None:
    shard = replace(program(1), role=MeasurementRole.KEY_SHARD)
    standing = update_policy(first_policy_state(FIRST), after(measurements=(program(2), shard)), at(NOW))
    assert standing.at(NOW).measurements == (program(2),)
    assert standing.at(NOW + ADDITION_DELAY_S).measurements == (program(2), shard)


def test_dropping_the_demand_for_gpu_evidence_waits() -> None:
    first = replace(FIRST, measurements=(program(1, GpuUse.ATTESTED), program(2)))
    standing = update_policy(first_policy_state(first), after(measurements=(program(1), program(2))), at(NOW))
    assert standing.at(NOW).measurements == (program(2),)


CANNOT_WAIT: dict[str, Callable[[], AppraisalPolicy]] = {
    "another chain": lambda: after(chain_ids=(U256(1), U256(2))),
    "simulated evidence": lambda: AppraisalPolicy(
        U64(6), (U256(1337),), (replace(RULE, type=EvidenceType.SIMULATED),),
        (replace(program(1), platform=PlatformKind.SIMULATED, covers=(Coverage.PROGRAM,)),), True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CANNOT_WAIT)
def test_change_that_no_delay_permits_is_refused(name: str) -> None:
    first = replace(FIRST, chain_ids=(U256(1), U256(1337))) if name == "simulated evidence" else FIRST
    with pytest.raises(PolicyRefused):
        update_policy(first_policy_state(first), CANNOT_WAIT[name](), at(NOW))


@given(st.lists(st.tuples(st.sets(st.integers(1, 6), min_size=1), st.integers(0, 2 * ADDITION_DELAY_S)), min_size=1, max_size=6))
@settings(deadline=None, max_examples=60)
def test_no_program_counts_before_its_whole_announcement_delay(steps: list[tuple[set[int], int]]) -> None:
    """Whatever sequence of policies and pauses: a program counts only if it was in the first, or in every one for the delay."""
    standing, now, since = first_policy_state(FIRST), NOW, {1: NOW - ADDITION_DELAY_S, 2: NOW - ADDITION_DELAY_S}
    for number, (programs, pause) in enumerate(steps):
        now += pause
        policy = after(serial=U64(6 + number), measurements=tuple(program(n) for n in sorted(programs)))
        standing = update_policy(standing, policy, at(now))
        since = {n: since.get(n, now) for n in programs}
        allowed = {program(n).measurement for n in programs if now - since[n] >= ADDITION_DELAY_S}
        if allowed:
            assert {each.measurement for each in standing.at(now).measurements} == allowed
        else:
            with pytest.raises(PolicyRefused):
                standing.at(now)


# --- files ---


def test_shard_remembers_accepted_policies_across_restarts(tmp_path: Path) -> None:
    path, history = tmp_path / "policy.json", tmp_path / "history.json"

    def start(policy: AppraisalPolicy, now: int = NOW, signers: int = 3) -> AppraisalPolicy:
        path.write_bytes(encode(signed(policy, GOVERNORS[:signers])))
        return load_policy_state(path, history, ADDRESSES, 3, 1, True, at(now)).at(now)

    assert start(FIRST) == FIRST
    newer = after(measurements=(program(1), program(3)))
    assert start(newer).measurements == (program(1),)
    for policy, signers in ((FIRST, 3), (replace(newer, serial=U64(7)), 2)):
        with pytest.raises(PolicyRefused):
            start(policy, signers=signers)
    assert start(newer, NOW + ADDITION_DELAY_S).measurements == (program(1), program(3))
    history.unlink()
    # Control: without its history the older policy is accepted.
    assert start(FIRST) == FIRST
    history.write_bytes(b"{}")
    with pytest.raises(ConfigurationError, match="history"):
        start(FIRST)


def test_clocks_set_back_a_little_between_two_starts_shorten_no_wait(tmp_path: Path) -> None:
    path, history = tmp_path / "policy.json", tmp_path / "history.json"

    def start(policy: AppraisalPolicy, now: int) -> PolicyState:
        path.write_bytes(encode(signed(policy, GOVERNORS)))
        return load_policy_state(path, history, ADDRESSES, 3, 1, True, at(now))

    start(FIRST, NOW)
    newer = after(measurements=(program(1), program(3)))
    standing = start(newer, NOW - 1800)
    assert standing.at(NOW + ADDITION_DELAY_S - 1).measurements == (program(1),)
    assert standing.at(NOW + ADDITION_DELAY_S).measurements == (program(1), program(3))
    assert start(newer, NOW - 10).seen == NOW and start(newer, NOW + 10).seen == NOW + 10
    # What was kept by an earlier build says nothing of clocks.
    history.write_bytes(encode(replace(standing, seen=None)))
    assert start(newer, NOW - 10).seen == NOW - 10


def test_an_unsigned_policy_or_one_for_another_chain_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    for data, chain_id in ((encode(FIRST), 1), (b"", 1), (encode(signed(FIRST, GOVERNORS)), 2)):
        path.write_bytes(data)
        with pytest.raises(ConfigurationError):
            load_policy_state(path, tmp_path / "history.json", ADDRESSES, 3, chain_id, True, at(NOW))
    assert not (tmp_path / "history.json").exists()
