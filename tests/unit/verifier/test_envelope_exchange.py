"""Ciphertext from seat to seat while DA is down: over real sockets, with the gossip process's own shelf and admission."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Dispute, Seat
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import Outcome
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest, hex0x
from bytewise.storage.archive import Archive
from bytewise.storage.engine import open_database
from tests.fixtures.builders import ANCHOR, signer
from tests.fixtures.committee.message_bus import MessageBus
from tests.fixtures.committee.seated_member import SeatedMember
from tests.fixtures.snapshot_builders import snapshot
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.verifier_fixture import ME, VerifierFixture, seat
from verifier.gossip import GossipClient
from verifier.watch.envelope_exchange import REPEAT_BLOCKS, TOPIC, EnvelopeExchange

OTHER, LIAR = signer("second").address, signer("third").address


@dataclass(frozen=True, slots=True)
class Passing:
    """Our node without a disputed receipt's ciphertext, a seat that has it, and the bus between them."""

    setup: VerifierFixture
    dispute: Dispute
    envelope: Digest
    data: bytes
    bus: MessageBus
    mine: EnvelopeExchange
    other: EnvelopeExchange
    folder: Path

    def step(self) -> None:
        """A block of both."""
        self.setup.chain.pass_time(1)
        for each in (self.other, self.mine):
            each.step(self.setup.chain.now())

    def has_it(self) -> bool:
        """Whether our archive has the ciphertext after another block."""
        self.step()
        return self.setup.archive.envelope(self.envelope) == self.data


def eventually(passing: Passing) -> None:
    """Blocks pass until our node has the ciphertext. A transfer takes a moment, so there is a pause after each block."""
    for _ in range(500):
        if passing.has_it():
            return
        threading.Event().wait(0.01)
    raise AssertionError("the ciphertext never came")


def exchange(bus: MessageBus, folder: Path, who: Address, archive: Archive) -> EnvelopeExchange:
    return EnvelopeExchange(bus.clients[who], archive, who, MessageBus.folder_of(folder, who))


@pytest.fixture
def passing(setup: VerifierFixture, tmp_path: Path) -> Iterator[Passing]:
    signed = setup.signed(1)
    setup.anchor(signed)
    data, envelope = setup.shelf.blobs.pop(signed.locator), signed.receipt.envelope_hash
    others = (Seat(OTHER, 0b111 << 3, ZERO_DIGEST, ZERO_DIGEST), Seat(LIAR, 0b111 << 6, ZERO_DIGEST, ZERO_DIGEST))
    dispute = setup.dispute(signed, seat(), *others)
    setup.records.step(setup.chain.now())
    seen = setup.archive.receipt(receipt_id(ANCHOR, signed.receipt))
    assert seen is not None and setup.archive.envelope(envelope) is None
    (tmp_path / "other.db").write_bytes(empty_database())
    archive = Archive(open_database(f"sqlite:///{tmp_path / 'other.db'}"), setup.clock)
    archive.add_batch(setup.chain.headers[0])
    archive.add_receipt(seen.receipt_id, seen.batch_id, seen.signed, seen.proof, seen.finding)
    archive.keep_envelope(data)
    with MessageBus(tmp_path, [ME.address, OTHER, LIAR], dispute.id, envelope) as bus:
        mine, other = exchange(bus, tmp_path, ME.address, setup.archive), exchange(bus, tmp_path, OTHER, archive)
        yield Passing(setup, dispute, envelope, bytes(data), bus, mine, other, MessageBus.folder_of(tmp_path, OTHER))


def test_seat_gets_from_another_what_da_does_not_give(passing: Passing) -> None:
    eventually(passing)
    assert [file.name for file in passing.folder.iterdir()] == [passing.envelope.hex()]


def test_member_votes_on_bytes_of_another_seat_instead_of_unavailable(passing: Passing) -> None:
    """Its control is `test_missing_bytes_give_vote_unavailable_only_after_the_fetch_deadline`."""
    with SeatedMember(passing.setup) as member:
        member.tick(20)
        assert member.vote(passing.dispute) is None
        eventually(passing)
        member.tick(10)
        member.until_quiet()
        assert member.outcome(passing.dispute) is Outcome.EXECUTED


def test_seat_whose_peers_learn_of_the_dispute_later_is_heard_soon(passing: Passing) -> None:
    """A gossip process refuses what its duty process, a few blocks behind, has not named yet; nothing repeats it but the seat."""
    passing.bus.known[ME.address] = replace(passing.bus.known[ME.address], envelopes={})
    passing.other.step(passing.setup.chain.now())
    assert passing.bus.refusals["no_seat"] == 1 and len(passing.bus.sent) == 1
    passing.bus.known[ME.address] = passing.bus.known[OTHER]
    for _ in range(2):
        passing.setup.chain.pass_time(1)
        passing.other.step(passing.setup.chain.now())
    assert len(passing.bus.sent) == 2
    eventually(passing)


def test_seat_repeats_what_it_has_within_bounds(passing: Passing) -> None:
    for _ in range(3 * REPEAT_BLOCKS):
        passing.setup.chain.pass_time(1)
        passing.other.step(passing.setup.chain.now())
    said = [int(body["at"]) for _, body in passing.bus.sent]
    assert [after - before for before, after in pairwise(said)] == [1, 2, 4, 8, REPEAT_BLOCKS]


