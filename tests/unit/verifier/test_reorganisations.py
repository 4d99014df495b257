"""What was read goes with its block, over real reorganisations and over deaths at every write: nothing stale, nothing lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.units import U64
from bytewise.service.clock import SystemClock
from bytewise.storage.archive import Archive, BlockMark, Cursor, SeenBatch
from bytewise.storage.engine import open_database
from chain.acts.actor import ContractSender
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import batch, deployed, fee_wei, reader, sender, signer
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.verifier_fixture import NETWORK, BlobShelf, MemoryChain, VerifierFixture
from verifier.watch.list_reader import NEW
from verifier.watch.records import Records


class Posting:
    """An operator that anchors one batch per block."""

    def __init__(self, anvil: Anvil, folder: Path) -> None:
        self.anvil = anvil
        self.network = deployed(anvil)
        anvil.automine(False)
        self.sender: ContractSender = sender(anvil, self.network, signer(1), folder)
        self.next_seq = 1

    def post(self) -> None:
        self.sender.anchor(batch(self.network, signer(1), self.next_seq, 1, 0).header, fee_wei(self.anvil, self.network, 1))
        self.next_seq += 1
        self.sender.pump()
        self.anvil.mine()
        self.sender.pump()

    def on_chain(self) -> dict[int, BatchHeader]:
        chain = reader(self.anvil, self.network)
        return {each.batch_id: each for each in chain.batches(0, chain.head())}


class Watcher:
    """The records of one node that reads a real chain."""

    def __init__(self, anvil: Anvil, network: Network, path: Path) -> None:
        if not path.exists():
            path.write_bytes(empty_database())
        database = open_database(f"sqlite:///{path}")
        self.chain = reader(anvil, network)
        self.archive, self.cursor = Archive(database, SystemClock()), Cursor(database, "batches")
        self.records = Records(self.chain, MemoryChain(), BlobShelf(), self.archive, self.cursor, network, fetch_deadline_s=60)

    def tick(self) -> None:
        self.records.follow(self.chain.snapshot(signer(3).address, self.chain.head()))

    @property
    def kept(self) -> dict[int, BatchHeader]:
        return {each.header.batch_id: each.header for each in self.archive.batches()}


@pytest.fixture
def posting(anvil: Anvil, tmp_path: Path) -> Posting:
    return Posting(anvil, tmp_path)


@pytest.mark.parametrize("depth", range(1, 9))
def test_reorganisation_removes_exactly_what_left_the_chain(anvil: Anvil, posting: Posting, tmp_path: Path, depth: int) -> None:
    watcher = Watcher(anvil, posting.network, tmp_path / "w.db")
    for _ in range(9):
        posting.post()
        watcher.tick()
    assert watcher.kept == posting.on_chain() and len(watcher.kept) == 9
    height = anvil.client.head().number
    anvil.reorganise(depth)
    watcher.tick()
    assert watcher.kept == posting.on_chain() and len(watcher.kept) == 9 - depth
    head = watcher.cursor.head()
    assert head is not None and head.number == height - depth
    for _ in range(2):
        posting.post()
        watcher.tick()
    assert watcher.kept == posting.on_chain(), "batches that were mined again have other headers"


@pytest.mark.parametrize("depth", [16, 33, 64])
def test_deep_reorganisation_removes_exactly_what_left_the_chain(
    anvil: Anvil, posting: Posting, tmp_path: Path, depth: int
) -> None:
    watcher = Watcher(anvil, posting.network, tmp_path / "w.db")
    for _ in range(5):
        posting.post()
        anvil.rpc("anvil_mine", hex(14))
        watcher.tick()
    before = posting.on_chain()
    assert watcher.kept == before and len(before) == 5
    height = anvil.client.head().number
    anvil.reorganise(depth)
    watcher.tick()
    stayed = {number: header for number, header in before.items() if header.block <= height - depth}
    assert watcher.kept == posting.on_chain() == stayed and 0 < len(stayed) < 5
    posting.sender.pump()
    anvil.mine()
    watcher.tick()
    assert watcher.kept == posting.on_chain() and len(watcher.kept) > len(stayed), "its operator sent again what vanished"


def test_reorganisation_during_downtime_is_noticed_at_the_next_start(anvil: Anvil, posting: Posting, tmp_path: Path) -> None:
    watcher = Watcher(anvil, posting.network, tmp_path / "w.db")
    posting.post()
    posting.post()
    watcher.tick()
    anvil.reorganise(2)
    anvil.mine(5)
    again = Watcher(anvil, posting.network, tmp_path / "w.db")
    again.tick()
    assert again.kept == posting.on_chain() == {}


def test_lagging_node_is_waited_for(anvil: Anvil, posting: Posting, tmp_path: Path) -> None:
    watcher = Watcher(anvil, posting.network, tmp_path / "w.db")
    snapshot = anvil.rpc("evm_snapshot")
    posting.post()
    watcher.tick()
    kept = watcher.kept
    anvil.rpc("evm_revert", snapshot)
    with pytest.raises(TryAgain):
        watcher.tick()
    assert watcher.kept == kept != {}, "a missing block proves nothing"
    anvil.mine(3)
    watcher.tick()
    assert watcher.kept == posting.on_chain() == {}


class Killed(Exception):
    """The process ended here."""


class DyingArchive(Archive):
    """Dies once, at a call of one of its writes, before or after it is done."""

    dies_at = ""

    def _at(self, place: str) -> None:
        if self.dies_at == place:
            self.dies_at = ""
            raise Killed(place)

    def rewind(self, block: int) -> None:
        self._at("before archive.rewind")
        super().rewind(block)
        self._at("after archive.rewind")

    def add_batch(self, header: BatchHeader, state: str = NEW) -> SeenBatch:
        added = super().add_batch(header, state)
        self._at("after add_batch")
        return added


class DyingCursor(Cursor):
    """Dies once, before it is rewound."""

    dies_at = ""

    def rewind(self, number: int) -> BlockMark | None:
        if self.dies_at == "before cursor.rewind":
            self.dies_at = ""
            raise Killed("before cursor.rewind")
        return super().rewind(number)


class Reorganised:
    """A node that saw one batch in a block that stays, and dies at a place once the chain has another block for the second."""

    def __init__(self, folder: Path, dies_at: str) -> None:
        self.setup = VerifierFixture(folder)
        database = self.setup.database
        self.archive, self.cursor = DyingArchive(database, self.setup.clock), DyingCursor(database, "batches")
        self.setup.records = Records(
            self.chain, self.chain, self.setup.shelf, self.archive, self.cursor, NETWORK, fetch_deadline_s=60
        )
        self.kept = self.setup.anchor(self.setup.signed(1), block=U64(12))
        self.chain.number = 14
        self.follow()
        self.first = self.setup.anchor(self.setup.signed(2), first_seq=U64(2), block=U64(18))
        self.chain.number = 20
        if dies_at == "after add_batch":
            self.archive.dies_at = dies_at
            self.dies()
        else:
            self.follow()
        self.branch("other", 19)
        if dies_at != "after add_batch":
            self.archive.dies_at = self.cursor.dies_at = dies_at
            self.dies()

    @property
    def chain(self) -> MemoryChain:
        return self.setup.chain

    def follow(self) -> None:
        self.setup.records.follow(self.chain.now())

    def dies(self) -> None:
        with pytest.raises(Killed):
            self.follow()

    def branch(self, name: str, block: int) -> None:
        """The chain has this branch now, with the second batch in this block of it."""
        self.chain.branch, self.chain.headers = name, [self.kept]
        self.setup.anchor(self.setup.signed(2), first_seq=U64(2), block=U64(block))
        self.chain.pass_time(1)

    def go_back(self) -> None:
        """The chain has the first branch again."""
        self.chain.branch, self.chain.headers = "main", [self.kept, self.first]
        self.chain.pass_time(1)

    def seen(self) -> list[BatchHeader]:
        return [each.header for each in self.setup.archive.batches()]


PLACES = ["before cursor.rewind", "before archive.rewind", "after archive.rewind", "after add_batch"]


@pytest.mark.parametrize("goes_back", [False, True])
@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_crash_at_any_write_of_a_reorganisation_heals_at_the_next_start(
    tmp_path: Path, place: str, restarts: bool, goes_back: bool
) -> None:
    world = Reorganised(tmp_path, place)
    if goes_back:
        world.go_back()
    if restarts:
        world.setup.reopen()
    world.follow()
    assert world.seen() == world.chain.headers and len(world.seen()) == 2


class MovingChain(MemoryChain):
    """Reorganises while its batches are read."""

    meanwhile: Callable[[], object] | None = None

    def batches(self, from_block: int, to_block: int) -> tuple[BatchHeader, ...]:
        found = super().batches(from_block, to_block)
        if self.meanwhile is not None:
            self.meanwhile()
        return found

    def reorganise(self) -> None:
        self.branch = "other"


def test_nothing_is_stored_from_a_chain_that_moved_during_the_read(setup: VerifierFixture) -> None:
    chain = setup.chain = MovingChain()
    setup.reopen()
    setup.anchor(setup.signed(1), block=U64(18))
    chain.meanwhile = chain.reorganise
    with pytest.raises(TryAgain, match="reorganised while events were read"):
        setup.records.follow(chain.now())
    assert setup.archive.batches() == () and Cursor(setup.database, "batches").head() is None
    chain.meanwhile = None
    setup.records.follow(chain.now())
    assert len(setup.archive.batches()) == 1
