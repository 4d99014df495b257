"""`bytewise key list` on a chain with shards beside it that have, or are told of, other shares than the chain means."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bytewise.protocol.errors.actors import ChainReverted, ShardRefused
from bytewise.protocol.jobs import ShardRecord
from bytewise.protocol.keys.epochs import EpochState, ShardInfo
from bytewise.protocol.units import ZERO_DIGEST, Blob, Digest
from bytewise.service.exit_codes import Exit
from chain.acts.epochs import CeremonySignatures, open_epoch, reshare_epoch
from cli.key import status
from kms.shard import release, share_rotation
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import reader
from tests.fixtures.cli.key_site import CURATOR, KeySite, dealt_again, signatures
from tests.fixtures.kms import dealt_again as renewal
from tests.fixtures.kms.memory_chain import VOTER


@pytest.fixture
def site(anvil: Anvil, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> KeySite:
    return KeySite(anvil, tmp_path, capsys)


@pytest.mark.e2e
def test_announced_epoch_comes_into_force_with_reshared_shares(site: KeySite) -> None:
    document, client = site.dealt(), site.anvil.client
    chain = reader(site.anvil, site.network)
    none = CeremonySignatures(Digest(b"\x01" * 32), [])
    with pytest.raises(ChainReverted, match="TooFewSigned"):
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
    says, wrong = status._said(record, 1, ZERO_DIGEST, ask, ())
    assert wrong
    row = {"index": 1, "account": VOTER.address, "url": HOSTILE, "says": says}
    epoch = {"epoch": 1, "state": "ACTIVE", "version": 0, "threshold": 2, "assurance": "simulated", "kind": "plain"}
    state = {"block": 1, "active_epoch": 1, "epochs": [{**epoch, "confirmed": True, "shards": [row]}], "wrong": [says]}
    status.show(state, Console(width=200))
    said = capsys.readouterr().out
    assert said.count("all well[/nothing] [bold]\N{REPLACEMENT CHARACTER}[2J") == 3 and "\x1b" not in said


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
