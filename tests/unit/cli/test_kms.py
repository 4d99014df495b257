"""`bytewise key list`, `rotate`, `retire`, `backup` and `restore` on a chain with shards beside it, which may have, or be told
of, other shares than the chain means."""

import json
import re
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
import uvicorn
from eth_account import Account
from rich.console import Console

from bytewise.crypto import hpke
from bytewise.protocol import digests
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError, ShardRefused, TryAgain
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState, ShardInfo
from bytewise.protocol.suites import SUITE_P256, hybrid_epoch
from bytewise.protocol.units import U64, ZERO_DIGEST, Blob, Digest, hex0x
from bytewise.service.exit_codes import Exit
from bytewise.service.secret import write_secret
from chain.acts.epochs import CeremonySignatures, open_epoch, reshare_epoch
from chain.client.address_book import read_network, write_network
from chain.deployment.calls import ContractCall, estimated_call
from chain.deployment.params import DEVNET
from chain.sending.keys import save_signer
from cli.__main__ import main
from cli.demo.site import free_ports
from cli.key import status
from cli.key.ceremony import public_facts
from kms.ceremony.coordinator import read_plan
from kms.ceremony.state import CeremonyPhase
from kms.shard import release, share_rotation
from kms.shard.api import build_app
from kms.shard.http_limits import server_config
from kms.shard.share_rotation import with_verification_keys
from kms.storage import keyring
from kms.storage.files import write_whole
from tests.fixtures.chain.devnet import reader, signer
from tests.fixtures.cli.key_site import CURATOR, KeySite, dealt_again, signatures, site
from tests.fixtures.kms import dealt_again as renewal
from tests.fixtures.kms.ceremonies import COORDINATOR, CeremonyParties, party, plan_for
from tests.fixtures.kms.dkg_fixture import CHANNEL, ceremony_shards
from tests.fixtures.kms.memory_chain import NOW, VOTER
from tests.fixtures.kms.release_network import wait_until
from tests.fixtures.kms.served_ceremony import serving
from verifier.wiring import FollowingReader

__all__ = ["site"]


@contextmanager
def waiting(site: KeySite) -> Iterator[None]:
    """Shard 1 serves no epoch yet."""
    one = site.world.document.record.shards[0]
    folder, (host, _, port) = site.world.settings.shards[0].folder, one.url.removeprefix("https://").partition(":")
    config = server_config(build_app(None), host, int(port), folder / keyring.TLS_CERTIFICATE, folder / keyring.TLS_KEY)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, timeout_s=20)
        yield
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.mark.e2e
def test_status_says_which_shards_serve_the_share_in_force(site: KeySite) -> None:
    waits = "key epoch 1: shard 1 serves no epoch yet: its operator puts the epoch's document at its epoch_file"
    with waiting(site):
        assert site.kms("list") == Exit.MISMATCH
        assert waits in site.said(), "after every ceremony all shards do, until their operators give them the document"
    shards = [(index, site.world.shard(index)) for index in (1, 2, 3)]
    with site.world.serving(*shards):
        assert site.kms("list", "--output", "json") == Exit.OK
        state = json.loads(site.said())
        (epoch,) = state["epochs"]
        assert (state["active_epoch"], epoch["state"], epoch["version"], epoch["threshold"]) == (1, "ACTIVE", 0, 2)
        assert (epoch["suite"], epoch["assurance"]) == (SUITE_P256, "simulated")
        assert [each["says"] for each in epoch["shards"]] == ["serves"] * 3
    with site.world.serving(*shards[:2]):
        assert site.kms("list") == Exit.UNAVAILABLE
        assert "key epoch 1: ACTIVE, shares of version 0, any 2 open, assurance simulated, shards open one" in site.said()
    other = replace(site.world.policy, serial=U64(9))
    with site.world.serving(*shards[:2], (3, site.world.shard(3, policy=other))):
        assert site.kms("list") == Exit.MISMATCH
        assert "shard 3 has another appraisal policy than the chain" in site.said()
        site.next_epoch()
        assert site.kms("list") == Exit.MISMATCH
        assert "key epoch 2 of the chain is not in the address book" in site.said()
        assert site.kms("show", "1", "--output", "json") == Exit.MISMATCH
        assert "key epoch 2 of the chain is not in the address book" in site.said()
    stale = replace(site.world.document, commitments=tuple(reversed(site.world.document.commitments)))
    write_network(site.folder / "network.json", replace(site.network, epochs=(stale,)))
    assert site.kms("list") == Exit.MISMATCH
    assert "the chain means version 0, the address book has other shares" in site.said()