def test_statement_that_reached_nobody_is_said_in_the_next_block(passing: Passing) -> None:
    """The gossip process refuses to publish what none of its peers would get."""
    named = passing.bus.known[OTHER]
    passing.bus.known[OTHER] = replace(named, envelopes={})
    for _ in range(5):
        passing.step()
    assert passing.bus.sent == [] and passing.bus.refusals["no_seat"] == 5
    passing.bus.known[OTHER] = named
    passing.step()
    assert len(passing.bus.sent) == 1


def test_wrong_bytes_are_not_kept_and_the_next_holder_is_asked(passing: Passing, tmp_path: Path) -> None:
    name, folder = hex0x(passing.envelope), MessageBus.folder_of(tmp_path, LIAR)
    folder.mkdir()
    (folder / "lie").write_bytes(b"x" * len(passing.data))
    passing.bus.clients[LIAR].offer(name, folder / "lie")
    passing.bus.cut.add(OTHER)
    for at in range(3):
        passing.bus.clients[LIAR].publish(TOPIC, {"account": LIAR, "at": at, "envelope": name, "size": len(passing.data)})
    for _ in range(5):
        passing.step()
    assert passing.setup.archive.envelope(passing.envelope) is None
    passing.bus.cut.clear()
    for _ in range(REPEAT_BLOCKS):
        passing.step()
    eventually(passing)


@pytest.mark.parametrize("size", [0, -1, 2**40, True, "9", None])
def test_said_size_out_of_bounds_costs_one_attempt(passing: Passing, size: object) -> None:
    passing.bus.clients[LIAR].publish(TOPIC, {"account": LIAR, "at": 1, "envelope": hex0x(passing.envelope), "size": size})
    eventually(passing)


def test_who_says_another_has_it_gains_nothing(passing: Passing) -> None:
    for account in (OTHER[:10], "0x" + "99" * 20, ME.address):
        body = {"account": account, "at": 1, "envelope": hex0x(passing.envelope), "size": 1000}
        with pytest.raises(TryAgain, match="no_seat"):
            passing.bus.clients[LIAR].publish(TOPIC, body)
    eventually(passing)


def test_who_speaks_for_another_is_not_heard(passing: Passing) -> None:
    """Otherwise a liar's size would make an honest seat a liar."""
    body = {"account": OTHER, "at": 1, "envelope": hex0x(passing.envelope), "size": 1}
    with pytest.raises(TryAgain, match="no_seat"):
        passing.bus.clients[LIAR].publish(TOPIC, body)
    assert passing.bus.refusals["no_seat"] == 1
    eventually(passing)


def test_seat_that_never_gives_what_it_has_keeps_nobody_from_another(passing: Passing) -> None:
    for at in range(60):
        body = {"account": LIAR, "at": at, "envelope": hex0x(passing.envelope), "size": len(passing.data)}
        passing.bus.clients[LIAR].publish(TOPIC, body)
        if passing.has_it():
            return
        threading.Event().wait(0.02)
    raise AssertionError("the liar was asked for ever")


def test_transfer_that_ends_with_its_dispute_hinders_no_later_one(passing: Passing) -> None:
    disputes = passing.setup.chain.disputes
    for _ in range(100):
        passing.step()
        if (MessageBus.folder_of(passing.folder.parent, ME.address) / f"{passing.envelope.hex()}.given").exists():
            break
        threading.Event().wait(0.01)
    open_case, disputes[0] = disputes[0], replace(disputes[0], phase=Phase.REVEAL)
    passing.step()
    disputes[0] = open_case
    for _ in range(REPEAT_BLOCKS):
        passing.step()
    eventually(passing)


def test_files_of_ended_disputes_go_also_those_of_an_earlier_process(passing: Passing) -> None:
    eventually(passing)
    (passing.folder / ("ab" * 32 + ".given")).write_bytes(b"half")
    (passing.folder / "note").write_bytes(b"not ours")
    passing.other.step(snapshot(number=passing.setup.chain.number + 1))
    assert [file.name for file in passing.folder.iterdir()] == ["note"]


def test_account_without_a_seat_neither_offers_nor_asks(passing: Passing, tmp_path: Path) -> None:
    archive, folder = passing.setup.archive, MessageBus.folder_of(tmp_path, LIAR)
    archive.keep_envelope(passing.data)
    stranger = signer("stranger").address
    outside = EnvelopeExchange(passing.bus.clients[LIAR], archive, stranger, folder)
    outside.step(passing.setup.chain.now())
    assert passing.bus.sent == [] and not folder.exists()


@pytest.mark.parametrize("phase", [Phase.REVEAL, Phase.FINAL])
def test_nothing_is_passed_after_the_commitments(passing: Passing, phase: Phase) -> None:
    disputes = passing.setup.chain.disputes
    disputes[0] = replace(disputes[0], phase=phase)
    passing.step()
    assert passing.bus.sent == []


def test_node_goes_on_and_says_once_that_its_gossip_process_is_away(passing: Passing, capsys: pytest.CaptureFixture[str]) -> None:
    passing.bus.close()
    for _ in range(3):
        passing.step()
    assert passing.setup.archive.envelope(passing.envelope) is None
    said = capsys.readouterr()
    assert (said.out + said.err).count('"gossip.away"') == 2, "once by each node"


def test_hung_gossip_process_costs_one_timeout_and_not_one_of_each_call(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        client = GossipClient(tmp_path / "s")
        with pytest.raises(TryAgain, match="no answer in"):
            client.take(TOPIC)
        for call in (lambda: client.take("root"), lambda: client.publish("root", {})):
            with pytest.raises(TryAgain, match="hung a moment ago"):
                call()
