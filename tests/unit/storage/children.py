"""What a second process does in a test: `python -m tests.unit.storage.children ROLE URL ARGUMENT`.

A child says `ready`, waits for a line on its input, works, prints one JSON line and ends with exit code 0.
"""

import json
import subprocess
import sys
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bytewise.protocol.errors.actors import LaneLost, LaneOwned, SecondVote
from bytewise.protocol.errors.records import SequenceBroken
from bytewise.protocol.units import Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.service.settings import child_environment
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal
from bytewise.storage.nonce_lease import Lane
from bytewise.storage.outbox import Intent, Outbox, Signed
from bytewise.storage.protection import Protection
from bytewise.storage.receipt_store import Books, Issued
from tests.source import ROOT
from tests.unit.storage.records import ACCOUNT, name, signed_receipt, vote

JOURNAL_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
LIMIT_S = 60.0


def intent(number: int) -> Intent:
    """An intent that is easy to tell from others."""
    return Intent(ACCOUNT, "commit", name(number), "vote", b"calldata", 10**20, 0)


def signed(nonce: int, fee: int = 0) -> Signed:
    """Stands for a signed transaction with that nonce."""
    return Signed(Blob(b"raw %d %d" % (nonce, fee)), name(1000 * fee + nonce))


class Child:
    """A child process that does one role."""

    def __init__(self, role: str, url: str, argument: int) -> None:
        command = [sys.executable, "-m", "tests.unit.storage.children", role, url, str(argument)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stdin=pipe, stdout=pipe, text=True)

    def wait_ready(self) -> None:
        """Returns when the child is at its starting line."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def go(self) -> None:
        """Lets it work."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def result(self) -> Any:
        """What it printed; asserts its exit code."""
        output, _ = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode == 0
        return json.loads(output)

    def line(self) -> str:
        """One line of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """SIGKILL; asserts that it was what ended the child."""
        self.process.kill()
        self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode == -9


def race(*children: Child) -> list[Any]:
    """Starts the children's work at once; their results."""
    for child in children:
        child.wait_ready()
    for child in children:
        child.go()
    return [child.result() for child in children]


def _vote(url: str, says: int) -> list[int]:
    """Votes in 60 rounds; returns the rounds in which it was allowed to."""
    table, won = Protection(open_database(url), SystemClock()), []
    for number in range(60):
        try:
            table.sign_once(vote(dispute=number, says=says), Blob(b"quote"))
            won.append(number)
        except SecondVote:
            pass
    return won


def _journal(url: str, count: int) -> int:
    journal = Journal(open_database(url), JOURNAL_KEY, SystemClock())
    for number in range(count):
        journal.append("test", b"subject", {"number": number})
    return count


def _lane(url: str, _argument: int) -> bool:
    try:
        return Lane(open_database(url), SystemClock(), 1, ACCOUNT).acquire() > 0
    except LaneOwned:
        return False


def _books(url: str, worker: int) -> list[int]:
    """Issues 30 receipts beside another process; returns the numbers it got."""
    books = Books(open_database(url), SystemClock(), ACCOUNT)
    numbers: list[int] = []
    while len(numbers) < 30:
        seq, key = books.next_seq(), Digest(bytes([worker] * 31 + [len(numbers)]))
        try:
            books.issue(key, [Issued(name(seq), signed_receipt(seq), b"envelope", b"answer")])
            numbers.append(seq)
        except SequenceBroken:
            pass  # the other process was faster
    return numbers


def _nonces(url: str, worker: int) -> list[int]:
    """Signs 20 intents in a lane whose lease ends at once, so that another process takes it at any moment; returns its nonces."""
    engine = open_database(url)
    taken: list[int] = []
    for _ in range(2000):
        # As a process that started again: one that lost its lease never takes it a second time.
        outbox = Outbox(Lane(engine, SystemClock(), 1, ACCOUNT, ttl_s=0))
        item = outbox.plan(intent(100 * worker + len(taken)))
        try:
            outbox.lane.acquire()
            taken.append(outbox.sign(item.id, 0, signed).nonce)
        except (LaneLost, LaneOwned):
            # Owned: who waits for the row may come with a second that is over.
            continue
        if len(taken) == 20:
            break
    return taken


def _sign_and_hang(url: str, broadcast: int) -> None:
    """Signs an intent, says so and waits to be killed."""
    outbox = Outbox(Lane(open_database(url), SystemClock(), 1, ACCOUNT, ttl_s=1))
    outbox.lane.acquire()
    item = outbox.plan(intent(1))
    attempt = outbox.sign(item.id, 5, signed)
    if broadcast:
        outbox.broadcast(item.id, attempt.tx_hash)
    print("signed", flush=True)
    sys.stdin.readline()


ROLES = {"vote": _vote, "journal": _journal, "lane": _lane, "books": _books, "nonces": _nonces, "sign": _sign_and_hang}


def main() -> None:
    """Runs one role."""
    _, role, url, argument = sys.argv
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(ROLES[role](url, int(argument))), flush=True)


if __name__ == "__main__":
    main()