@pytest.mark.e2e
def test_status_works_while_the_finalized_block_is_inside_the_deployment(site: KeySite) -> None:
    """A deployment takes many blocks: those after `deploy_block` have no `KeyEpochs`, then one without an epoch."""
    chain, first = reader(site.anvil, site.network), int(site.network.deploy_block)
    following = FollowingReader(chain.client, site.network)
    while site.anvil.client.head("finalized").number < first:
        site.anvil.mine()
    finals: list[int | None] = []
    while not finals or finals[-1] is None:
        assert site.kms("list") == Exit.UNAVAILABLE, "no shard runs"
        assert "key epoch 1: ACTIVE" in site.said()
        assert following.epoch(1, chain.head()) == site.network.epoch(1)
        finals.append(chain.final())
        site.anvil.mine()
    there = finals[-1]
    assert len(finals) > 2 and there is not None
    assert chain.epoch_on_chain(1, there).state is EpochState.NONE
    with pytest.raises(TryAgain, match="not in that block"):
        chain.epoch_on_chain(1, there - 1)


@pytest.mark.e2e
def test_release_for_a_dispute_unknown_to_the_chain_is_found_in_the_log(site: KeySite) -> None:
    shards = [(index, site.world.shard(index)) for index in (1, 2, 3)]
    case = site.world.case()
    site.world.chain.open(case)  # what this shard believes; the real chain has no dispute
    site.world.release(shards[0][1], case)
    with site.world.serving(*shards):
        copies = ["--logs", str(site.folder / "logs")]
        assert main(["key", "log", "verify", "--network", str(site.folder / "network.json"), *copies]) == Exit.OK
        assert site.kms("log", "verify", *copies) == Exit.MISMATCH
        assert f"shard 1: record 0 is dated {NOW}, long after block" in site.said()
        site.anvil.pass_time(NOW - site.anvil.client.head().timestamp - 60)
        assert site.kms("log", "verify", *copies) == Exit.UNAVAILABLE
        assert "shard 1 has 1 releases that were not judged: the node does not have their block yet" in site.said()
        site.anvil.pass_time(NOW - site.anvil.client.head().timestamp + 1)
        site.said()
        assert site.kms("log", "verify", *copies) == Exit.MISMATCH
        assert "shard 1: record 0 released without entitlement: there is no dispute 0x" in site.said()


@pytest.mark.e2e
def test_epoch_is_retired_only_when_no_dispute_can_need_its_key(site: KeySite) -> None:
    key = ["--key", str(site.folder / "curator.key")]
    assert site.kms("retire", "1", *key) == Exit.USAGE
    assert "is ACTIVE; what drains can be retired" in site.said()
    site.next_epoch()
    assert site.kms("retire", "1", *key) == Exit.UNAVAILABLE
    said = site.said()
    assert "the end of key epoch 1 is not before 20" in said and " UTC, now earlier Nothing was sent." in said
    site.anvil.pass_time(DEVNET.times.key_retention + 1)
    save_signer(site.folder / "other.key", signer(5))
    assert site.kms("retire", "1", "--key", str(site.folder / "other.key")) == Exit.USAGE
    assert f"{signer(5).address} is not the curator of this network: name the curator's key file" in site.said()
    assert site.kms("retire", "1", *key) == site.kms("retire", "1", *key) == Exit.OK
    assert "key epoch 1 (simulated) is retired" in site.said()
    chain = reader(site.anvil, site.network)
    assert [chain.epoch_state(epoch, chain.head()) for epoch in (1, 2)] == [EpochState.RETIRED, EpochState.ACTIVE]
    assert site.kms("retire", "7", *key) == Exit.USAGE


