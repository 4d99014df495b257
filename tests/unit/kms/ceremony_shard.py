"""A shard of key ceremonies as a process of its own, over HTTPS; run by `test_ceremony_soak`.

`python -m tests.unit.kms.ceremony_shard FOLDER PORT SCRIBE CHAIN [KILLED [FORGETFUL]]`: CHAIN is a file of what the chain says of
all epochs; `approved` beside it has digests of the plans that its operator approved, one a line. With KILLED, a file, it kills
itself by SIGKILL at every moment (`tests.unit.kms.moments`) that is not named there yet, and names it; a parent that imported
everything forks the next life at once. With FORGETFUL it has lost its seeds in every new life: a control must be found.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, update

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode
from bytewise.protocol.keys.ceremony_log import ExchangeAnswer
from bytewise.protocol.keys.epochs import EpochOnChain
from bytewise.protocol.units import Digest, address
from bytewise.service.exit_codes import Exit
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import open_database, writing
from bytewise.storage.tables import CeremonyRow
from kms.ceremony.authority import Trust
from kms.ceremony.participant import Desk, Holding
from kms.ceremony.responses import SEED_BYTES
from kms.shard.api import build_app, serve
from kms.storage import accounts, keyring
from kms.storage.sealing import Sealer, open_sealer
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


def killing(path: Path, step: int = 1) -> Moment:
    """Ends this process by SIGKILL at each moment that the file does not name yet, or at the first of every `step` of them."""

    def moment(name: str) -> None:
        known = path.read_text().splitlines()
        if name not in known:
            with path.open("a") as file:
                file.write(name + "\n")
                file.flush()
                os.fsync(file.fileno())
            if len(known) % step == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return moment


def live(folder: Path, port: int, scribe: str, chain: Path, moment: Moment, forgetful: bool = False) -> int:
    """One life of the shard."""
    engine = open_database(f"sqlite:///{folder / 'kms.sqlite'}")
    approvals = chain.with_name("approved")
    approved = approvals.read_text().split() if approvals.exists() else ()
    trust = Trust(31337, KEY_EPOCHS, address(scribe), frozenset(Digest(bytes.fromhex(each)) for each in approved), simulated=True)
    sealer = open_sealer(folder)
    holding = Holding(watch_folder(folder, moment), accounts.signer(folder, sealer), trust, sealer)
    if forgetful:
        forget(engine, holding.sealer)
    watch_database(engine, moment)
    desk = ToldDesk(holding, Ceremonies(engine), FileChain(chain), os.urandom)
    desk.moment = moment
    serve(build_app(None, desk), "127.0.0.1", port, folder / keyring.TLS_CERTIFICATE, folder / keyring.TLS_KEY)
    return 0


def forget(engine: Engine, sealer: Sealer) -> None:
    """Other seeds in the place of those that were stored."""
    with writing(engine) as connection:
        for plan in Ceremonies(engine).running():
            seed = sealer.seal(os.urandom(SEED_BYTES), digests.labelled(Label.CEREMONY_SEED, plan.digest))
            connection.execute(update(CeremonyRow).where(CeremonyRow.id == plan.digest).values(seed=seed))


def lives(live_once: Callable[[], int], after_death: Callable[[], object] = lambda: None) -> int:
    """Forks one life after the other until one ends otherwise than by SIGKILL; how that one ended."""
    while True:
        child = os.fork()
        if child == 0:
            code = int(Exit.INTERNAL)
            try:
                code = live_once()
            finally:
                if code == Exit.INTERNAL:
                    traceback.print_exc()
                sys.stdout.flush()
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != -signal.SIGKILL:
            return status
        after_death()


def main() -> int:
    """The program."""
    folder, port, scribe, chain = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    if len(sys.argv) == 5:
        return live(folder, port, scribe, chain, lambda _name: None)
    killed, forgetful = Path(sys.argv[5]), len(sys.argv) > 6
    return lives(lambda: live(folder, port, scribe, chain, killing(killed), forgetful))


if __name__ == "__main__":
    sys.exit(main())
