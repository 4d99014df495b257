"""Events are delivered in order, at least once, and taken back when the chain takes them back."""

from pathlib import Path

import pytest

from bytewise.protocol.network import Network
from bytewise.protocol.receipt import BatchHeader
from bytewise.storage.cursor import Cursor
from bytewise.storage.engine import open_database
from chain.events import BatchPosted, EventLog, Poll
from chain.intents import ContractSender
from tests.anvil import Anvil
from tests.devnet import batch, deployed, empty_database, reader, sender, signer


class Watcher:
    """What an actor does with polls: keeps batches with their blocks, and deletes what was taken back."""

    def __init__(self, anvil: Anvil, network: Network, path: Path, blocks_per_poll: int = 500) -> None:
        if not path.exists():
            path.write_bytes(empty_database())
        cursor = Cursor(open_database(f"sqlite:///{path}"), "test")
        self.log = EventLog(reader(anvil, network), cursor, blocks_per_poll)
        self.kept: dict[int, BatchHeader] = {}
        self.rewinds: list[int] = []

    def tick(self, finish: bool = True) -> Poll:
        poll = self.log.poll()
        if poll.rewound_to is not None:
            self.rewinds.append(poll.rewound_to)
            self.kept = {key: each for key, each in self.kept.items() if each.block <= poll.rewound_to}
        self.kept |= {each.batch.batch_id: each.batch for each in poll.events if isinstance(each, BatchPosted)}
        if finish:
            self.log.finish(poll)
        return poll


class Posting:
    """An operator that anchors one batch per block."""

    def __init__(self, anvil: Anvil, folder: Path) -> None:
        self.anvil = anvil
        self.network = deployed(anvil)
        anvil.automine(False)
        self.sender: ContractSender = sender(anvil, self.network, signer(1), folder)
        self.next_seq = 1

    def post(self) -> None:
        self.sender.anchor(batch(self.network, signer(1), self.next_seq, 1, 0).header)
        self.next_seq += 1
        self.sender.pump()
        self.anvil.mine()
        self.sender.pump()

    def on_chain(self) -> dict[int, BatchHeader]:
        chain = reader(self.anvil, self.network)
        return {each.batch_id: each for each in chain.batches(0, chain.head())}


@pytest.fixture
def posting(anvil: Anvil, tmp_path: Path) -> Posting:
    return Posting(anvil, tmp_path)


def test_each_block_is_read_once(anvil: Anvil, posting: Posting, tmp_path: Path) -> None:
    watcher = Watcher(anvil, posting.network, tmp_path / "w.db")
    posting.post()
    assert [type(each) for each in watcher.tick().events] == [BatchPosted]
    assert watcher.tick() == Poll(None, (), None)
    posting.post()
    posting.post()
    assert len(watcher.tick().events) == 2
    assert watcher.kept == posting.on_chain() and len(watcher.kept) == 3


def test_what_was_not_finished_is_delivered_again_also_after_a_restart(anvil: Anvil, posting: Posting, tmp_path: Path) -> None:
    watcher = Watcher(anvil, posting.network, tmp_path / "w.db")
    posting.post()
    first = watcher.tick(finish=False)
    assert watcher.tick(finish=False) == first
    again = Watcher(anvil, posting.network, tmp_path / "w.db")
    assert again.tick() == first
    assert Watcher(anvil, posting.network, tmp_path / "w.db").tick().events == ()


def test_a_late_reader_catches_up_in_bounded_steps(anvil: Anvil, posting: Posting, tmp_path: Path) -> None:
    for _ in range(3):
        posting.post()
    watcher = Watcher(anvil, posting.network, tmp_path / "w.db", blocks_per_poll=2)
    polls = 0
    while watcher.tick().to_block is not None:
        polls += 1
    # How many blocks a deployment takes is anvil's affair.
    blocks = anvil.client.head().number - posting.network.deploy_block + 1
    assert watcher.kept == posting.on_chain() and polls == (blocks + 1) // 2


@pytest.mark.parametrize("depth", range(1, 9))
def test_a_reorganisation_takes_back_exactly_what_left_the_chain(
    anvil: Anvil, posting: Posting, tmp_path: Path, depth: int
) -> None:
    watcher = Watcher(anvil, posting.network, tmp_path / "w.db")
    for _ in range(9):
        posting.post()
        watcher.tick()
    before = watcher.kept
    assert before == posting.on_chain() and len(before) == 9
    height = anvil.client.head().number
    anvil.reorganise(depth)
    watcher.tick()
    assert watcher.rewinds == [height - depth]
    assert watcher.kept == posting.on_chain()
    assert len(watcher.kept) == 9 - depth
    anvil.mine(2)
    watcher.tick()
    assert watcher.rewinds == [height - depth] and watcher.kept == posting.on_chain()


def test_a_reorganisation_while_nobody_looked_is_noticed(anvil: Anvil, posting: Posting, tmp_path: Path) -> None:
    watcher = Watcher(anvil, posting.network, tmp_path / "w.db")
    posting.post()
    posting.post()
    watcher.tick()
    anvil.reorganise(2)
    anvil.mine(5)
    watcher.tick()
    assert watcher.kept == posting.on_chain() == {}


def test_a_node_that_is_behind_is_waited_for(anvil: Anvil, posting: Posting, tmp_path: Path) -> None:
    watcher = Watcher(anvil, posting.network, tmp_path / "w.db")
    snapshot = anvil.rpc("evm_snapshot")
    posting.post()
    watcher.tick()
    kept = watcher.kept
    anvil.rpc("evm_revert", snapshot)
    assert watcher.tick() == Poll(None, (), None)
    assert watcher.kept == kept, "a missing block proves nothing"
    anvil.mine(3)
    watcher.tick()
    assert watcher.kept == posting.on_chain() == {} and len(watcher.rewinds) == 1