@pytest.mark.e2e
def test_interrupted_activation_of_an_epoch_is_resumed(site: KeySite) -> None:
    document = site.dealt()
    chain, client = reader(site.anvil, site.network), site.anvil.client
    signed = signatures(site, document, 0, Digest(b"\x01" * 32))
    sent = client.nonce(CURATOR.address)
    for words in ([signed.signatures[0], Blob(b"")], []):
        few, found = signed._replace(signatures=words), chain.epoch_on_chain(2, chain.head())
        with pytest.raises(ConfigurationError, match=r"refused by the contract: .*TooFewSigned"):
            open_epoch(client, site.network, CURATOR, document, site.policy.digest, few, found)
    # The contract does what we do, whoever asks it, and for simulated shards too.
    with pytest.raises(ChainReverted, match="NotConfirmed"):
        estimated_call(client, site.network, CURATOR, ContractCall("KeyEpochs", "activate", (2,)))
    assert client.nonce(CURATOR.address) == sent + 1, "announced once; what the chain refuses is not sent"
    for state in (EpochState.PENDING, EpochState.ACTIVE):
        found = chain.epoch_on_chain(2, chain.head())
        assert found.state is state
        book = open_epoch(client, site.network, CURATOR, document, site.policy.digest, signed, found)
        assert [each.record.epoch for each in book.epochs] == [1, 2]
    again = dealt_again(document)
    dealt = signatures(site, again, 1, Digest(b"\x02" * 32))
    found = chain.epoch_on_chain(2, chain.head())
    # The curator and the new holders are not enough.
    with pytest.raises(ConfigurationError, match=r"refused by the contract: .*TooFewAgreed"):
        reshare_epoch(client, book, CURATOR, again, dealt._replace(consents=dealt.consents[:1]), found)
    for version in (0, 1):
        found = chain.epoch_on_chain(2, chain.head())
        assert found.version == version
        book = reshare_epoch(client, book, CURATOR, again, dealt, found)
        assert book.epochs[-1] == again
        assert [(each.epoch, each.version, each.threshold) for each in book.dealt or ()] == [(2, 0, 2), (2, 1, 2)]
    meant = chain.epoch_on_chain(2, chain.head()).commitments
    assert meant == Blob(b"".join(again.commitments))
    # What a duty process holds partials against follows the newest final block, as shards do, and not its book.
    following = FollowingReader(client, book)
    assert following.epoch(2, chain.head()) == document.record
    site.anvil.mine(70)
    assert following.epoch(2, chain.head()) == with_verification_keys(document.record, meant) != document.record


