"""What a shard does not start with: each setting, file or chain that cannot be right is named, one at a time."""

import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from bytewise.ports import Quoter
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.units import U256
from bytewise.service.clock import SystemClock
from bytewise.service.listener import listening_socket
from bytewise.service.settings import DatabaseUrl
from bytewise.storage.engine import open_database, write_transaction
from bytewise.storage.tables import ReleaseRow
from bytewise.tee.policy import approve
from cli.demo.site import free_ports
from kms.settings import ShardSettings
from kms.shard.service import build_participant, build_shard, open_channels
from tests.fixtures.kms.dkg_fixture import OneEpoch
from tests.fixtures.kms.governed_policy import GOVERNORS, settings
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.kms.release_network import World


def no_simulator(_platform: Path) -> Quoter:
    """Whatever is refused is refused before it is asked."""
    raise AssertionError("a quoter was made")


def approved(world: World) -> None:
    """The world's policy as a file that governors signed, and a chain whose time is the machine's."""
    world.chain.facts = replace(world.chain.facts, timestamp=SystemClock().now())
    (world.folder / "plain.json").write_bytes(encode(world.policy))
    for governor in GOVERNORS[:2]:
        approve(world.folder / "plain.json", world.folder / "policy.json", governor)


def of_the_simulator(world: World, **changes: Any) -> ShardSettings:
    """Settings of a shard whose evidence is simulated."""
    plain = settings(
        world, evidence=EvidenceType.SIMULATED, platform_file=world.folder / "platform.key", insecure_accept_simulated=True,
        channel_port=free_ports(1)[0],
    )  # fmt: skip
    return replace(plain, **changes)


EVIDENCE: dict[str, tuple[dict[str, Any], int, str]] = {
    "none": ({"evidence": None}, 31337, "evidence: missing: name the kind of evidence"),
    "simulated in production": ({"production": True}, 31337, "evidence: simulated in production"),
    "simulated without the switch": ({"insecure_accept_simulated": False}, 31337, "needs insecure_accept_simulated"),
    "simulated on a real chain": ({}, 1, "simulated on chain 1, which is no test chain"),
    "hardware without endorsements": ({"evidence": EvidenceType.TDX}, 31337, "tdx needs a folder of endorsements"),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_shard_without_attestation_opens_no_channels(world: World, name: str) -> None:
    changes, chain_id, words = EVIDENCE[name]
    with pytest.raises(ConfigurationError, match=words):
        open_channels(of_the_simulator(world, **changes), world.shard(1), chain_id, no_simulator, world.clock)


def test_port_in_use_is_named_and_a_free_one_is_served(fresh: World) -> None:
    given, shard = of_the_simulator(fresh), fresh.shard(1)
    with socket.create_server((given.host, given.channel_port)):
        with pytest.raises(ConfigurationError, match=f"channel_port: {given.host}:{given.channel_port}: Address already in use"):
            open_channels(given, shard, 31337, lambda _: fresh.shard_quoter, fresh.clock)
    open_channels(given, shard, 31337, lambda _: fresh.shard_quoter, fresh.clock).close()


def test_ipv6_address_is_listened_on() -> None:
    try:
        with listening_socket("port", "::1", 0) as found:
            assert found.family == socket.AF_INET6
    except ConfigurationError as error:
        # A machine without IPv6.
        assert re.search("Cannot assign requested address|not supported by protocol", str(error)), error


FINALITY: dict[str, tuple[dict[str, Any], str]] = {
    "another": ({"finality": "safe"}, "finality safe"),
    "none in production": ({"finality": "latest", "production": True}, "finality latest in production"),
    "no governors in production": ({"production": True, "policy_governors": ()}, "no policy_governors in production"),
    "a coordinator that is no account": ({"coordinator": "0x12"}, "coordinator: 0x12 is no account"),
}


@pytest.mark.parametrize("name", FINALITY)
def test_impossible_shard_settings_are_refused(world: World, name: str) -> None:
    changes, words = FINALITY[name]
    with pytest.raises(ConfigurationError, match=words):
        settings(world, **changes)


def test_simulated_epoch_is_served_on_test_chains_only(fresh: World) -> None:
    """Control: the same files on the chain that they are for."""
    approved(fresh)
    real = replace(CONTRACTS, chain_id=U256(1))
    with pytest.raises(ConfigurationError, match="key epoch: simulated on chain 1"):
        build_shard(settings(fresh), real, fresh.chain)
    assert build_shard(settings(fresh), CONTRACTS, fresh.chain).info().index == 1


def test_a_database_of_another_schema_is_named(fresh: World) -> None:
    approved(fresh)
    given = settings(fresh, coordinator=GOVERNORS[0].address)
    empty = replace(given, database_url=DatabaseUrl(f"sqlite:///{fresh.folder / 'empty.sqlite'}"))
    assert build_participant(given, CONTRACTS, OneEpoch()) and build_shard(given, CONTRACTS, fresh.chain)
    with pytest.raises(ConfigurationError, match=r"database: sqlite:.*empty.sqlite has no revision"):
        build_participant(empty, CONTRACTS, OneEpoch())
    with pytest.raises(ConfigurationError, match=r"database: sqlite:.*empty.sqlite has no revision"):
        build_shard(empty, CONTRACTS, fresh.chain)


def test_shard_does_not_start_with_a_tampered_log(fresh: World) -> None:
    """It would sign records that follow what it never signed."""
    approved(fresh)
    case = fresh.disputed()
    fresh.release(build_shard(settings(fresh), CONTRACTS, fresh.chain), case)
    build_shard(settings(fresh), CONTRACTS, fresh.chain)
    with write_transaction(open_database(settings(fresh).database_url)) as connection:
        connection.execute(update(ReleaseRow).values(signature=bytes(65)))
    with pytest.raises(StoreCorrupt, match="release records"):
        build_shard(settings(fresh), CONTRACTS, fresh.chain)
