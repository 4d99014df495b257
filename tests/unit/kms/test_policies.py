"""The policy of a shard: from a governor's signature to what the shard accepts at its start, and after it."""

import contextlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.evidence import MeasurementRefused, PolicyRefused
from bytewise.protocol.evidence.appraisal_policy import (
    AppraisalPolicy,
    Coverage,
    GpuUse,
    PlatformKind,
    SignedPolicy,
    TcbStatus,
    TrustedMeasurement,
)
from bytewise.protocol.evidence.policy_updates import ADDITION_DELAY_S, MAX_CLOCK_DIFFERENCE_S, PolicyState
from bytewise.protocol.keys.epochs import Decision
from bytewise.protocol.units import U64, Digest, hex0x
from bytewise.service.clock import ForwardClock, SystemClock
from bytewise.service.settings import child_environment
from bytewise.tee.policy import approve, policy_changes
from kms.storage.keyring import POLICY_HISTORY
from tests.fixtures.kms.governed_policy import GOVERNORS, settings, start
from tests.fixtures.kms.release_network import World

ROOT = Path(__file__).resolve().parents[3]


class Steps:
    """Gives one time after the other, and the last for ever."""

    def __init__(self, *times: int) -> None:
        self._times = list(times)

    def now(self) -> int:
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]

    def set(self, now: int) -> None:
        self._times = [now]


def another_program(number: int) -> TrustedMeasurement:
    digest = Digest(bytes([number]) * 32)
    return TrustedMeasurement(PlatformKind.SIMULATED, digest, (Coverage.PROGRAM,), "a program", GpuUse.NONE)


def test_shard_serves_under_an_approved_policy_and_under_no_older_one(fresh: World) -> None:
    case = fresh.disputed()
    assert fresh.release(start(fresh, fresh.policy), case).record.index == 0
    newer = replace(fresh.policy, serial=U64(2), measurements=(*fresh.policy.measurements, another_program(9)))
    start(fresh, newer)
    for policy, signers in ((fresh.policy, 3), (replace(newer, serial=U64(3)), 1), (newer, 0)):
        with pytest.raises((PolicyRefused, ConfigurationError)):
            start(fresh, policy, signers)


def test_just_added_program_gets_no_key_and_removed_program_none_any_more(fresh: World) -> None:
    """The enclave's own program is the addition: it has to wait. Then it is removed: refused at once."""
    case = fresh.disputed()
    own = fresh.policy.measurements[0]
    start(fresh, replace(fresh.policy, measurements=(another_program(9),)))
    fresh.policy = replace(fresh.policy, serial=U64(2), measurements=(another_program(9), own))
    fresh.chain.facts = replace(fresh.chain.facts, policy=fresh.policy.digest)
    with pytest.raises(MeasurementRefused):
        fresh.release(start(fresh, fresh.policy), case)
    # Control: a shard without that history lets it count at once.
    history = fresh.settings.shards[0].folder / POLICY_HISTORY
    history.unlink()
    assert fresh.release(start(fresh, fresh.policy), case).record.index == 0
    fresh.policy = replace(fresh.policy, serial=U64(3), measurements=(another_program(9),))
    fresh.chain.facts = replace(fresh.chain.facts, policy=fresh.policy.digest)
    with pytest.raises(MeasurementRefused):
        fresh.release(start(fresh, fresh.policy), case)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """The machine's clock, as the start of a shard reads it; set by the test."""
    steps = Steps(SystemClock().now())
    monkeypatch.setattr("kms.shard.service.SystemClock", lambda: steps)
    return steps


def added(world: World) -> tuple[AppraisalPolicy, AppraisalPolicy]:
    """Two policies after the world's, of serials 2 and 3, with a program more."""
    second = replace(world.policy, serial=U64(2), measurements=(*world.policy.measurements, another_program(9)))
    return second, replace(second, serial=U64(3))


def counts(world: World, now: int) -> bool:
    """Whether the program that was added counts at this second, by what the shard remembers."""
    history = decode(PolicyState, (world.settings.shards[0].folder / POLICY_HISTORY).read_bytes())
    return another_program(9) in history.at(now).measurements


def test_one_fast_clock_ends_no_wait_extends_none_and_is_not_remembered(fresh: World, clock: Steps) -> None:
    now, history = clock.now(), fresh.settings.shards[0].folder / POLICY_HISTORY
    second, third = added(fresh)
    start(fresh, fresh.policy, at=now)
    start(fresh, second, at=now)
    before = history.read_bytes()
    for ahead in (MAX_CLOCK_DIFFERENCE_S + 1, ADDITION_DELAY_S, 3_650 * 86_400, 2**63, 2**64 - 1):
        wrong = min(now + ahead, 2**64 - 1)
        for own, chain, policy in ((wrong, now, second), (wrong, now, third), (now, wrong, second), (now, wrong, third)):
            clock.set(own)
            with pytest.raises(ConfigurationError, match="set the clock right"):
                start(fresh, policy, at=chain)
            assert history.read_bytes() == before
    clock.set(now + 120)
    start(fresh, third, at=now + 120)
    assert not counts(fresh, now + ADDITION_DELAY_S - 1) and counts(fresh, now + ADDITION_DELAY_S)


def test_wait_that_both_clocks_call_over_is_over(fresh: World, clock: Steps) -> None:
    """The control of the above: the same three starts, with both clocks three days later. Then what is added waits anew."""
    now = clock.now()
    second, third = added(fresh)
    start(fresh, fresh.policy, at=now)
    start(fresh, second, at=now)
    clock.set(now + ADDITION_DELAY_S)
    start(fresh, third, at=now + ADDITION_DELAY_S)
    assert counts(fresh, now + ADDITION_DELAY_S)


@pytest.mark.parametrize(("own", "chain"), [(MAX_CLOCK_DIFFERENCE_S, 0), (0, MAX_CLOCK_DIFFERENCE_S), (900, 0), (0, 0)])
def test_a_wait_begins_by_the_later_clock_and_ends_by_the_earlier(fresh: World, clock: Steps, own: int, chain: int) -> None:
    """An hour apart is honest: the newest final block is some quarter of an hour old."""
    now, later = clock.now(), max(own, chain)
    second, third = added(fresh)
    start(fresh, fresh.policy, at=now)
    clock.set(now + own)
    start(fresh, second, at=now + chain)
    assert not counts(fresh, now + later + ADDITION_DELAY_S - 1) and counts(fresh, now + later + ADDITION_DELAY_S)
    # One of them says that the wait is over, the other that it is not: what is announced again goes on waiting.
    over = now + later + ADDITION_DELAY_S - min(own, chain) - 1
    clock.set(over + own)
    start(fresh, third, at=over + chain)
    assert counts(fresh, now + later + ADDITION_DELAY_S) and not counts(fresh, now + later + ADDITION_DELAY_S - 1)


def test_node_that_lacks_recent_blocks_is_waited_for(fresh: World, clock: Steps) -> None:
    for behind in (MAX_CLOCK_DIFFERENCE_S + 1, 30 * 86_400, 10**9):
        with pytest.raises(ConfigurationError, match="wait until the node has all blocks"):
            start(fresh, fresh.policy, at=clock.now() - behind)
        assert not (fresh.settings.shards[0].folder / POLICY_HISTORY).exists()
    start(fresh, fresh.policy, at=clock.now())


def test_clocks_that_were_both_set_back_since_the_last_start_are_refused(fresh: World, clock: Steps) -> None:
    now = clock.now()
    start(fresh, fresh.policy, at=now)
    clock.set(now - MAX_CLOCK_DIFFERENCE_S)
    start(fresh, fresh.policy, at=now - MAX_CLOCK_DIFFERENCE_S)
    clock.set(now - MAX_CLOCK_DIFFERENCE_S - 1)
    with pytest.raises(ConfigurationError, match=f"{POLICY_HISTORY}.*restore"):
        start(fresh, fresh.policy, at=now - MAX_CLOCK_DIFFERENCE_S - 1)


def test_a_clock_that_jumps_ahead_under_a_running_shard_ends_no_wait(fresh: World, clock: Steps) -> None:
    """Its channel then takes the program for one that counts; the chain's time says otherwise, until it does not."""
    case, own = fresh.disputed(), fresh.policy.measurements[0]
    start(fresh, replace(fresh.policy, measurements=(another_program(9),)))
    fresh.policy = replace(fresh.policy, serial=U64(2), measurements=(another_program(9), own))
    shard = start(fresh, fresh.policy)
    fresh.chain.facts = replace(fresh.chain.facts, policy=fresh.policy.digest)
    peer = replace(fresh.peer(fresh.shard(1)), hello=replace(fresh.peer(fresh.shard(1)).hello, policy=fresh.policy.digest))
    counts_from = shard.terms().standing.pending[0].counts_from
    clock.set(counts_from)
    for ahead, given in ((-1, False), (0, True)):
        fresh.chain.facts = replace(fresh.chain.facts, timestamp=counts_from + ahead)
        with contextlib.nullcontext() if given else pytest.raises(TryAgain, match="does not count yet"):
            shard.release(encode(fresh.request(case)), peer)
    assert [each.record.decision for each in shard.log(0).entries] == [Decision.RELEASED]