@pytest.mark.e2e
@pytest.mark.parametrize(("epoch", "count"), [(2, 2), (hybrid_epoch(1), 3)], ids=["plain", "hybrid"])
def test_one_command_makes_and_activates_the_next_key_and_is_repeatable(site: KeySite, epoch: int, count: int) -> None:
    folder, parties = site.folder, ceremony_shards(site.folder / "next", count)[0]
    for each, port in zip(parties, free_ports(count), strict=True):
        each.port, each.key_epochs = port, site.network.addresses.key_epochs
        (each.folder / "entry.json").write_bytes(encode(keyring.shard_entry(each.folder, each.url, CHANNEL)))
    save_signer(folder / "coordinator.key", COORDINATOR)
    (folder / "dkg.toml").write_text(
        f"epoch = {epoch}\nthreshold = 2\nquorum = {count}\nreveal_budget = 1\nassurance = 'simulated'\nphase_s = 60.0\n"
        "network_file = 'network.json'\ncoordinator_key_file = 'coordinator.key'\n"
        "plan_file = 'plan.json'\nout_file = 'epoch-2.json'\n"
        f"database_url = 'sqlite:///{folder / 'coordinator.sqlite'}'\n"
        f"entries = {[f'next/shard-{n}/entry.json' for n in range(1, count + 1)]}\n"
    )
    write_secret(folder / "curator.json", json.dumps(Account.encrypt(CURATOR.secret, "sesame", iterations=1024)).encode())
    write_secret(folder / "curator.password", b"sesame")
    ceremony = ("--config", str(folder / "dkg.toml"))
    by_keystore = ("--key", str(folder / "curator.json"), "--password-file", str(folder / "curator.password"))
    with serving(parties):
        if epoch == 2:
            a_multisignature_opens_what_was_made(site, ceremony)
        for _ in range(2):
            assert site.kms("rotate", *ceremony, *by_keystore) == Exit.OK
            said = site.said()
            assert f"key epoch {epoch}, shares of version 0, is in force" in said and "assurance: simulated" in said
        # Desks of a ceremony serve no epoch yet.
        assert site.kms("list") == Exit.MISMATCH
        said = site.said()
        assert f"key epoch {epoch}: ACTIVE, shares of version 0" in said and ("hybrid" in said) == (count == 3)
    book = read_network(folder / "network.json")
    chain, document = reader(site.anvil, book), book.epochs[-1]
    assert [chain.epoch_state(each, chain.head()) for each in (1, epoch)] == [EpochState.DRAINING, EpochState.ACTIVE]
    # What an operator seals to: the chain pins the second keys by the transcript that the shards signed.
    assert chain.epoch(epoch, chain.head()) == document.record
    held = [keyring.open_share(each.folder, document) for each in parties]
    assert [each.index for each in held] == list(range(1, count + 1))
    if document.record.hybrid is not None:
        assert document.record.hybrid.keys == tuple(hpke.kem_key(each.kem_seed()) for each in held)
    assert (document.record.hybrid is None) == (epoch == 2)


def a_multisignature_opens_what_was_made(site: KeySite, ceremony: tuple[str, str]) -> None:
    """The command prints the calls of the curator, whose key is elsewhere, and takes part in nothing else."""
    assert site.kms("rotate", *ceremony) == Exit.OK
    said = site.said()
    calls = re.findall(rf"by the curator {CURATOR.address}: (\S+) target (0x\w{{40}}) value 0 calldata (0x[0-9a-f]+)", said)
    assert [name for name, _, _ in calls] == ["KeyEpochs.openEpoch", "KeyEpochs.confirm", "KeyEpochs.activate"]
    assert "is in force" not in said and [each.record.epoch for each in read_network(site.folder / "network.json").epochs] == [1]
    for _, target, data in calls:
        site.anvil.rpc("eth_sendTransaction", {"from": CURATOR.address, "to": target, "data": data})
        site.anvil.mine()
    assert site.kms("open", *ceremony) == Exit.OK and "key epoch 2, shares of version 0, is in force" in site.said()
    assert site.kms("retire", "1") == Exit.UNAVAILABLE and "the end of key epoch 1 is not before" in site.said()
    plan = site.folder / "plan.json"
    assert main(["key", "plan", str(plan)]) == Exit.OK
    shown = site.said()
    assert f'"plan": "{hex0x(read_plan(plan).digest)}"' in shown and '"opened_by": "2 of 2"' in shown
    signed = plan.read_bytes()
    for altered, why in ((signed.replace(b'"reveal_budget":1', b'"reveal_budget":0'), "did not sign it"), (b"{}", "plan.json")):
        plan.write_bytes(altered)
        assert main(["key", "plan", str(plan)]) == Exit.USAGE and why in site.said()
        assert site.kms("rotate", *ceremony) == Exit.USAGE and why in site.said()
    plan.write_bytes(signed)


