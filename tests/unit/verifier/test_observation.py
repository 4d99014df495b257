"""What a duty process says about itself: readiness of the account, deadlines of own seats, shards of the key epoch."""

import dataclasses
import math

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Challenger, RegisteredMeasurement, Seat, Snapshot
from bytewise.protocol.jobs import EpochRecord, ShardRecord
from bytewise.protocol.units import U64, ZERO_DIGEST, Address, Blob
from bytewise.service import readiness
from bytewise.service.readiness import ChainHead, Check, ReadinessRegistry
from chain.deployment.params import DEVNET
from tests.fixtures.builders import signer
from tests.fixtures.metric_values import value_of
from tests.fixtures.snapshot_builders import BLOCK, NOW, OTHER, case, holdings, snapshot, word
from tests.fixtures.storage.hand_clock import HandClock
from verifier import observation
from verifier.observation import MEASUREMENT_BLOCKS, WATCHTOWER_GAS, NodeObserver, ShardPresence, required_wei, set_disputes
from verifier.settings import Role

ME = signer("me").address
FEE_WEI = 500 * 10**9
ETHER = 10**18
BUDGET_WEI = ETHER


def epoch(threshold: int = 2, shards: int = 3) -> EpochRecord:
    listed = tuple(ShardRecord(i, OTHER, f"https://127.0.0.1:{i}", f"127.0.0.1:{i}", "", Blob(b"")) for i in range(1, shards + 1))
    return EpochRecord(U64(1), Blob(b""), threshold, listed, "simulated")


class Chain:
    """Parameters of the development network and one key epoch; how often they were read."""

    reads, registered_reads = 0, 0
    registered: RegisteredMeasurement | None = RegisteredMeasurement(word("measurement"), True, 1)

    def params(self, version: int, block: int) -> object:
        return DEVNET

    def epoch(self, number: int, block: int) -> EpochRecord:
        self.reads += 1
        return epoch()

    def registered_measurement(self, who: Address, block: int) -> RegisteredMeasurement | None:
        self.registered_reads += 1
        return self.registered


def observer(role: Role = Role.VERIFIER) -> tuple[NodeObserver, ReadinessRegistry, Chain]:
    registry, chain = ReadinessRegistry(), Chain()
    registry.started()
    head = ChainHead(HandClock(NOW))
    return NodeObserver(registry, head, chain, ME, role, FEE_WEI, BUDGET_WEI), registry, chain  # type: ignore[arg-type]


def failing(registry: ReadinessRegistry) -> dict[str, Check]:
    return {check.name: check for check in registry.checks() if not check.ok and check.name != "key_shards"}


def rich(**changes: object) -> Snapshot:
    me = holdings(balance_wei=ETHER, stake_wei=10 * ETHER)
    return snapshot(me=dataclasses.replace(me, **changes))  # type: ignore[arg-type]


def test_node_with_stake_registration_and_balance_is_ready() -> None:
    node, registry, _ = observer()
    node.observe(rich())
    assert failing(registry) == {}
    assert value_of("bytewise_account_balance_wei") == ETHER and value_of("bytewise_account_stake_wei") == 10 * ETHER
    assert value_of("bytewise_params_version") == rich().params_version
    assert (value_of("bytewise_chain_head_block"), value_of("bytewise_chain_head_timestamp_seconds")) == (BLOCK, NOW + 7)
    assert value_of("bytewise_clock_offset_seconds", source="chain") == 7
    ChainHead(HandClock(NOW), chain_id=31337).note(BLOCK, NOW + 500)
    assert value_of("bytewise_clock_offset_seconds", source="chain") == 7, "a test chain dates its blocks as it is told"


