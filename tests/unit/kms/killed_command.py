"""A command of ours as a process that kills itself by SIGKILL at every moment; run by `test_killed_commands`.

`python -m tests.unit.kms.killed_command KILLED FOLDER STEP FLAW PROGRAM WORDS…`: PROGRAM is `bytewise` or `kms`. Every moment is
named in the file KILLED (`tests.unit.kms.moments`); with a STEP above 1 it dies at every so many of them only. A parent that
imported everything begins the same command again. KILLED.seen has the names of the folder's files after every death. FLAW, or
`none`, is what is wrong with the command: a control must be found.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from hexbytes import HexBytes

from bytewise.protocol.keys.ceremony import CeremonySeat, Erasure
from bytewise.protocol.keys.ceremony_log import Exchange, ExchangeAnswer
from bytewise.protocol.units import Blob
from bytewise.service.settings import child_environment
from bytewise.storage.ceremonies import Ceremonies
from chain.client.rpc import ChainClient
from cli.__main__ import main as bytewise_main
from kms.__main__ import main as kms_main
from kms.ceremony import erasure, session
from kms.ceremony.session import HttpsLink
from kms.storage import accounts
from kms.storage.sealing import Sealer
from tests.unit.kms.ceremony_shard import killing, lives
from tests.unit.kms.killed_shards import ROOT, end
from tests.unit.kms.moments import Moment, watch_databases, watch_folder

PATCH = pytest.MonkeyPatch()
"""Never undone: the process ends."""
LIMIT_S = 1500
"""For all lives of one command."""


def told_link(moment: Moment) -> type[HttpsLink]:
    """A way to a shard that has a moment before each exchange and after each answer."""

    class ToldLink(HttpsLink):
        def __init__(self, seat: CeremonySeat) -> None:
            super().__init__(seat)
            self._url = seat.url

        def exchange(self, asked: Exchange, timeout_s: float) -> ExchangeAnswer:
            moment(f"before exchange {self._url} {asked.before.length} {asked.after.length}")
            answer = super().exchange(asked, timeout_s)
            moment(f"after answer {self._url} {answer.length} {[each.kind for each in answer.messages]}")
            return answer

    return ToldLink


def tell(moment: Moment) -> None:
    """Watches what this process says, beside what it stores: to shards, and to the chain."""
    broadcast = ChainClient.broadcast

    def told_broadcast(client: ChainClient, raw: bytes) -> None:
        sent = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
        # Not the nonce: what the chain takes twice is sent again.
        what = f"broadcast {bytes(sent['data'])[:4].hex()}"
        moment(f"before {what}")
        broadcast(client, raw)
        moment(f"after {what}")

    PATCH.setattr(session, "HttpsLink", told_link(moment))
    PATCH.setattr(ChainClient, "broadcast", told_broadcast)


def forgetful() -> None:
    """A scribe that says what it did not store."""
    PATCH.setattr(Ceremonies, "append", lambda self, name, first, messages, end=None: first + len(messages))


def hasty() -> None:
    """A shard that says that shares are erased before they are."""
    erased = erasure._erased

    def said_before(folder: Path, said: Erasure, meant: Sequence[Blob], records: Ceremonies, sealer: Sealer) -> int:
        erasure._say(folder, said, None, 1, accounts.signer(folder, sealer))
        return erased(folder, said, meant, records, sealer)

    PATCH.setattr(erasure, "_erased", said_before)


class Killed(NamedTuple):
    """How a command went."""

    code: int
    """Of the life that was not killed."""
    moments: list[str]
    """At which it could have died, in order; with a step of 1 it did."""
    seen: list[list[str]]
    """The names in its folder after each death."""


def killed(place: Path, folder: Path, name: str, *words: object, step: int = 1, flaw: str = "none") -> Killed:
    """Runs a command that is watched in a folder until it ends; files of this name at `place` say what happened."""
    path, seen = place / name, (place / name).with_suffix(".seen")
    place.mkdir(exist_ok=True)
    path.touch()
    seen.touch()
    command = [sys.executable, "-m", "tests.unit.kms.killed_command", path, folder, step, flaw, *words]
    with path.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(
            list(map(str, command)), cwd=ROOT, env=child_environment(), stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = process.wait(LIMIT_S)
        finally:
            end(process)
    looked = [json.loads(line) for line in seen.read_text().splitlines()]
    print(f"{name}: {len(looked)} times SIGKILL, exit code {code}")
    return Killed(code, path.read_text().splitlines(), looked)


FLAWS = {"none": lambda: None, "forgetful": forgetful, "hasty": hasty}


def main() -> int:
    """The program."""
    killed, folder, step, flaw, program, *words = sys.argv[1:]
    moment = killing(Path(killed), int(step))

    def live() -> int:
        FLAWS[flaw]()
        tell(moment)
        watch_databases(moment)
        watch_folder(Path(folder), moment)
        sys.argv = [program, *words]
        return bytewise_main(words) if program == "bytewise" else kms_main()

    def look() -> None:
        with Path(killed).with_suffix(".seen").open("a") as seen:
            seen.write(json.dumps(sorted(path.name for path in Path(folder).iterdir())) + "\n")

    return lives(live, look)


if __name__ == "__main__":
    sys.exit(main())
