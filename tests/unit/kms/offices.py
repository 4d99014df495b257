"""Shards with folders, databases and desks, and a scribe that reaches them by a call, not a network; any store can crash."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.keys.ceremony import CeremonySeat, Plan, Purpose, SharesSource, announce
from bytewise.protocol.keys.ceremony_log import Exchange, ExchangeAnswer, Message, bring
from bytewise.protocol.keys.epochs import EpochOnChain, EpochState
from bytewise.protocol.units import U64, U256, ZERO_DIGEST, Address, Blob, Digest
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import open_database
from bytewise.storage.migrate import migrate
from kms.ceremony.authority import Trust
from kms.ceremony.coordinator import Scribe, ShardLink
from kms.ceremony.participant import Desk, Holding
from kms.storage import accounts, keyring
from kms.storage.sealing import IN_FOLDER, Sealer, Sealing, open_sealer
from tests.unit.kms.ceremonies import KEY_EPOCHS, SCRIBE
from tests.unit.kms.moments import Crash, Fuse, watch_database, watch_folder

NO_EPOCH = EpochOnChain(EpochState.NONE, Blob(b""), Blob(b""), (), 0, 0, ZERO_DIGEST)


class OneEpoch:
    """`CeremonyView` of a chain that has one epoch, or none."""

    def __init__(self) -> None:
        self.epoch, self.open_for_disputes = NO_EPOCH, True

    def key_epoch(self, epoch: int) -> EpochOnChain:
        return self.epoch

    def is_open_for_disputes(self, epoch: int) -> bool:
        return self.open_for_disputes


CHANNEL = "127.0.0.1:1"
"""Where nobody is asked for partials: ceremonies go over HTTPS."""


class Office:
    """One shard: a folder with keys, a database, and a desk that is opened anew after every crash."""

    def __init__(
        self, folder: Path, number: int, chain: OneEpoch, template: Path, port: int, sealing: Sealing = IN_FOLDER
    ) -> None:
        self.folder, self.port, self.channel, self.chain, self.sealing = folder, port, CHANNEL, chain, sealing
        keyring.enrol(folder, self.url, os.urandom, sealing)
        shutil.copy(template, folder / "kms.sqlite")
        self.signer = accounts.signer(folder, open_sealer(folder, sealing))
        self.fuse, self.away, self.approved, self.key_epochs = Fuse(), False, frozenset[Digest](), KEY_EPOCHS
        watch_folder(folder, lambda name: self.fuse.moment(name))
        self.release_shares = False
        self.words: dict[tuple[Digest, str], set[bytes]] = {}
        self._desk: Desk | None = None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def seat(self, index: int) -> CeremonySeat:
        """This shard in a plan."""
        return CeremonySeat(index, self.signer.address, self.url, self.channel, keyring.certificate(self.folder))

    def restart(self) -> Desk:
        """A desk that knows only what is on the disk."""
        trust = Trust(31337, self.key_epochs, SCRIBE.address, self.approved, simulated=True, release_shares=self.release_shares)
        self._desk = Desk(Holding(self.folder, self.signer, trust, self.sealer()), self.ceremonies(), self.chain, os.urandom)
        return self._desk

    def ceremonies(self) -> Ceremonies:
        """Its store, as a new process finds it."""
        return fused_ceremonies(self.folder / "kms.sqlite", self.fuse)

    def exchange(self, asked: Exchange, timeout_s: float = 20.0) -> ExchangeAnswer:
        """As the scribe reaches it; a crash is a connection that broke, and the next call meets a new process."""
        if self.away:
            raise TryAgain(self.url, "not there")
        try:
            answer = (self._desk or self.restart()).exchange(encode(asked))
            self.fuse.moment(f"before answer {answer.length} {[each.kind for each in answer.messages]}")
        except Crash:
            self._desk = None
            raise TryAgain(self.url, "crashed") from None
        for message in answer.messages:
            self.words.setdefault((message.ceremony, message.kind), set()).add(encode(message))
        return decode(ExchangeAnswer, encode(answer))

    def share(self, epoch: int, commitments: Sequence[Blob]) -> int:
        """The share that fits these commitments."""
        return keyring.find_share(self.folder, epoch, commitments, self.sealer()).scalar()

    def sealer(self) -> Sealer:
        """What seals its shares, as a new process opens it."""
        return open_sealer(self.folder, self.sealing)


def offices(
    folder: Path, count: int, first: int = 1, base: int = 7000, sealing: Sealing = IN_FOLDER
) -> tuple[list[Office], OneEpoch]:
    """Shards in folders of their own, at ports from `base` on, and the chain that they look at."""
    template, chain = folder / "template.sqlite", OneEpoch()
    folder.mkdir(parents=True, exist_ok=True)
    migrate(f"sqlite:///{template}")
    return [Office(folder / f"shard-{n}", n, chain, template, base + n, sealing) for n in range(first, first + count)], chain


def plan(
    receivers: Iterable[Office],
    threshold: int,
    quorum: int,
    *,
    dealers: dict[int, Office] | None = None,
    source: SharesSource | None = None,
    heir: CeremonySeat | None = None,
    epoch: int = 3,
) -> Plan:
    """A plan for these offices."""
    seats = tuple(each.seat(i) for i, each in enumerate(receivers, start=1))
    dealing = seats if dealers is None else tuple(each.seat(i) for i, each in sorted(dealers.items()))
    purpose = Purpose.GENERATE if source is None else Purpose.REPAIR if heir else Purpose.RESHARE
    return Plan(
        purpose=purpose, chain_id=U256(31337), key_epochs=KEY_EPOCHS, epoch=U64(epoch), attempt=Digest(os.urandom(32)),
        scribe=SCRIBE.address, dealers=dealing, receivers=seats, heir=heir, threshold=threshold, quorum=quorum,
        reveal_budget=1, source=source, assurance="simulated",
    )  # fmt: skip


def fused_ceremonies(path: Path, fuse: Fuse) -> Ceremonies:
    """The store of a process that has just started."""
    fuse.dead = False
    return Ceremonies(watch_database(open_database(f"sqlite:///{path}"), fuse.moment))


def scribe_of(folder: Path, agreed: Plan, parties: Iterable[Office], fuse: Fuse | None = None) -> Scribe:
    """A scribe of these offices."""
    return scribe_over(folder, agreed, {each.signer.address: each for each in parties}, fuse)


def scribe_over(folder: Path, agreed: Plan, links: Mapping[Address, ShardLink], fuse: Fuse | None = None) -> Scribe:
    """A scribe with its log in a folder, and these ways to shards."""
    if not (folder / "scribe.sqlite").exists():
        shutil.copy(folder / "template.sqlite", folder / "scribe.sqlite")
    return Scribe(agreed, SCRIBE, fused_ceremonies(folder / "scribe.sqlite", fuse or Fuse()), links)


def brought(agreed: Plan, messages: tuple[Message, ...] = ()) -> Exchange:
    """What the scribe brings to who has nothing yet."""
    return bring(SCRIBE, announce(SCRIBE, agreed), 0, messages, agreed.digest)


class Turns:
    """A clock that moves when somebody waits: no test takes longer for a deadline."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds
