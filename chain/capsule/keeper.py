"""The periodic job of a node that makes a capsule of each finished dispute, and puts it into a folder of bounded size.

A capsule has the quotes of the votes only if it is made soon: a contract can read the hashes of the newest 8,191 blocks, and with
those hashes the capsule proves the events of the votes.
"""

from pathlib import Path
from typing import NamedTuple

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.errors.records import UnknownEnvironment
from bytewise.protocol.units import Digest, hex0x
from bytewise.service import telemetry
from bytewise.service.files import replace_file, retry_folder
from bytewise.service.schedule import PeriodicJob
from bytewise.service.sections import CapsuleSettings
from bytewise.storage.checkpoints import CheckpointKeeper
from chain.capsule.maker import Enclosed, disputed_member, make_capsule
from chain.capsule.schema import SUFFIX
from chain.client.access import Chain
from chain.reads.reader import RegistryDocuments, SnapshotReader


class _Failure(NamedTuple):
    """The blocks of the attempts to make one capsule."""

    first: int
    """Block of the first attempt."""
    following: int
    """Block from which the next attempt may be made."""


class CapsuleKeeper:
    """Makes capsules of the disputes of one network, and keeps those of the disputes that ended last.

    After a restart it skips disputes whose capsule file exists. It deletes no capsule of an undisputed receipt, and none of a
    dispute that the chain does not have.
    """

    def __init__(
        self, chain: Chain, network: Network, settings: CapsuleSettings, journal: CheckpointKeeper | None = None
    ) -> None:
        """`journal` is this node's journal. The capsule includes its entries about the receipt and the dispute."""
        self._journal = journal
        self._chain, self._network, self._settings = chain, network, settings
        self._documents = RegistryDocuments(SnapshotReader(chain, network))
        self._next_block = int(network.deploy_block)
        self._ended: dict[Digest, None] = {}  # in the order in which the disputes ended
        self._waiting: dict[Digest, _Failure | None] = {}

    def job(self) -> PeriodicJob:
        """Returns the periodic job that makes the capsules. `run_ticks` runs it."""
        return PeriodicJob("capsules", self.run, self._settings.every_s)

    def run(self) -> None:
        """Makes the capsules of disputes that ended since the last run, and retries those that could not be made then.

        The pauses between the attempts for one dispute grow with the time since the first of them. Raises `TryAgain` if the
        folder cannot be used or the node is down.
        """
        with retry_folder(self._settings.folder):
            self._look()

    def _look(self) -> None:
        """Finds the disputes that ended, makes the capsules that are missing, and deletes those of the oldest disputes beyond the
        limit.

        The newest dispute comes first, and a capsule that the limit would delete again is not made.
        """
        head = self._chain.head(self._settings.finality).number
        if head >= self._next_block:
            logs = self._chain.logs("Disputes", self._network.addresses.disputes, ["Finalized"], self._next_block, head)
            ended = [Digest(each.values["id"]) for each in logs]
            self._waiting |= dict.fromkeys(each for each in ended if each not in self._ended)
            self._ended |= dict.fromkeys(ended)
            self._next_block = head + 1
        room = self._settings.most
        for dispute in reversed(list(self._ended)):
            if room == 0:
                break
            if dispute in self._waiting:
                self._attempt(dispute, head)
            # While the capsule of a newer dispute is missing, that of an older one takes its place.
            room -= self._file(dispute).exists()
        self._delete_oldest()

    def _attempt(self, dispute: Digest, head: int) -> None:
        """Makes the capsule of a dispute, unless its file exists or the next attempt is not due. Raises `TryAgain` if the node is
        down."""
        failure = self._waiting[dispute]
        if failure is not None and head < failure.following:
            return
        try:
            if not self._file(dispute).exists() and not self._make(dispute):
                del self._ended[dispute]
        except Unavailable as error:
            telemetry.log_error("capsule.failed", error, dispute=dispute)
            first = head if failure is None else failure.first
            # Each pause is a quarter of the time since the first attempt, so the number of attempts grows with its logarithm.
            self._waiting[dispute] = _Failure(first, head + 1 + (head - first) // 4)
            self._chain.head()  # a node that is down fails the job, which would otherwise wait for each dispute
            return
        del self._waiting[dispute]

    def _make(self, dispute: Digest) -> bool:
        """Makes the capsule of a dispute. Returns False if nobody can make it from the chain alone. Raises `Unavailable` if a
        later attempt may succeed."""
        member = disputed_member(self._chain, self._network, dispute)
        if member is None:
            telemetry.log("capsule.skipped", dispute=dispute, why="opened through another contract: make it by the receipt's id")
            return False
        try:
            head = self._chain.head().number
            environment = self._documents.environment(member.receipt.environment, head)
        except UnknownEnvironment:
            environment = None
        enclosed = Enclosed(environment, own_journal=self._journal)
        data = make_capsule(self._chain, self._network, member, enclosed, self._settings.finality)
        self._settings.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self._file(dispute), data)
        telemetry.log("capsule.made", dispute=dispute, size=len(data))
        return True

    def _delete_oldest(self) -> None:
        """Deletes the capsules of the disputes that ended first, beyond the limit. Times of files mean nothing: a copy of the
        folder has others."""
        present = {each.name for each in self._settings.folder.glob(f"0x*{SUFFIX}") if each.is_file()}
        kept = [file for dispute in self._ended if (file := self._file(dispute)).name in present]
        for file in kept[: -self._settings.most]:
            file.unlink(missing_ok=True)
            telemetry.log("capsule.deleted", file=file.name)

    def _file(self, dispute: Digest) -> Path:
        return self._settings.folder / f"{hex0x(dispute)}{SUFFIX}"