def test_production_policy_needs_governors(fresh: World) -> None:
    with pytest.raises(ConfigurationError, match="policy_governors"):
        settings(fresh, production=True, policy_governors=(), policy_threshold=0)
    assert settings(fresh, production=True).policy_threshold == 2


def test_governor_signs_once_and_only_the_policy_the_others_signed(fresh: World, tmp_path: Path) -> None:
    plain, signed = tmp_path / "plain.json", tmp_path / "signed.json"
    plain.write_bytes(encode(fresh.policy))
    approve(plain, signed, GOVERNORS[0])
    assert len(approve(plain, signed, GOVERNORS[0]).signatures) == 1
    assert len(approve(plain, signed, GOVERNORS[1]).signatures) == 2
    plain.write_bytes(encode(replace(fresh.policy, serial=U64(2))))
    with pytest.raises(ConfigurationError, match="another policy"):
        approve(plain, signed, GOVERNORS[2])


def test_policy_changes_are_shown_before_signing(fresh: World) -> None:
    own, other = fresh.policy.measurements[0], another_program(9)
    newer = replace(fresh.policy, serial=U64(2), measurements=(other, *fresh.policy.measurements[1:]))
    lines = policy_changes(fresh.policy, newer)
    assert [line.split(":")[0] for line in lines] == ["waits", "ends at once"]
    assert other.measurement.hex() in lines[0] and own.measurement.hex() in lines[1]
    worded = replace(
        fresh.policy, serial=U64(2), measurements=(replace(own, statement="in other words"), *fresh.policy.measurements[1:])
    )
    assert [line.split(":")[0] for line in policy_changes(fresh.policy, worded)] == ["counts at once", "ends at once"]
    with pytest.raises(PolicyRefused):
        policy_changes(newer, fresh.policy)
    wide = replace(fresh.policy.rules[0], statuses=(TcbStatus.UP_TO_DATE, TcbStatus.OUT_OF_DATE))
    for rule, grace_s in ((wide, 0), (replace(wide, out_of_date_grace_s=86_400), 86_400)):
        (added, _) = policy_changes(fresh.policy, replace(fresh.policy, serial=U64(2), rules=(rule,)))
        assert added.startswith("waits") and added.endswith(f": UpToDate, OutOfDate; out-of-date levels for {grace_s} s")


@pytest.mark.e2e
def test_command_approves_a_policy(fresh: World, tmp_path: Path) -> None:
    (tmp_path / "plain.json").write_bytes(encode(fresh.policy))
    key = tmp_path / "governor.key"
    key.write_text("0x" + "5b" * 32)
    key.chmod(0o600)
    config = tmp_path / "approve.toml"
    config.write_text('policy_file = "plain.json"\nkey_file = "governor.key"\nout_file = "signed.json"\n')
    command = [sys.executable, "-m", "kms", "approve", "--config", str(config)]
    ended = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0 and b"policy.approved" in ended.stderr and b"5b5b" not in ended.stderr
    assert ended.stdout.decode().strip() == hex0x(fresh.policy.digest)
    assert decode(SignedPolicy, (tmp_path / "signed.json").read_bytes()).policy == fresh.policy


def test_clock_that_was_once_ahead_is_kept_and_reported() -> None:
    """Evidence of now has expired by then, until the shard starts again: its operator must find that in the log."""
    told: list[int] = []
    clock = ForwardClock(Steps(100, 9_000, 105, 110, 8_950, 120), told.append)
    assert [clock.now() for _ in range(6)] == [100, 9_000, 9_000, 9_000, 9_000, 9_000]
    assert told == [8_895, 8_880]


def test_missing_policy_file_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"policy\.json: No such file"):
        approve(tmp_path / "policy.json", tmp_path / "signed.json", GOVERNORS[0])
    (tmp_path / "policy.json").write_bytes(b"{}")
    with pytest.raises(ConfigurationError, match=r"policy\.json"):
        approve(tmp_path / "policy.json", tmp_path / "signed.json", GOVERNORS[0])
    assert [each.name for each in tmp_path.iterdir()] == ["policy.json"]