@pytest.mark.parametrize(
    "name, changes, value",
    [
        ("balance", {"balance_wei": ETHER // 4}, "0.25 ETH"),
        ("stake", {"stake_wei": 0}, "0 ETH"),
        ("registration", {"pool": ZERO_DIGEST}, "no pool"),
    ],
)
def test_node_that_lacks_something_says_what(name: str, changes: dict[str, object], value: str) -> None:
    node, registry, _ = observer()
    node.observe(rich(**changes))
    found = failing(registry)
    assert list(found) == [name] and found[name].value == value and ME in found[name].advice


def test_measurement_that_the_network_withdrew_is_no_readiness() -> None:
    """The enclave may be right all the same: weight belongs to the measurement with which the account joined."""
    node, registry, chain = observer()
    chain.registered = RegisteredMeasurement(word("measurement"), False, 1)
    for _ in range(3):
        node.observe(rich())
    found = failing(registry)["registered_measurement"]
    assert "not allowed" in found.value and "register --stake WEI --measurement" in found.advice and chain.registered_reads == 1
    assert value_of("bytewise_registered_measurement_allowed") == 0, "BytewiseVersionUnsupported fires"
    chain.registered = RegisteredMeasurement(word("another"), True, 0)
    node.observe(rich(joined_at=BLOCK))
    assert f"refresh {ME}" in failing(registry)["registered_measurement"].advice, "read again after a registration"
    node.observe(rich(joined_at=BLOCK, stake_wei=0))
    assert list(failing(registry)) == ["stake"], "without the stake it has no weight anyhow"
    chain.registered = RegisteredMeasurement(word("another"), True, 1)
    node.observe(dataclasses.replace(rich(joined_at=BLOCK), number=BLOCK + MEASUREMENT_BLOCKS))
    assert failing(registry) == {} and chain.registered_reads == 3
    assert value_of("bytewise_registered_measurement_allowed") == 1
    chain.registered = None
    node.observe(dataclasses.replace(rich(joined_at=BLOCK), number=BLOCK + 2 * MEASUREMENT_BLOCKS))
    assert math.isnan(value_of("bytewise_registered_measurement_allowed")), "it left its pool"


def test_watchtower_needs_its_bonds_and_no_stake() -> None:
    node, registry, _ = observer(Role.WATCHTOWER)
    seen = dataclasses.replace(rich(stake_wei=0, pool=ZERO_DIGEST), required_bond_wei=3 * ETHER)
    node.observe(seen)
    longest, least = DEVNET.money.demand_bond * DEVNET.shares.max_batch, 3 * ETHER + WATCHTOWER_GAS * FEE_WEI
    required = required_wei(seen, Role.WATCHTOWER, DEVNET, FEE_WEI, BUDGET_WEI)
    assert required == least + longest and longest < BUDGET_WEI
    assert required_wei(seen, Role.WATCHTOWER, DEVNET, FEE_WEI, longest - 1) == least + longest - 1, "no more than its budget"
    assert list(failing(registry)) == ["balance"] and value_of("bytewise_account_required_wei") == required
    assert required_wei(seen, Role.WATCHTOWER, DEVNET, 0, BUDGET_WEI) == 0, "it sends nothing: it observes"


def test_old_head_and_missing_key_epoch_are_no_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "CACHE_S", -1.0)
    node, registry, _ = observer()
    assert failing(registry)["head_age"].value == "no block was read yet"
    node.observe(dataclasses.replace(rich(), timestamp=NOW - 121, active_epoch=0))
    found = failing(registry)
    assert sorted(found) == ["head_age", "key_epoch"] and found["head_age"].value == "121 s"


def test_key_epoch_is_read_once() -> None:
    node, _, chain = observer()
    for _ in range(3):
        node.observe(rich())
    node.observe(dataclasses.replace(rich(), active_epoch=2))
    assert chain.reads == 2 and value_of("bytewise_kms_threshold") == 2


def seat(**changes: object) -> Seat:
    return dataclasses.replace(Seat(ME, 1, ZERO_DIGEST, ZERO_DIGEST), **changes)  # type: ignore[arg-type]


def left(stage: str) -> float:
    return value_of("bytewise_dispute_min_seconds_to_deadline", stage=stage)


def test_next_deadline_of_own_seats_is_shown_until_they_acted() -> None:
    commit = {"phase": Phase.COMMIT, "commit_end": NOW + 40, "reveal_end": NOW + 65}
    set_disputes(snapshot(case(members=(seat(),), **commit), case(members=(seat(),), **commit | {"commit_end": NOW + 9})), ME)
    assert left("commit") == 9 and left("reveal") == math.inf
    assert value_of("bytewise_dispute_stage_seconds", stage="commit") == 60
    reveal = commit | {"phase": Phase.REVEAL, "commit_end": NOW - 1, "reveal_end": NOW + 24}
    set_disputes(snapshot(case(members=(seat(commitment=word("c")),), **reveal)), ME)
    assert left("commit") == math.inf and left("reveal") == 24
    assert value_of("bytewise_dispute_stage_seconds", stage="reveal") == 25
    set_disputes(snapshot(case(members=(seat(group=word("g")),), **reveal)), ME)
    assert left("reveal") == math.inf, "it is revealed"


def test_open_disputes_are_counted_by_our_part() -> None:
    mine, own = case(members=(seat(),)), case(challenger=Challenger(ME, False))
    set_disputes(snapshot(mine, own, own, case()), ME)
    counts = {part: value_of("bytewise_disputes_open", role=part) for part in ("member", "challenger", "observer")}
    assert counts == {"member": 1, "challenger": 2, "observer": 1}


def test_shards_are_counted_and_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, up, now = [], {1, 3}, [0.0]

    def ask(shard: ShardRecord) -> bool:
        asked.append(shard.index)
        return shard.index in up

    presence = ShardPresence(ask, lambda: now[0])
    assert not presence.check().ok, "no epoch was read"
    presence.note(epoch())
    for _ in range(3):
        assert presence.check().ok and value_of("bytewise_kms_shards_ready") == 2
    assert sorted(asked) == [1, 2, 3]
    up.clear()
    now[0] = observation.SHARDS_EVERY_S
    found = presence.check()
    assert not found.ok and (found.value, found.threshold) == ("0 of 3 are ready", "at least 2")


def test_shard_that_is_away_is_not_ready() -> None:
    assert observation.is_ready(epoch().shards[0]) is False
