"""`bytewise key log` after the shares of a key were dealt again: who opened what is told under the shares of then."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.address_book import DealtShares, share_holder
from bytewise.protocol.encoding import encode
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.units import U64, hex0x
from bytewise.service.exit_codes import Exit
from tests.fixtures.cli.log_site import LogSite
from tests.fixtures.kms.dealt_again import dealt_again, mean
from tests.fixtures.kms.memory_chain import VOTER, Case
from tests.fixtures.kms.release_network import World
from tests.fixtures.verifier.verifier_fixture import NETWORK

HOUR = 3600


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> LogSite:
    return LogSite(tmp_path, capsys)


def book(site: LogSite, document: EpochDocument, *versions: tuple[int, EpochDocument]) -> None:
    """The address book with this document, and who had the shares from which time on."""
    dealt = tuple(
        DealtShares(U64(1), version, U64(since), each.record.threshold, tuple(map(share_holder, each.record.shards)))
        for version, (since, each) in enumerate(versions)
    )
    network = replace(NETWORK, epochs=(document,), dealt=dealt or None)
    (site.folder / "network.json").write_bytes(encode(network))


def release(site: LogSite, case: Case, index: int, at: int) -> None:
    """A shard gives VOTER's enclave its partial; the chain has that time."""
    site.world.chain.facts = replace(site.world.chain.facts, timestamp=at)
    site.world.release(site.shards[index], case)


def printed(site: LogSite, case: Case, *arguments: str) -> tuple[int, dict[str, Any]]:
    """What `show` says of a receipt, and its exit code."""
    site.said()
    code = site.log("show", hex0x(case.id), "--output", "json", *arguments)
    return code, json.loads(site.said())


def openings(story: dict[str, Any]) -> Sequence[tuple[int, list[int], bool]]:
    """Version, shards and whether they opened, of each opening."""
    return [(each["version"], each["shards"], each["opened"]) for each in story["openings"]]


def test_partials_from_before_and_after_a_refresh_do_not_add_up(site: LogSite) -> None:
    world, case, now = site.world, site.world.case(), int(time.time())
    world.chain.open(case)
    book(site, world.document, (0, world.document), (now - 2 * HOUR, world.document))
    release(site, case, 1, now - 3 * HOUR)
    mean(world, dealt_again(world, 1, 2, 3))
    release(site, case, 2, now - HOUR)
    with world.serving(*site.shards.items()):
        assert site.log("verify") == Exit.OK
        code, story = printed(site, case)
        assert (code, story["opened"], story["untold"], story["openable_together"]) == (Exit.OK, False, False, False)
        assert openings(story) == [(0, [1], False), (1, [2], False)]
        release(site, case, 1, now - HOUR)
        assert site.log("verify") == Exit.OK
    code, story = printed(site, case)
    assert (code, story["opened"], openings(story)) == (Exit.OK, True, [(0, [1], False), (1, [1, 2], True)])
    assert site.log("show", hex0x(case.id)) == Exit.OK
    assert "shards [1, 2] of version 1 released, 2 are needed" in (said := site.said())
    assert f"not opened by {VOTER.address}" in said and "shares of version 1 from 2" in said


def test_receipt_opened_under_a_lower_threshold_stays_opened(site: LogSite) -> None:
    world, case, now = site.world, site.world.case(), int(time.time())
    world.chain.open(case)
    for index in (1, 2):
        release(site, case, index, now - 3 * HOUR)
    raised = replace(
        world.document,
        record=replace(world.document.record, threshold=3),
        commitments=(*world.document.commitments, world.document.commitments[-1]),
    )
    book(site, raised, (0, world.document), (now - 2 * HOUR, raised))
    with world.serving(*site.shards.items()):
        assert site.log("verify") == Exit.OK
    code, story = printed(site, case)
    assert (code, story["opened"], openings(story)) == (Exit.OK, True, [(0, [1, 2], True)])
    assert [each["threshold"] for each in story["shares"]] == [2, 3]


def moved(site: LogSite, since: int) -> World:
    """The key goes to other shards; those, which the address book has now beside the others."""
    heirs = World(site.folder / "heirs", contracts=NETWORK.contracts)
    book(site, heirs.document, (0, site.world.document), (since, heirs.document))
    return heirs


def test_former_holders_of_a_moved_key_are_asked_and_believed(site: LogSite) -> None:
    world, case, now = site.world, site.world.case(), int(time.time())
    other = world.case(2)
    world.chain.open(case)
    for index in (1, 2):
        release(site, case, index, now - 3 * HOUR)
    heirs = moved(site, now - 2 * HOUR)
    shards = [(index, heirs.shard(index)) for index in (1, 2, 3)]
    with heirs.serving(*shards):
        with world.serving(*site.shards.items()):
            site.said()
            assert site.log("verify", "--output", "json") == Exit.OK
            rows = json.loads(site.said())
            assert [(each["former"], each["versions"], each["records"]) for each in rows] == [
                (True, [0], 1), (True, [0], 1), (True, [0], 0), (False, [1], 0), (False, [1], 0), (False, [1], 0),
            ]  # fmt: skip
        assert site.log("verify") == Exit.OK, "those before are gone for good, and all that they released is here"
    code, story = printed(site, case)
    assert (code, story["opened"], openings(story)) == (Exit.OK, True, [(0, [1, 2], True)])
    assert story["shares"][0]["holders"] == [each.address for each in world.document.record.shards]
    assert printed(site, other)[0] == Exit.NOT_FOUND


def test_missing_logs_are_not_reported_as_nothing_opened(site: LogSite) -> None:
    world, case, now = site.world, site.world.case(), int(time.time())
    world.chain.open(case)
    for index in (1, 2):
        release(site, case, index, now - 3 * HOUR)
    heirs = moved(site, now - 2 * HOUR)
    with heirs.serving(*((index, heirs.shard(index)) for index in (1, 2, 3))):
        assert site.log("verify") == Exit.INCONCLUSIVE
        assert "shows no log: what it released of version 0 cannot be told" in site.said()
        code, story = printed(site, case)
        assert (code, story["opened"], story["untold"]) == (Exit.INCONCLUSIVE, False, True)
        assert [each["unread"] for each in story["shares"]] == [[1, 2, 3], []]
        with world.serving((1, site.shards[1])):
            assert site.log("verify") == Exit.INCONCLUSIVE
        code, story = printed(site, case)
        assert (code, openings(story), story["openings"][0]["untold"]) == (Exit.INCONCLUSIVE, [(0, [1], False)], True)
        assert site.log("show", hex0x(case.id)) == Exit.INCONCLUSIVE
        assert "whether it was opened with shares of version 0 cannot be told: nobody here has the logs until 2" in site.said()
        with world.serving((2, site.shards[2])):
            assert site.log("verify") == Exit.INCONCLUSIVE
    assert openings(printed(site, case)[1]) == [(0, [1, 2], True)]


def test_old_book_without_former_holders_does_not_report_not_opened(site: LogSite) -> None:
    """As `kms open` wrote it until now: only copies say that somebody else had shares."""
    world, case, now = site.world, site.world.case(), int(time.time())
    world.chain.open(case)
    with world.serving(*site.shards.items()):
        for index in (1, 2):
            release(site, case, index, now - 3 * HOUR)
        assert site.log("verify") == Exit.OK
    heirs = World(site.folder / "heirs", contracts=NETWORK.contracts)
    book(site, heirs.document)
    with heirs.serving(*((index, heirs.shard(index)) for index in (1, 2, 3))):
        assert site.log("verify") == Exit.OK
    code, story = printed(site, case)
    former = sorted(each.address for each in world.document.record.shards[:2])
    assert (code, story["opened"], story["untold"], story["strangers"]) == (Exit.INCONCLUSIVE, False, True, former)
    assert site.log("show", hex0x(case.id)) == Exit.INCONCLUSIVE
    assert "network.json names no shares of theirs: ask with --rpc" in site.said()


def test_release_with_replaced_share_is_named_and_counted_for_its_version(site: LogSite) -> None:
    world, case, now = site.world, site.world.case(), int(time.time())
    world.chain.open(case)
    heirs = moved(site, now - 2 * HOUR)
    release(site, case, 1, now - 3 * HOUR)
    release(site, case, 2, now - HOUR)  # its program was changed: ours asks the chain who holds the shares
    with world.serving(*site.shards.items()), heirs.serving(*((index, heirs.shard(index)) for index in (1, 2, 3))):
        assert site.log("verify") == Exit.MISMATCH
    assert "record 0 released while others held the shares, of version 1" in site.said()
    code, story = printed(site, case)
    assert (code, story["opened"], openings(story)) == (Exit.OK, True, [(0, [1, 2], True)])


def test_address_book_that_contradicts_itself_is_refused(site: LogSite) -> None:
    raised = replace(site.world.document, record=replace(site.world.document.record, threshold=3))
    book(site, site.world.document, (0, site.world.document), (5, raised))
    assert site.log("verify") == Exit.USAGE
    assert "names two sets of holders of key epoch 1" in site.said()
