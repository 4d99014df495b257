"""`bytewise key log` on a real chain on which a key moves to other shards."""

from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.address_book import Network
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.units import U256, hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from chain.acts.epochs import reshare_epoch
from chain.client.address_book import write_network
from chain.reads.key_epochs import share_history
from cli.__main__ import main
from kms.release_log.opening_report import LATE_S
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import reader
from tests.fixtures.cli.key_site import CURATOR, KeySite
from tests.fixtures.kms.memory_chain import Case
from tests.fixtures.kms.release_network import World
from tests.fixtures.kms.vouched_epochs import vouched


@pytest.fixture
def site(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> KeySite:
    return KeySite(anvil, tmp_path, capsys)


def moved_to(site: KeySite, heirs: World) -> EpochDocument:
    """The key with these shards, as the chain sees it: it checks the first commitment."""
    record = replace(site.world.document.record, shards=heirs.document.record.shards)
    return EpochDocument(record, (site.world.document.commitments[0], heirs.document.commitments[1]))


def assert_same_report(site: KeySite, case: Case, book: Network, heirs: World) -> None:
    """Asserts what `kms log` says by this book, by that of before and by one without former holders, beside the chain or not."""
    shards = [(index, site.world.shard(index)) for index in (1, 2, 3)]
    copies = ["--logs", str(site.folder / "logs")]
    opened, untold = "shards [1, 2] of version 0 released, 2 are needed", "cannot be told"
    log = ["key", "log", "show", hex0x(case.id), "--network", str(site.folder / "network.json"), *copies]
    with heirs.serving(*((index, heirs.shard(index)) for index in (1, 2, 3))):
        write_network(site.folder / "network.json", book)
        with site.world.serving(*shards):
            assert main(["key", "log", "verify", "--network", str(site.folder / "network.json"), *copies]) == Exit.OK
        assert site.kms("log", "verify", *copies) == Exit.MISMATCH, "the real chain has no such dispute"
    site.said()
    assert main(log) == site.kms("log", "show", hex0x(case.id), *copies) == Exit.OK
    assert site.said().count(opened) == 2
    # A book of before the move: what it says of holders is not so any more, and the chain's word counts.
    write_network(site.folder / "network.json", site.network)
    assert site.kms("log", "show", hex0x(case.id), *copies) == Exit.OK
    assert opened in site.said()
    # A book that an earlier build wrote after the move.
    write_network(site.folder / "network.json", replace(book, dealt=None))
    assert main(log) == Exit.INCONCLUSIVE and untold in site.said()
    assert site.kms("log", "show", hex0x(case.id), *copies) == Exit.OK and opened in site.said()


@pytest.mark.e2e
def test_log_is_read_under_the_shares_of_its_time_if_chain_and_book_agree(site: KeySite, monkeypatch: pytest.MonkeyPatch) -> None:
    """An opening, and then the key moves: by the book that `kms open` wrote, and by the chain beside the book of before."""
    chain, client, case = reader(site.anvil, site.network), site.anvil.client, site.world.case()
    site.world.chain.open(case)
    site.world.chain.facts = replace(site.world.chain.facts, timestamp=client.head().timestamp)
    shards = [(index, site.world.shard(index)) for index in (1, 2, 3)]
    for _, shard in shards[:2]:
        site.world.release(shard, case)
    site.anvil.pass_time(60)
    heirs = World(site.folder / "heirs", contracts=site.network.contracts)
    document = moved_to(site, heirs)
    heard, agreed = (vouched(site.network.epochs_domain, document, each.signers(), 1) for each in (heirs, site.world))
    found = chain.epoch_on_chain(1, chain.head())
    book = reshare_epoch(client, site.network, CURATOR, document, heard._replace(consents=agreed.consents), found)
    first, second = book.dealt or ()
    assert [[each.url for each in shares.holders] for shares in (first, second)] == [
        [each.url for each in world.document.record.shards] for world in (site.world, heirs)
    ]
    assert (first.version, second.version, second.since) == (0, 1, client.head().timestamp)
    assert share_history(client, book, 1, chain.head()) == book.dealt
    assert chain.shares_dealt_at(1, chain.head()) == second.since > first.since and chain.shares_dealt_at(2, chain.head()) is None
    assert chain.shares_dealt_at(1, client.head().number - 1) == first.since
    # Everything that the old holders released is of before: our clock says that enough time has passed.
    monkeypatch.setattr(SystemClock, "now", lambda _: second.since + LATE_S)
    assert_same_report(site, case, book, heirs)
    # On a terminal it shows how far it is.
    monkeypatch.setenv("FORCE_COLOR", "1")
    site.kms("log", "verify", "--logs", str(site.folder / "logs"))
    assert "judging releases" in site.said()


@pytest.mark.e2e
def test_nothing_is_reported_under_a_label_chain_and_book_do_not_share(site: KeySite) -> None:
    """Control: under the chain's own label each shard is asked."""
    copies, document = ["--logs", str(site.folder / "logs")], site.world.document
    write_network(site.folder / "network.json", site.network)
    assert site.kms("log", "verify", *copies) == Exit.UNAVAILABLE and "shard 1 shows no log" in site.said()
    other = replace(document, record=replace(document.record, assurance="sev-snp"))
    write_network(site.folder / "network.json", replace(site.network, epochs=(other,)))
    for verb in (["verify"], ["show", hex0x(site.world.case().id)]):
        assert site.kms("log", *verb, *copies) == Exit.USAGE
        said = site.said()
        assert "is sev-snp in the book, simulated on the chain: get the new book" in said and "shows no log" not in said


@pytest.mark.e2e
def test_no_shard_is_accused_if_book_and_node_are_of_two_chains(site: KeySite) -> None:
    """Signatures are of one chain: under the book of another none is of its shard. Control: so it is without a node."""
    case, client = site.world.case(), site.anvil.client
    site.world.chain.open(case)
    site.world.chain.facts = replace(site.world.chain.facts, timestamp=client.head().timestamp)
    shards = [(index, site.world.shard(index)) for index in (1, 2, 3)]
    for _, shard in shards[:2]:
        site.world.release(shard, case)
    write_network(site.folder / "network.json", replace(site.network, chain_id=U256(31338)))
    verify = ["key", "log", "verify", "--network", str(site.folder / "network.json"), "--logs", str(site.folder / "logs")]
    # A quorum is of different endpoints.
    names = [site.anvil.url, site.anvil.url.replace("127.0.0.1", "localhost")]
    with site.world.serving(*shards):
        for nodes in (names[:1], names):
            assert main([*verify, *(word for each in nodes for word in ("--rpc", each))]) == Exit.USAGE
            said = site.said()
            assert "the node is on chain 31337, not 31338" in said and "shard 1" not in said
        assert main(verify) == Exit.MISMATCH
