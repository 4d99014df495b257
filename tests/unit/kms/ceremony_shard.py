"""A shard of key ceremonies as a process of its own, over HTTPS; run by `test_ceremony_soak`.

`python -m tests.unit.kms.ceremony_shard FOLDER PORT SCRIBE CHAIN [KILLED]`: CHAIN is a file of what the chain says of all epochs.
With KILLED, a file, it kills itself by SIGKILL at every moment (`tests.unit.kms.moments`) that is not named there yet, and names
it; a parent that imported everything forks the next life at once.
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.ceremony_log import ExchangeAnswer
from bytewise.protocol.encoding import decode
from bytewise.protocol.keys import EpochOnChain
from bytewise.protocol.units import address
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import open_database
from kms import keyring
from kms.api import build_app, serve
from kms.dkg.authority import Trust
from kms.dkg.desk import Desk, Holding
from kms.sealing import open_sealer
from tests.unit.kms.ceremonies import KEY_EPOCHS
from tests.unit.kms.moments import Moment, watch_database, watch_folder


@dataclass(frozen=True)
class FileChain:
    """`CeremonyView` of a file that the test writes."""

    path: Path

    def key_epoch(self, epoch: int) -> EpochOnChain:
        """What the file says, of whatever epoch."""
        return decode(EpochOnChain, self.path.read_bytes())

    def is_open_for_disputes(self, epoch: int) -> bool:
        """Nothing here is compromised."""
        return True


class ToldDesk(Desk):
    """A desk that has a moment before each answer."""

    moment: Moment

    def exchange(self, body: bytes) -> ExchangeAnswer:
        """As the desk answers."""
        answer = super().exchange(body)
        self.moment(f"before answer {answer.length} {[each.kind for each in answer.messages]}")
        return answer


def killing(path: Path) -> Moment:
    """Ends this process by SIGKILL at each moment that the file does not name yet."""

    def moment(name: str) -> None:
        if name not in path.read_text().splitlines():
            with path.open("a") as file:
                file.write(name + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.kill(os.getpid(), signal.SIGKILL)

    return moment


def live(folder: Path, port: int, scribe: str, chain: Path, moment: Moment) -> None:
    """One life of the shard."""
    engine = watch_database(open_database(f"sqlite:///{folder / 'kms.sqlite'}"), moment)
    trust = Trust(31337, KEY_EPOCHS, address(scribe), frozenset(), simulated=True)
    holding = Holding(watch_folder(folder, moment), keyring.signer(folder), trust, open_sealer(folder))
    desk = ToldDesk(holding, Ceremonies(engine), FileChain(chain), os.urandom)
    desk.moment = moment
    serve(build_app(None, desk), "127.0.0.1", port, folder / keyring.TLS_CERTIFICATE, folder / keyring.TLS_KEY)


def lives(live_once: Callable[[], None]) -> int:
    """Forks one life after the other until one ends otherwise than by SIGKILL."""
    while True:
        child = os.fork()
        if child == 0:
            live_once()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != -signal.SIGKILL:
            return status


def main() -> int:
    """The program."""
    folder, port, scribe, chain = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    if len(sys.argv) == 5:
        live(folder, port, scribe, chain, lambda _name: None)
        return 0
    return lives(lambda: live(folder, port, scribe, chain, killing(Path(sys.argv[5]))))


if __name__ == "__main__":
    sys.exit(main())
