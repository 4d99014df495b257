"""`peers.json` names registered members whose account and peer key signed for each other, and nobody else."""

import dataclasses
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bytewise.protocol.decisions.snapshot import Holdings
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, SignerAway
from bytewise.protocol.signing import LocalSigner, Preimage
from bytewise.protocol.units import U64, Address, Blob, Digest, hex0x
from bytewise.service.readiness import ReadinessRegistry
from gossip.peers import possession_of, read_peers
from tests.fixtures.builders import DISPUTES
from tests.fixtures.builders import signer as signer_of
from tests.fixtures.metric_values import value_of
from tests.fixtures.snapshot_builders import holdings, snapshot
from tests.fixtures.storage.special_files import SPECIAL_FILES
from tests.fixtures.verifier.verifier_fixture import ME, NETWORK, VerifierFixture
from verifier.gossip import (
    RENEW_AGAIN_S,
    VALID_S,
    WARN_S,
    IdentityFile,
    PeersWriter,
    identities_check,
    read_identities,
    write_identity,
)
from verifier.settings import GossipSettings

OPERATOR = signer_of("another member")
NOW = 1_800_000_000


def peer_key(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def settings(folder: Path, who: LocalSigner, number: int = 1) -> GossipSettings:
    key = peer_key(number)
    return GossipSettings(
        "unix:/g.sock", None, folder / "peers.json", folder / "ids", hex0x(key.public_key().public_bytes_raw()),
        hex0x(key.sign(possession_of(who.address))), ("/ip4/127.0.0.1/tcp/1",),
    )  # fmt: skip


def introduced(folder: Path, who: LocalSigner, number: int = 1, now: int = NOW) -> IdentityFile:
    write_identity(folder / "ids", DISPUTES, who, settings(folder, who, number), now)
    return decode(IdentityFile, (folder / "ids" / f"{who.address}.json").read_bytes())


def test_identity_that_both_keys_signed_is_read(tmp_path: Path) -> None:
    assert read_identities(tmp_path / "ids", DISPUTES) == []
    found = introduced(tmp_path, ME)
    assert read_identities(tmp_path / "ids", DISPUTES) == [found] and found.identity.not_after == NOW + VALID_S


def test_altered_identity_is_refused(tmp_path: Path) -> None:
    good = introduced(tmp_path, ME)
    other = peer_key(2).public_key().public_bytes_raw()
    said = good.identity
    for bad in (
        dataclasses.replace(good, identity=dataclasses.replace(said, peer_key=Digest(other))),
        dataclasses.replace(good, identity=dataclasses.replace(said, who=OPERATOR.address)),
        dataclasses.replace(good, identity=dataclasses.replace(said, not_after=U64(2**40))),
        dataclasses.replace(good, possession=Blob(peer_key(2).sign(possession_of(ME.address)))),
        dataclasses.replace(good, possession=Blob(peer_key(1).sign(possession_of(OPERATOR.address)))),
    ):
        (tmp_path / "ids" / f"{ME.address}.json").write_bytes(encode(bad))
        assert read_identities(tmp_path / "ids", DISPUTES) == []
    for junk in (b"", b"{}", b"x" * 5000):
        (tmp_path / "ids" / f"{ME.address}.json").write_bytes(junk)
        assert read_identities(tmp_path / "ids", DISPUTES) == []


@pytest.mark.parametrize("special", SPECIAL_FILES)
def test_special_file_among_identities_is_refused_and_delays_nothing(
    tmp_path: Path, special: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = introduced(tmp_path, ME)
    SPECIAL_FILES[special](tmp_path / "ids" / "0.json")
    assert read_identities(tmp_path / "ids", DISPUTES) == [found]
    assert '"event":"gossip.identity_refused","file":"0.json"' in capfd.readouterr().err


def test_account_cannot_claim_the_peer_key_of_another(tmp_path: Path) -> None:
    mine = introduced(tmp_path, ME)
    claim = dataclasses.replace(introduced(tmp_path, OPERATOR, 2), possession=mine.possession)
    stolen = dataclasses.replace(claim, identity=dataclasses.replace(claim.identity, peer_key=mine.identity.peer_key))
    (tmp_path / "ids" / f"{OPERATOR.address}.json").write_bytes(encode(stolen))
    assert [each.identity.who for each in read_identities(tmp_path / "ids", DISPUTES)] == [ME.address]


class Pools:
    """A chain on which these accounts are in a pool."""

    def __init__(self, *members: Address) -> None:
        self.members = members

    def holdings(self, who: Address, block: int) -> Holdings:
        return holdings(pool=Digest((b"p" if who in self.members else b"\0") * 32))


def test_peers_are_members_with_a_pool_and_disputes_name_their_seats(setup: VerifierFixture, tmp_path: Path) -> None:
    introduced(tmp_path, OPERATOR, 2)
    signed = setup.signed(1)
    setup.anchor(signed)
    setup.records.step(setup.chain.now())
    writer = PeersWriter(Pools(ME.address), NETWORK, ME, settings(tmp_path, ME), setup.archive, ReadinessRegistry())
    open_case = setup.dispute(signed)
    tower = signer_of("tower")
    named = dataclasses.replace(settings(tmp_path, ME), watchtowers=(tower.address,))
    introduced(tmp_path, tower, 3)
    with_tower = PeersWriter(Pools(ME.address), NETWORK, ME, named, setup.archive, ReadinessRegistry())
    with_tower.step(snapshot(open_case, timestamp=NOW))
    assert {each.account for each in read_peers(tmp_path / "peers.json").peers} == {ME.address, tower.address}
    writer.step(snapshot(open_case, timestamp=NOW))
    written = read_peers(tmp_path / "peers.json")
    assert [each.account for each in written.peers] == [ME.address]
    assert written.disputes == {hex0x(open_case.id): (ME.address,)}
    assert written.envelopes == {hex0x(signed.receipt.envelope_hash): (ME.address,)}


class LeavingSigner:
    """A remote signer that may be away."""

    address, is_away = ME.address, False

    def sign_preimage(self, preimage: Preimage) -> Blob:
        if self.is_away:
            raise SignerAway("signer", "no answer")
        return ME.sign_preimage(preimage)


def test_seats_are_written_while_the_identity_cannot_be_renewed(
    setup: VerifierFixture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remote = LeavingSigner()
    open_case = setup.dispute(setup.signed(1))
    writer = PeersWriter(Pools(ME.address), NETWORK, remote, settings(tmp_path, ME), setup.archive, ReadinessRegistry())
    writer.step(snapshot(timestamp=NOW))
    remote.is_away = True
    writer.step(snapshot(open_case, timestamp=NOW + VALID_S // 2))
    assert read_peers(tmp_path / "peers.json").disputes == {hex0x(open_case.id): (ME.address,)}
    assert "gossip.identity_not_written" in capsys.readouterr().err
    remote.is_away = False
    writer.step(snapshot(open_case, timestamp=NOW + VALID_S // 2 + RENEW_AGAIN_S))
    assert "gossip.identity_written" in capsys.readouterr().err


def test_check_fails_weeks_before_an_identity_expires(
    setup: VerifierFixture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readiness = ReadinessRegistry()
    introduced(tmp_path, OPERATOR, 2)
    pools = Pools(ME.address, OPERATOR.address)
    writer = PeersWriter(pools, NETWORK, ME, settings(tmp_path, ME), setup.archive, readiness)
    assert identities_check((), NOW).ok
    for number, left, peers, ok in (
        (100, VALID_S, 2, True),
        (200, WARN_S, 2, True),
        (300, WARN_S - 1, 2, False),
        (400, -1, 1, False),
    ):
        writer.step(snapshot(number=number, timestamp=NOW + VALID_S - left))
        (check,) = (each for each in readiness.checks() if each.name == "gossip_identities")
        assert check.ok is ok and (ok or OPERATOR.address in check.value)
        assert len(read_peers(tmp_path / "peers.json").peers) == peers
        assert value_of("bytewise_gossip_registered_peers") == peers - 1, "without this account"
    printed = capsys.readouterr().err
    assert printed.count("gossip.identity_written") == 2, "the own identity is renewed while the process runs"
    assert printed.count("check.failed") == 1
    introduced(tmp_path, OPERATOR, 2, NOW + VALID_S)
    writer.step(snapshot(number=500, timestamp=NOW + VALID_S))
    assert next(each for each in readiness.checks() if each.name == "gossip_identities").ok
    introduced(tmp_path, OPERATOR, 2)
    pools.members = (ME.address,)
    writer.step(snapshot(number=600, timestamp=NOW + VALID_S + 9))
    assert next(each for each in readiness.checks() if each.name == "gossip_identities").ok, "it left its pool"


@pytest.mark.parametrize("process", ["", "unix:", "unix:g.sock", "tcp:1", "on"])
def test_gossip_is_off_or_a_socket(process: str) -> None:
    with pytest.raises(ConfigurationError, match=r"gossip\.process"):
        GossipSettings(process)
    assert GossipSettings().socket is None
    with pytest.raises(ConfigurationError, match="peer_key"):
        GossipSettings("unix:/g.sock")