@pytest.mark.e2e
def test_shard_folder_is_restored_without_superseded_shares(site: KeySite) -> None:
    folder, file = site.world.settings.shards[0].folder, site.folder / "shard.backup"
    for seq in (1, 2):
        site.world.release(site.world.shard(1), site.world.disputed(seq))
    assert site.shard("backup", str(file)) == Exit.USAGE
    write_whole(site.folder / "backup.key", secrets.token_hex(32).encode())
    assert site.shard("backup", str(file)) == Exit.OK
    assert f"5 files of shard {site.world.document.record.shards[0].address}" in site.said()
    names = ("storage.key", "signing.sealed", "tls.key", "tls.pem", "share-1.json")
    for name in names:
        (folder / name).unlink()
    assert site.shard("restore", str(file)) == Exit.OK
    assert keyring.open_share(folder, site.world.document).index == 1
    again, chain = dealt_again(site.world.document), reader(site.anvil, site.network)
    dealt = signatures(site, again, 1, Digest(b"\x02" * 32))
    reshare_epoch(site.anvil.client, site.network, CURATOR, again, dealt, chain.epoch_on_chain(1, chain.head()))
    for name in names:
        (folder / name).unlink()
    site.said()
    assert site.shard("restore", str(file)) == Exit.REFUSED
    assert "no share of version 1 of key epoch 1, which is in force" in site.said()
    assert not any((folder / name).exists() for name in names)
    with closing(sqlite3.connect(folder / "kms.sqlite")) as database, database:
        database.execute("DELETE FROM release_record WHERE number = 0")
    assert site.shard("restore", str(file)) == Exit.MISMATCH
    assert "restore its newest copy" in site.said() and not any((folder / name).exists() for name in names)


def test_ceremony_report_names_shards_without_a_share_proof() -> None:
    parties = [party(n) for n in (1, 2, 3)]
    parties[2].absent = {CeremonyPhase.CONFIRMING}
    told = public_facts(CeremonyParties(plan_for(parties, 2, 2), parties).run())
    assert (told["phase"], told["confirmed"], told["unproven"]) == ("DONE", [1, 2], [3])


@pytest.mark.e2e
def test_announced_epoch_comes_into_force_with_reshared_shares(site: KeySite) -> None:
    document, client = site.dealt(), site.anvil.client
    chain = reader(site.anvil, site.network)
    none = CeremonySignatures(Digest(b"\x01" * 32), [])
    with pytest.raises(ConfigurationError, match=r"refused by the contract: .*TooFewSigned"):
        open_epoch(client, site.network, CURATOR, document, site.policy.digest, none, chain.epoch_on_chain(2, chain.head()))
    again = dealt_again(document)
    signed = signatures(site, again, 1, Digest(b"\x02" * 32))
    for state in (EpochState.PENDING, EpochState.ACTIVE):
        found = chain.epoch_on_chain(2, chain.head())
        assert found.state is state
        reshare_epoch(client, site.network, CURATOR, again, signed, found)
    assert chain.epoch_on_chain(2, chain.head()).commitments == b"".join(again.commitments)


HOSTILE = "all well[/nothing] [bold]\x1b[2J"


def test_shards_own_text_neither_stops_nor_colours_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def ask(_: ShardRecord) -> ShardInfo:
        raise ShardRefused("https://shard", HOSTILE)

    record = ShardRecord(1, VOTER.address, HOSTILE, "", "", Blob(b""))
    says, wrong = status._answer_of(record, 1, ZERO_DIGEST, ask, ())
    assert wrong
    row = {"index": 1, "account": VOTER.address, "url": HOSTILE, "says": says}
    epoch = {"epoch": 1, "state": "ACTIVE", "version": 0, "threshold": 2, "assurance": "simulated", "kind": "plain"}
    state = {"block": 1, "active_epoch": 1, "epochs": [{**epoch, "confirmed": True, "shards": [row]}], "wrong": [says]}
    status.show(state, Console(width=200))
    said = capsys.readouterr().out
    assert said.count("all well[/nothing] [bold]\N{REPLACEMENT CHARACTER}[2J") == 3 and "\x1b" not in said


