"""The policy of a shard: from a governor's signature to what the shard accepts at its start, and after it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.appraisal import AppraisalPolicy, Coverage, GpuUse, PlatformKind, SignedPolicy, TrustedMeasurement
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors import ConfigurationError, MeasurementRefused, PolicyRefused
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.succession import ADDITION_DELAY_S, Standing
from bytewise.protocol.units import U64, Digest
from bytewise.service.clock import ForwardClock, SystemClock
from bytewise.service.settings import child_environment
from kms.approve import approve, changes
from kms.keyring import POLICY_HISTORY
from kms.release import Shard
from kms.serve import build_shard
from kms.settings import ShardSettings
from tests.unit.kms.memory_chain import CONTRACTS
from tests.unit.kms.world import World

ROOT = Path(__file__).resolve().parents[3]
GOVERNORS = [LocalSigner(bytes([n]) * 32) for n in (91, 92, 93)]


def settings(world: World, **changes: object) -> ShardSettings:
    world.records(1)
    folder = world.settings.shards[0].folder
    plain = ShardSettings(
        host="127.0.0.1", port=1, folder=folder, epoch_file=world.folder / "epoch.json",
        policy_file=world.folder / "policy.json", network_file=Path("unused"),
        database_url=f"sqlite:///{folder / 'kms.sqlite'}", channel_port=2, audits_per_epoch=9, production=False, rpc_url="http://127.0.0.1:1",
        policy_governors=tuple(each.address for each in GOVERNORS), policy_threshold=2,
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def start(world: World, policy: AppraisalPolicy, signers: int = 2) -> Shard:
    """A shard that starts on a policy which so many governors approved."""
    plain, signed = world.folder / "plain.json", world.folder / "policy.json"
    plain.write_bytes(encode(policy))
    signed.unlink(missing_ok=True)
    for governor in GOVERNORS[:signers]:
        approve(plain, signed, governor)
    return build_shard(settings(world), CONTRACTS, world.chain)


def another_program(number: int) -> TrustedMeasurement:
    digest = Digest(bytes([number]) * 32)
    return TrustedMeasurement(PlatformKind.SIMULATED, digest, (Coverage.PROGRAM,), "a program", GpuUse.NONE)


def test_a_shard_serves_under_an_approved_policy_and_no_older_one(fresh: World) -> None:
    case = fresh.case()
    fresh.chain.open(case)
    assert fresh.release(start(fresh, fresh.policy), case).record.index == 0
    newer = replace(fresh.policy, serial=U64(2), measurements=(*fresh.policy.measurements, another_program(9)))
    start(fresh, newer)
    for policy, signers in ((fresh.policy, 3), (replace(newer, serial=U64(3)), 1), (newer, 0)):
        with pytest.raises((PolicyRefused, ConfigurationError)):
            start(fresh, policy, signers)


def test_a_program_that_was_just_added_gets_no_key_and_one_that_was_removed_none_any_more(fresh: World) -> None:
    """The enclave's own program is the addition: it has to wait. Then it is removed: refused at once."""
    case = fresh.case()
    fresh.chain.open(case)
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


def test_a_clock_that_is_behind_the_chain_shortens_no_wait(fresh: World) -> None:
    history = fresh.settings.shards[0].folder / POLICY_HISTORY
    newer = replace(fresh.policy, serial=U64(2), measurements=(*fresh.policy.measurements, another_program(9)))
    ahead = SystemClock().now() + 4 * 86_400
    fresh.chain.facts = replace(fresh.chain.facts, timestamp=ahead)
    for policy in (fresh.policy, newer):
        start(fresh, policy)
    (added,) = decode(Standing, history.read_bytes()).pending
    assert added.counts_from == ahead + ADDITION_DELAY_S


def test_production_has_governors(fresh: World) -> None:
    with pytest.raises(ConfigurationError, match="policy_governors"):
        settings(fresh, production=True, policy_governors=(), policy_threshold=0)
    assert settings(fresh, production=True).policy_threshold == 2


def test_a_governor_signs_once_and_only_what_the_others_signed(fresh: World, tmp_path: Path) -> None:
    plain, signed = tmp_path / "plain.json", tmp_path / "signed.json"
    plain.write_bytes(encode(fresh.policy))
    approve(plain, signed, GOVERNORS[0])
    assert len(approve(plain, signed, GOVERNORS[0]).signatures) == 1
    assert len(approve(plain, signed, GOVERNORS[1]).signatures) == 2
    plain.write_bytes(encode(replace(fresh.policy, serial=U64(2))))
    with pytest.raises(ConfigurationError, match="another policy"):
        approve(plain, signed, GOVERNORS[2])
    plain.write_bytes(b"{}")
    with pytest.raises(ConfigurationError, match=r"plain\.json"):
        approve(plain, tmp_path / "new.json", GOVERNORS[2])


def test_what_a_policy_changes_is_said_before_it_is_signed(fresh: World) -> None:
    own, other = fresh.policy.measurements[0], another_program(9)
    newer = replace(fresh.policy, serial=U64(2), measurements=(other, *fresh.policy.measurements[1:]))
    lines = changes(fresh.policy, newer)
    assert [line.split(":")[0] for line in lines] == ["waits", "ends at once"]
    assert other.measurement.hex() in lines[0] and own.measurement.hex() in lines[1]
    worded = replace(
        fresh.policy, serial=U64(2), measurements=(replace(own, statement="in other words"), *fresh.policy.measurements[1:])
    )
    assert [line.split(":")[0] for line in changes(fresh.policy, worded)] == ["counts at once", "ends at once"]
    with pytest.raises(PolicyRefused):
        changes(newer, fresh.policy)


@pytest.mark.e2e
def test_the_command_approves(fresh: World, tmp_path: Path) -> None:
    (tmp_path / "plain.json").write_bytes(encode(fresh.policy))
    key = tmp_path / "governor.key"
    key.write_text("0x" + "5b" * 32)
    key.chmod(0o600)
    config = tmp_path / "approve.toml"
    config.write_text('policy_file = "plain.json"\nkey_file = "governor.key"\nout_file = "signed.json"\n')
    command = [sys.executable, "-m", "kms", "approve", "--config", str(config)]
    ended = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0 and b"kms.policy_approved" in ended.stderr + ended.stdout and b"5b5b" not in ended.stderr
    assert decode(SignedPolicy, (tmp_path / "signed.json").read_bytes()).policy == fresh.policy


class Steps:
    """Gives one time after the other."""

    def __init__(self, *times: int) -> None:
        self._times = list(times)

    def now(self) -> int:
        return self._times.pop(0)


def test_attack_7_a_clock_that_is_set_back_revives_nothing() -> None:
    """Control: the bare clock does go back."""
    times = (100, 105, 50, 104, 106)
    clock, bare = ForwardClock(Steps(*times)), Steps(*times)
    assert [clock.now() for _ in times] == [100, 105, 105, 105, 106]
    assert [bare.now() for _ in times] == list(times)


def test_a_clock_that_was_ahead_once_stays_there_and_says_so() -> None:
    """Evidence of now has expired by then, until the shard starts again: its operator must find that in the log."""
    told: list[int] = []
    clock = ForwardClock(Steps(100, 9_000, 105, 110, 8_950, 120), told.append)
    assert [clock.now() for _ in range(6)] == [100, 9_000, 9_000, 9_000, 9_000, 9_000]
    assert told == [8_895, 8_880]
