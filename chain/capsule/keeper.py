"""The periodic job of a node that makes a capsule of each finished dispute, and puts it into a folder of bounded size.

The chain stores the hashes of only the newest 8,191 blocks (EIP-2935). So only a capsule that is made soon after the votes can
prove the events with their quotes.
"""

from collections.abc import Mapping
from pathlib import Path

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


class CapsuleKeeper:
    """Makes capsules of the disputes of one network. After a restart it skips disputes whose capsule file exists."""

    def __init__(
        self, chain: Chain, network: Network, settings: CapsuleSettings, journal: CheckpointKeeper | None = None
    ) -> None:
        """`journal` is this node's journal. The capsule includes its entries about the receipt and the dispute."""
        self._journal = journal
        self._chain, self._network, self._settings = chain, network, settings
        self._documents = RegistryDocuments(SnapshotReader(chain, network))
        self._next_block = int(network.deploy_block)
        self._waiting: dict[Digest, None] = {}

    def job(self) -> PeriodicJob:
        """Returns the periodic job that makes the capsules. `run_ticks` runs it."""
        return PeriodicJob("capsules", self.run, self._settings.every_s)

    def run(self) -> None:
        """Makes the capsules of disputes that ended since the last run, and retries those that could not be made then.

        Raises `TryAgain` if the folder cannot be used.
        """
        with retry_folder(self._settings.folder):
            self._look()

    def _look(self) -> None:
        """Finds the disputes that ended, makes the capsules that are missing, and deletes the oldest files beyond the limit."""
        head = self._chain.head(self._settings.finality).number
        if head >= self._next_block:
            ended = self._chain.logs("Disputes", self._network.addresses.disputes, ["Finalized"], self._next_block, head)
            self._waiting |= {Digest(each.values["id"]): None for each in ended}
            self._next_block = head + 1
        for dispute in list(self._waiting):
            if self._file(dispute).exists() or self._made(dispute):
                del self._waiting[dispute]
        self._delete_oldest()

    def _made(self, dispute: Digest) -> bool:
        """Makes the capsule of a dispute. Returns whether nothing is left to do: the file is written, or the node does not show
        the disputed receipt."""
        member = disputed_member(self._chain, self._network, dispute)
        if member is None:
            telemetry.log("capsule.skipped", dispute=dispute, why="opened through another contract: make it by the receipt's id")
            return True
        try:
            head = self._chain.head().number
            environment = self._documents.environment(member.receipt.environment, head)
        except UnknownEnvironment:
            environment = None
        try:
            enclosed = Enclosed(environment, own_journal=self._journal)
            data = make_capsule(self._chain, self._network, member, enclosed, self._settings.finality)
        except Unavailable as error:
            telemetry.log_error("capsule.failed", error, dispute=dispute)
            return False
        self._settings.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self._file(dispute), data)
        telemetry.log("capsule.made", dispute=dispute, size=len(data))
        return True

    def _delete_oldest(self) -> None:
        kept: Mapping[Path, float] = {
            each: each.stat().st_mtime for each in self._settings.folder.glob(f"0x*{SUFFIX}") if each.is_file()
        }
        for file in sorted(kept, key=lambda each: (kept[each], each.name))[: -self._settings.most]:
            file.unlink(missing_ok=True)
            telemetry.log("capsule.deleted", file=file.name)

    def _file(self, dispute: Digest) -> Path:
        return self._settings.folder / f"{hex0x(dispute)}{SUFFIX}"
