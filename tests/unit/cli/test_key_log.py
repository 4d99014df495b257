"""`bytewise key log` on three real shards over HTTPS: who opened a receipt, under the shares of then where they were dealt again,
and what a shard cannot take back."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from bytewise.protocol.address_book import DealtShares, share_holder
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TicketRefused
from bytewise.protocol.evidence.appraisal_policy import MeasurementRole
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.suites import rebuilt_epoch
from bytewise.protocol.units import U64, ZERO_DIGEST, Digest, hex0x
from bytewise.service.exit_codes import Exit
from bytewise.storage.tables import ReleaseRow
from chain.client.address_book import read_network, write_network
from cli.output import moment
from tests.fixtures.cli.log_site import LogSite, site
from tests.fixtures.kms.dealt_again import dealt_again, mean
from tests.fixtures.kms.memory_chain import NOW, OTHER_VOTER, VOTER, Case
from tests.fixtures.kms.release_network import World, refused
from tests.fixtures.verifier.verifier_fixture import NETWORK

__all__ = ["site"]


@pytest.mark.e2e
def test_log_show_names_opener_time_reason_and_evidence(site: LogSite, monkeypatch: pytest.MonkeyPatch) -> None:
    with site.world.serving(*site.shards.items()):
        case, other = site.opened(), site.world.case(2)
        assert site.log("show", hex0x(case.id)) == Exit.USAGE
        assert "`bytewise key log verify` fetches them" in site.said()
        assert site.log("verify", "--output", "json") == Exit.OK
        rows = json.loads(site.said())
        assert [(each["shard"], each["records"], each["released"]) for each in rows] == [(1, 1, 1), (2, 1, 1), (3, 0, 0)]
        monkeypatch.setenv("COLUMNS", "80")
        assert site.log("verify") == Exit.OK
        narrow = site.said()
        assert "…" not in narrow and all(part in narrow for part in moment(NOW).split(" ", 1)), "no date is cut off"
        monkeypatch.undo()
    assert site.log("show", hex0x(case.id), "--output", "json") == Exit.OK
    told = json.loads(site.said())
    dispute = f"round 1 of dispute {hex0x(Digest(case.id[::-1]))}"
    (opening,) = told["openings"]
    assert (opening["opened"], opening["shards"], opening["voter"], opening["why"]) == (True, [1, 2], VOTER.address, dispute)
    assert [(each["shard"], each["decided_at"], each["decision"]) for each in told["records"]] == [
        (1, NOW, "released"), (2, NOW, "released"),
    ]  # fmt: skip
    evidence = {hex0x(site.shards[index].log(0).entries[0].record.evidence_hash) for index in (1, 2)}
    assert {each["evidence"] for each in told["records"]} == evidence and len(evidence) == 2
    (trusted,) = (each for each in site.world.policy.measurements if each.role is MeasurementRole.VERIFIER_ENCLAVE)
    enclave = {
        "assurance": "simulated", "platform": "simulated", "measurement": hex0x(trusted.measurement), "tcb": "UpToDate",
        "gpu": "unattested", "policy": site.world.policy.serial,
    }  # fmt: skip
    assert [(each["enclave"], each["refusal"]) for each in told["records"]] == [(enclave, "")] * 2
    assert site.log("show", hex0x(case.id)) == Exit.OK
    assert f"opened by {VOTER.address}: {dispute}; shards [1, 2] of version 0 released, 2 are needed" in site.said()
    assert site.log("show", hex0x(other.id)) == Exit.NOT_FOUND
    site.said()
    assert site.log("show", hex0x(case.id)[:10], "--output", "json") == Exit.OK
    assert json.loads(site.said())["receipt"] == hex0x(case.id)
    assert site.log("show", hex0x(other.id)[:10]) == Exit.USAGE
    assert "no copy has a record of a receipt that begins with" in " ".join(site.said().split())


@pytest.mark.e2e
def test_receipt_is_found_in_its_own_key_epoch_whichever_is_newest(site: LogSite) -> None:
    """After a rotation the copies of the epoch before tell of it, and nobody says of it that it was not opened."""
    newer = replace(site.world.document, record=replace(site.world.document.record, epoch=U64(2)))
    with site.world.serving(*site.shards.items()):
        case, other = site.opened(), site.world.case(2)
        assert site.log("verify") == Exit.OK
        (site.folder / "network.json").write_bytes(encode(replace(NETWORK, epochs=(site.world.document, newer))))
        site.said()
        assert site.log("show", hex0x(case.id)) == Exit.OK
        assert f"opened by {VOTER.address}" in site.said()
        assert site.log("show", hex0x(other.id)) == Exit.USAGE
        assert "has no log of key epoch 2: `bytewise key log verify` fetches them; --epoch names another" in " ".join(
            site.said().split()
        )
        assert site.log("verify") == Exit.OK
        assert "not looked at, for this is the newest key epoch: [1]; --epoch names one of them" in site.said()
    assert (site.log("show", hex0x(case.id)), site.log("show", hex0x(other.id))) == (Exit.OK, Exit.NOT_FOUND)
    for path in (site.folder / "logs").glob("releases-1-*"):
        path.unlink()
    site.said()
    assert site.log("show", hex0x(case.id)) == Exit.INCONCLUSIVE
    assert "the receipt may be of key epoch [1], of which there is no copy" in site.said()


@pytest.mark.e2e
def test_refusal_is_shown_with_rule_and_old_record_without_evidence(site: LogSite) -> None:
    world, case = site.world, site.world.case()
    world.chain.open(case, phase=Phase.FINAL)
    for index in (1, 2):
        refused(TicketRefused, world, site.shards[index], world.request(case))
    site.change(2, update(ReleaseRow).values(release_evidence=None))
    site.said()
    with world.serving(*site.shards.items()):
        assert site.log("verify", "--output", "json") == Exit.OK
    assert [(each["refused"], each["without_grounds"]) for each in json.loads(site.said())] == [(1, 0), (1, 1), (0, 0)]
    assert site.log("show", hex0x(case.id)) == Exit.OK
    said = site.said()
    assert f"shard 1 refused ({TicketRefused.rule}) to {VOTER.address}" in said and "tcb UpToDate, gpu unattested" in said
    assert f"shard 2 refused to {VOTER.address}" in said and "the shard kept nothing of it" in said


@pytest.mark.e2e
def test_two_tickets_of_one_seat_below_threshold_open_a_receipt_together(site: LogSite) -> None:
    world, shards = site.world, site.shards
    case = world.case()
    world.chain.open(case)
    for index, until in ((1, NOW + 60), (2, NOW + 61)):
        world.release(shards[index], case, ticket=world.ticket(case, expires_at=U64(until)))
    alone = world.case(2)
    world.chain.open(alone)
    world.release(shards[3], alone)
    with world.serving(*shards.items()):
        assert site.log("verify") == Exit.OK
    site.said()
    assert site.log("show", hex0x(case.id), "--output", "json") == Exit.OK
    told = json.loads(site.said())
    assert (told["opened"], told["shares"][0]["released"]) == (True, [1, 2])
    assert [(each["opened"], each["shards"]) for each in told["openings"]] == [(True, [1]), (True, [2])]
    assert site.log("show", hex0x(case.id)) == Exit.OK
    assert f"opened together with other tickets of the same voter by {VOTER.address}" in site.said()
    assert site.log("show", hex0x(alone.id), "--output", "json") == Exit.OK
    told = json.loads(site.said())
    assert (told["opened"], told["shares"][0]["released"]) == (False, [3])


@pytest.mark.e2e
def test_seat_below_threshold_opened_nothing_whatever_other_seats_received(site: LogSite) -> None:
    world, shards, chain = site.world, site.shards, site.world.chain
    opened, apart = world.case(), world.case(2)
    for case, given in ((opened, ((1, VOTER), (2, VOTER), (1, OTHER_VOTER))), (apart, ((1, VOTER), (2, OTHER_VOTER)))):
        dispute = chain.open(case)
        other = Seat(OTHER_VOTER.address, 0b1000, ZERO_DIGEST, ZERO_DIGEST)
        chain.disputes[dispute] = replace(chain.disputes[dispute], members=(*chain.disputes[dispute].members, other))
        for index, voter in given:
            world.release(shards[index], case, ticket=world.ticket(case, voter=voter.address), signer=voter)
    with world.serving(*shards.items()):
        assert site.log("verify") == Exit.OK
    site.said()
    assert site.log("show", hex0x(opened.id), "--output", "json") == Exit.OK
    told = json.loads(site.said())
    assert (told["opened"], told["openable_together"], told["shares"][0]["released"]) == (True, True, [1, 2])
    found = {each["voter"]: (each["opened"], each["shards"]) for each in told["openings"]}
    assert found == {VOTER.address: (True, [1, 2]), OTHER_VOTER.address: (False, [1])}
    assert site.log("show", hex0x(opened.id)) == Exit.OK
    said = site.said()
    assert f"not opened by {OTHER_VOTER.address}" in said and "worked together" not in said
    assert site.log("show", hex0x(apart.id), "--output", "json") == Exit.OK
    told = json.loads(site.said())
    assert (told["opened"], told["openable_together"], [each["opened"] for each in told["openings"]]) == (
        False,
        True,
        [False] * 2,
    )
    assert site.log("show", hex0x(apart.id)) == Exit.OK
    seats = f"{VOTER.address}, {OTHER_VOTER.address}"
    assert f"could be opened if these seats worked together: {seats}; shards [1, 2] of version 0 released to them" in site.said()


@pytest.mark.e2e
def test_rebuilt_key_is_reported_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = LogSite(tmp_path, capsys, rebuilt_epoch(1))
    with site.world.serving(*site.shards.items()):
        case, later, unasked = site.opened(), site.world.case(2), site.world.case(3)
        site.world.chain.open(later)
        site.world.release(site.shards[3], later)
        site.said()
        assert site.log("verify", "--output", "json") == Exit.OK
    assert [each["released"] for each in json.loads(site.said())] == [1, 1, 1]
    assert site.log("show", hex0x(case.id), "--output", "json") == Exit.OK
    told = json.loads(site.said())
    assert [(each["opened"], each["rebuilt"], each["shards"]) for each in told["openings"]] == [(True, True, [1, 2])]
    assert [each["decision"] for each in told["records"]] == ["share_released"] * 2
    assert site.log("show", hex0x(case.id)) == Exit.OK
    assert f"key of the epoch rebuilt by {VOTER.address}" in site.said()
    given = f"the epoch's key was given to {VOTER.address}: it opens every receipt of key epoch {rebuilt_epoch(1)}"
    for other in (later, unasked):
        # A share is good for the whole epoch: both are open, also the one that nobody asked about.
        assert site.log("show", hex0x(other.id), "--output", "json") == (Exit.OK if other is later else Exit.NOT_FOUND)
        told = json.loads(site.said())
        assert (told["opened"], told["key_given_to"], told["shares"][0]["released"]) == (True, [VOTER.address], [1, 2, 3])
        site.log("show", hex0x(other.id))
        assert given in site.said()


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (lambda: delete(ReleaseRow).where(ReleaseRow.number == 1), "ends before record 1"),
        (lambda: delete(ReleaseRow).where(ReleaseRow.number == 0), None),
        (lambda: delete(ReleaseRow), "ends before record 1"),
        (lambda: update(ReleaseRow).where(ReleaseRow.number == 1).values(signature=bytes(65)), "release record 1"),
    ],
    ids=["truncated", "beginning dropped", "emptied", "signature changed"],
)
def test_log_changed_behind_a_copy_is_reported_by_name(
    site: LogSite, statement: Callable[[], object], problem: str | None
) -> None:
    with site.world.serving(*site.shards.items()):
        for _ in range(2):
            case = site.opened()
        assert site.log("verify") == Exit.OK
        site.change(1, statement())
        site.said()
        # What is behind the copy need not be shown again: who has the copy has it.
        assert site.log("verify") == (Exit.OK if problem is None else Exit.MISMATCH)
        assert problem is None or f"shard 1: [R-3D] release log of shard {site.shards[1].info().shard}" in (said := site.said())
        assert problem is None or problem in said
        assert site.log("show", hex0x(case.id)) == Exit.OK
        assert "opened by" in site.said()


@pytest.mark.e2e
def test_unavailable_shard_is_not_called_a_liar_and_wrong_input_is_named(site: LogSite) -> None:
    with site.world.serving((1, site.shards[1]), (2, site.shards[2])):
        site.opened()
        assert site.log("verify") == Exit.UNAVAILABLE
    assert "shard 3 shows no log" in site.said()
    assert site.log("verify", "--epoch", "9") == Exit.USAGE
    assert "has no key epoch 9; it has [1]" in site.said()
    file, before = site.folder / "network.json", read_network(site.folder / "network.json")
    write_network(file, replace(before, epochs=()))
    for epoch in ("0", "9"):
        assert site.log("verify", "--epoch", epoch) == Exit.USAGE
        assert "network.json: has no key epoch yet" in site.said()
    write_network(file, before)
    assert site.log("show", "0x12") == site.log("show", "nonsense") == Exit.USAGE
    (site.folder / "network.json").write_text("{}")
    assert site.log("verify") == Exit.USAGE and "is no address book" in site.said()


HOUR = 3600


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
