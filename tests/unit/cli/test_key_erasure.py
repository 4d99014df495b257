"""`bytewise key verify-erasure`: what shards say that they erased, held against a chain; and what it takes of each lie."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.address_book import DealtShares, ShareHolder
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.keys.ceremony import Erasure, SignedErasure, erasure_digest
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64, U256, ZERO_DIGEST, Address, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from chain.acts.epochs import retire_epoch
from chain.deployment.calls import estimated_call
from chain.deployment.deploy import compromise_epoch
from chain.deployment.params import DEVNET
from chain.sending.transactions import send_all
from cli.key import erasure
from kms.ceremony.erasure import SharesToErase, count_statements, erase_shares, judge_statement, shares_to_erase, statement_file
from kms.shard.chain_view import ChainCeremonyView
from kms.storage import keyring
from tests.fixtures.chain.devnet import reader
from tests.fixtures.cli.key_site import CURATOR, KeySite, site
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.kms.release_network import World

__all__ = ["site"]


def erased_at(site: KeySite, index: int) -> Path:
    """Shard `index` erases, as the chain allows it; the file of its word."""
    folder, world = site.world.settings.shards[index - 1].folder, site.world
    view = ChainCeremonyView(reader(site.anvil, site.network))
    said = erase_shares(folder, world.document, site.network.contracts, world.ceremonies(index), view, SystemClock())
    return folder / statement_file(said.statement)


def files(*paths: Path) -> list[str]:
    return [str(path) for path in paths]


@pytest.mark.e2e
def test_retired_key_is_unrecoverable_once_enough_shards_confirm_erasure(site: KeySite) -> None:
    site.next_epoch()
    site.anvil.pass_time(DEVNET.times.key_retention + 1)
    retire_epoch(site.anvil.client, site.network, CURATOR, 1, EpochState.DRAINING)
    first, second = erased_at(site, 1), erased_at(site, 2)
    site.said()
    assert site.kms("verify-erasure", *files(first, first)) == Exit.INCONCLUSIVE
    assert "version 0: 1 of 3 shards say so; 2 must" in (told := site.said()) and "missing are shards 2 0x" in told
    assert site.kms("verify-erasure", *files(first, second)) == Exit.OK
    assert (
        "version 0: 2 of 3 shards say so" in (told := site.said())
        and "out of reach, if they kept their word: the key of epoch 1" in told
    )
    assert "NOT" not in told and "has no share of the epoch since" in told
    forged = site.folder / "forged.json"
    forged.write_bytes(second.read_bytes().replace(b'"erased":1', b'"erased":9'))
    assert site.kms("verify-erasure", *files(first, second, forged), "--output", "json") == Exit.MISMATCH
    state = json.loads(site.said())
    (shares,) = state["versions"]
    assert (state["state"], shares["said"], shares["needed"], state["enough"]) == ("RETIRED", [1, 2], 2, True)
    assert len(shares["missing"]) == 1 and shares["enough"]
    assert [bool(each["invalid"]) for each in state["statements"]] == [False, False, True]
    forged.write_bytes(b"{}")
    assert site.kms("verify-erasure", *files(forged)) == Exit.USAGE
    assert "is no erasure statement (`bytewise shard erase` writes them)" in site.said()


@pytest.mark.e2e
def test_compromised_shares_are_erased_after_their_disputes(site: KeySite) -> None:
    act = estimated_call(site.anvil.client, site.network, CURATOR, compromise_epoch(1))
    send_all(site.anvil.client, [act], 20.0)
    kept = erased_at(site, 1)
    assert kept.name == "erasure-1-v0.json"
    assert site.kms("verify-erasure", *files(kept)) == Exit.INCONCLUSIVE
    assert "keeps its share of the epoch" in site.said()
    site.anvil.pass_time(DEVNET.times.key_retention + 1)
    gone = [erased_at(site, index) for index in (1, 2)]
    assert site.kms("verify-erasure", *files(kept, *gone)) == Exit.OK


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("erased"))


NEW = Blob(b"\x04" + b"\x01" * 64 + b"\x04" + b"\x02" * 64)


def on_chain(world: World, state: EpochState = EpochState.ACTIVE, version: int = 1) -> EpochOnChain:
    """2 of 3 with other shares than were dealt, if the version is not the first."""
    record = world.document.record
    joined = Blob(b"".join(world.document.commitments)) if version == 0 else NEW
    holders = tuple(each.address for each in record.shards)
    return EpochOnChain(state, record.public_key, joined, holders, record.threshold, version, ZERO_DIGEST)


def signer_of(world: World, index: int) -> LocalSigner:
    return keyring.open_account(world.settings.shards[index - 1].folder)


def said(world: World, index: int, **changes: object) -> SignedErasure:
    """What the shard says of the refresh, or something else."""
    plain = Erasure(CONTRACTS.chain_id, CONTRACTS.key_epochs, U64(1), 1, keccak256(NEW), 1, U64(7))
    statement, signer = replace(plain, **changes), signer_of(world, index)  # type: ignore[arg-type]
    return SignedErasure(statement, signer.address, signer.sign(erasure_digest(statement)))


def dealt(world: World, version: int, holders: Sequence[Address] = (), threshold: int = 2) -> DealtShares:
    """A version as the chain tells it; of the three shards, if nobody else is named."""
    own = [each.address for each in world.document.record.shards]
    return DealtShares(U64(1), version, U64(version), threshold, tuple(ShareHolder(each, "", "") for each in holders or own))


def before(world: World, found: EpochOnChain) -> SharesToErase:
    """The shares of before the first refresh."""
    (wanted,) = shares_to_erase(CONTRACTS, 1, found, (dealt(world, 0), dealt(world, 1)))
    return wanted


def counted(wanted: SharesToErase, *signed: SignedErasure) -> list[int]:
    return sorted(count_statements([judge_statement(each, wanted) for each in signed], wanted))


def test_erasure_statement_counts_for_the_share_version_in_force(world: World) -> None:
    wanted = before(world, on_chain(world))
    assert counted(wanted, said(world, 1), said(world, 3), said(world, 3)) == [1, 3] and wanted.needed == 2
    assert counted(wanted, said(world, 2, kept=ZERO_DIGEST)) == [2], "who has none has no old one"
    for wrong in ({"version": 0}, {"version": 2}, {"kept": Digest(b"\x01" * 32)}):
        judged = judge_statement(said(world, 1, **wrong), wanted)
        assert judged.irrelevant and not judged.invalid and counted(wanted, said(world, 1, **wrong)) == []


@pytest.mark.parametrize("changes", [{"chain_id": U256(1)}, {"key_epochs": CONTRACTS.anchor}])
def test_erasure_statement_of_another_network_does_not_count(world: World, changes: dict[str, object]) -> None:
    wanted = before(world, on_chain(world))
    assert "is about chain" in judge_statement(said(world, 1, **changes), wanted).invalid
    assert counted(wanted, said(world, 1, **changes)) == []


def test_erasure_statement_by_another_signer_or_outsider_does_not_count(world: World) -> None:
    wanted = before(world, on_chain(world))
    borrowed = replace(said(world, 1), shard=signer_of(world, 2).address)
    assert "did not sign it" in judge_statement(borrowed, wanted).invalid
    stranger = LocalSigner(b"\x51" * 32)
    signed = SignedErasure(said(world, 1).statement, stranger.address, stranger.sign(erasure_digest(said(world, 1).statement)))
    assert judge_statement(signed, wanted).irrelevant == "held none of these shares" and counted(wanted, borrowed, signed) == []


@pytest.mark.parametrize("state", [EpochState.RETIRED, EpochState.COMPROMISED])
def test_at_the_end_of_an_epoch_only_shards_without_shares_count(world: World, state: EpochState) -> None:
    for wanted in shares_to_erase(CONTRACTS, 1, on_chain(world, state), (dealt(world, 0), dealt(world, 1))):
        assert counted(wanted, said(world, 1), said(world, 2, kept=ZERO_DIGEST)) == [2]


def test_shares_in_force_may_be_kept_while_a_dispute_needs_them(world: World) -> None:
    """A compromised epoch serves open disputes: a shard keeps its share in force, and says that it erased those before."""
    compromised, both = on_chain(world, EpochState.COMPROMISED), (dealt(world, 0), dealt(world, 1))
    earlier, newest = shares_to_erase(CONTRACTS, 1, compromised, both, disputable=True)
    statements = said(world, 1), said(world, 2, kept=ZERO_DIGEST)
    assert counted(earlier, *statements) == [1, 2] and counted(newest, *statements) == [2]
    assert counted(earlier, said(world, 1, kept=Digest(b"\x01" * 32))) == []


def test_former_holders_confirm_erasure_under_their_own_threshold(world: World) -> None:
    """The key moved to one of the three and to another, then to others with a higher threshold."""
    other = [LocalSigner(bytes([each]) * 32) for each in (81, 82, 83)]
    moved = dealt(world, 1, [signer_of(world, 1).address, CURATOR.address], 2)
    now = replace(on_chain(world), version=2, threshold=3)
    newest = dealt(world, 2, [each.address for each in other], 3)
    first, second = shares_to_erase(CONTRACTS, 1, now, (dealt(world, 0), moved, newest))
    assert (first.needed, len(first.holders), second.needed, len(second.holders)) == (2, 3, 1, 2)
    plain = said(world, 1, version=2).statement
    strangers = [SignedErasure(plain, each.address, each.sign(erasure_digest(plain))) for each in other]
    assert counted(first, *strangers) == counted(second, *strangers) == [], "they never had these shares"
    words = said(world, 1, version=2, kept=ZERO_DIGEST), said(world, 3, version=2, kept=ZERO_DIGEST)
    assert counted(first, *words) == [1, 3] and counted(second, *words) == [1]


def test_erasure_statements_without_the_old_holders_are_not_enough(world: World) -> None:
    """What is told of them has no date that no calendar has, and names who has to say it."""
    plain = said(world, 1, at=U64(2**50)).statement
    new = [LocalSigner(bytes([each]) * 32) for each in (81, 82, 83)]
    words = [SignedErasure(plain, each.address, each.sign(erasure_digest(plain))) for each in new]
    (wanted,) = shares_to_erase(CONTRACTS, 1, on_chain(world), (dealt(world, 0), dealt(world, 1, [each.address for each in new])))
    counts = count_statements([judge_statement(each, wanted) for each in words], wanted)
    told = "\n".join(erasure._summary([wanted], [counts]))
    assert "version 0: 0 of 3 shards say so; 2 must" in told and f"missing are shards 1 {signer_of(world, 1).address}" in told
    assert "\nNOT out of reach: the shares of epoch 1 before those in force" in told
    far = erasure.statement_line(Path("x"), judge_statement(said(world, 1, at=U64(2**50)), wanted))
    assert f"since {2**50} s; 1 files erased" in far


def test_uncountable_statement_is_a_usage_error(world: World) -> None:
    with pytest.raises(ConfigurationError, match="the chain has none"):
        shares_to_erase(CONTRACTS, 1, on_chain(world, EpochState.NONE), ())
    with pytest.raises(ConfigurationError, match="none was to be erased"):
        shares_to_erase(CONTRACTS, 1, on_chain(world, version=0), (dealt(world, 0),))
    for shown in ((), (dealt(world, 1),), (dealt(world, 0),)):
        with pytest.raises(TryAgain, match="of 2 versions of the shares of key epoch 1 the node shows"):
            shares_to_erase(CONTRACTS, 1, on_chain(world), shown)