def test_a_shard_of_an_epoch_that_is_not_final_yet_contradicts_nothing() -> None:
    """It follows final blocks, in which there is no epoch for a quarter of an hour. It does not know its version until then."""
    there = EpochOnChain(EpochState.ACTIVE, Blob(b"k"), Blob(b"c"), (VOTER.address,), 1, 0, ZERO_DIGEST, "simulated")
    none = EpochOnChain(EpochState.NONE, Blob(b""), Blob(b""), (), 0, 0, ZERO_DIGEST)
    info = ShardInfo(U64(1), 1, VOTER.address, "simulated", ZERO_DIGEST, digests.keccak256(b"c"), None, False)

    def ask(_: ShardRecord) -> ShardInfo:
        return info

    record = ShardRecord(1, VOTER.address, "https://shard", "", "", Blob(b""))
    says, wrong = status._answer_of(record, 1, ZERO_DIGEST, ask, (there, none))
    assert "opens nothing until a final block has the epoch" in says and not wrong
    for chains in ((there, there), (there,)):
        says, wrong = status._answer_of(record, 1, ZERO_DIGEST, ask, chains)
        assert "reads of the chain that other shares are meant" in says and wrong, "the final block has it"


@pytest.mark.e2e
def test_status_names_the_shard_that_lacks_the_shares_on_the_chain(site: KeySite, monkeypatch: pytest.MonkeyPatch) -> None:
    """All say that they serve the epoch; what they hold and what their nodes told them differs."""
    monkeypatch.setattr(release, "REFRESH_S", 0.0)
    world, true = site.world, renewal.in_force(site.world)
    shards = [(index, world.shard(index)) for index in (1, 2, 3)]
    site.anvil.mine(70)
    with world.serving(*shards):
        for lie, says in (
            # The first has such a share, of a ceremony that the chain never took; the others have none, and answer nobody.
            (renewal.dealt_again(world, 1), ("version 1, and the chain means version 0", *["reads of the chain that other"] * 2)),
            (true, ("version 1, and the chain means version 0: it opens nothing", "serves", "serves")),
            (None, ("version 1, and the chain means version 0", *["cannot read the chain: it answers nobody"] * 2)),
        ):
            world.chain.away = lie is None
            if lie is not None:
                renewal.mean(world, lie, version=int(lie != true))
            assert site.kms("list", "--output", "json") == Exit.MISMATCH
            (epoch,) = json.JSONDecoder().raw_decode(site.said())[0]["epochs"]  # what follows are log lines of the shards
            for shard, said in zip(epoch["shards"], says, strict=True):
                assert said in shard["says"] and shard["wrong"] == (said != "serves")
        world.chain.away = False
        # Dealt again on the chain, and not final yet: who serves the shares before is right.
        world.chain.facts = replace(world.chain.facts, number=10**6)
        monkeypatch.setattr(share_rotation, "SETTLE_S", 0.0)
        again, chain = dealt_again(world.document), reader(site.anvil, site.network)
        signed, found = signatures(site, again, 1, Digest(b"\x02" * 32)), chain.epoch_on_chain(1, chain.head())
        reshare_epoch(site.anvil.client, site.network, CURATOR, again, signed, found)
        assert site.kms("list", "--output", "json") == Exit.MISMATCH, "the address book is not the newest"
        assert site.said().count("until version 1 is final") == 3
        site.anvil.mine(70)
        assert site.kms("list", "--output", "json") == Exit.MISMATCH
        assert site.said().count("and the chain means version 1") == 9, "of each shard, and of its epoch and the network"
