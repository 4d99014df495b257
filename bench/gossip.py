"""Tests eight gossip processes on this machine: delivery, floods, junk, partition, kills, replay. `make test-gossip` runs it.

It writes `bench/results/gossip.json`. All figures come from real libp2p processes on loopback. The test reads each of them
through its hand-over, as a duty process does. The program fails if a message of an unregistered peer or of another epoch arrives,
if a flood gets through, or if honest messages are lost.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.machine import describe
from gossip.admission import RATES
from gossip.handover import HandOverClient
from gossip.messages import HAVE, HINT, GossipRefused
from gossip.peers import Peer, PeersFile, write_peers

RESULTS = Path("bench/results/gossip.json")
COUNT = 8
CHAIN = "31337"
FIRST_PORT = 24_100
UNLIMITED = (
    "import gossip.admission as a; a.RATES.update({t: a.Rate(10**9, 1.0) for t in a.RATES}); "
    "from gossip.__main__ import main; raise SystemExit(main())"
)
"""Program of a gossip process without limits on what it sends, as a dishonest member would run it."""
DRIPPING = "import gossip.envelopes as e; e.PIECE_BYTES = 1; from gossip.__main__ import main; raise SystemExit(main())"
"""Program of a process that sends an envelope byte by byte, so that a transfer never ends."""
JUNK_BYTES = 2 * 2**20

ENVELOPE, ENVELOPE_BYTES = "0x" + "ee" * 32, 600_000
"""Id and bytes of an envelope of three pieces."""
REFUSED = b"refused"
"""Reason of a transfer that the other side refused, or that ended because of the size of a piece."""


class GossipPeer:
    """One gossip process with its folder and its hand-over."""

    def __init__(self, python: Path, folder: Path, number: int) -> None:
        self.python, self.folder, self.number = python, folder / str(number), number
        self.folder.mkdir()
        self.account, self.port = f"0x{number + 1:040x}", FIRST_PORT + number
        text = f'peers_file = "peers.json"\nsocket = "s"\nkey_file = "k"\nlisten = "/ip4/127.0.0.1/tcp/{self.port}"\n'
        (self.folder / "gossip.toml").write_text(text)
        self.process: subprocess.Popen[bytes] | None = None
        said = self._run("--identity", self.account)
        self.peer = Peer(self.account, said.split('"')[1], (f"/ip4/127.0.0.1/tcp/{self.port}",))
        self.client = HandOverClient(self.folder / "s")

    def know(self, peers: Sequence["GossipPeer"], epoch: int = 1, seats: Sequence["GossipPeer"] = ()) -> None:
        """Writes the `peers.json` of this process. The accounts of `seats` may pass the envelope to each other."""
        passed = {ENVELOPE: tuple(each.account for each in seats)} if seats else {}
        found = PeersFile(CHAIN, epoch, tuple(each.peer for each in peers), envelopes=passed)
        write_peers(self.folder / "peers.json", found)

    def start(self, program: Sequence[str] = ("-m", "gossip")) -> None:
        command = [str(self.python), *program, "--config", str(self.folder / "gossip.toml")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, env=_environment())

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def state(self) -> dict[str, Any]:
        return self.client._call({"call": "state"})

    def connected(self) -> int:
        try:
            return int(self.state()["connected"])
        except GossipRefused:
            return -1

    def taken(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while page := self.client.take():
            found += [each.body for each in page]
        return found

    def _run(self, *arguments: str) -> str:
        command = [str(self.python), "-m", "gossip", "--config", str(self.folder / "gossip.toml"), *arguments]
        return subprocess.run(command, env=_environment(), capture_output=True, text=True, check=True, timeout=120).stdout


def main() -> int:
    """Runs all parts, prints and writes the figures. Returns 1 if something that must hold does not hold."""
    parser = argparse.ArgumentParser(prog="bench.gossip", description=__doc__)
    parser.add_argument("--python", type=Path, default=Path("build/gossip-venv/bin/python"))
    parser.add_argument("--quick", action="store_true", help="fewer messages and kills")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = describe()
    with network(options.python.absolute()) as peers:
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            "delivery": lambda: delivery(peers, 1 if options.quick else 4),
            "unregistered_flood": lambda: unregistered_flood(peers, options.python.absolute()),
            "member_flood": lambda: member_flood(peers),
            "junk": lambda: junk(peers),
            "partition": lambda: partition(peers),
            "first_statement": lambda: first_statement(peers),
            "envelope": lambda: envelope(peers),
            "kills": lambda: kills(peers, 1 if options.quick else 5),
            "replay": lambda: replay(peers),
        }
        figures = {name: _timed(name, part) for name, part in parts.items()}
    machine["load_after"] = round(os.getloadavg()[0], 2)
    failed = [name for name, part in figures.items() if not part["holds"]]
    options.out.write_text(json.dumps({"machine": machine, "processes": COUNT} | figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))
    print(f"load {machine['load_before']} before, {machine['load_after']} after; failed: {', '.join(failed) or 'nothing'}")
    return 1 if failed else 0


@contextmanager
def network(python: Path) -> Iterator[list[GossipPeer]]:
    """Context manager that runs eight processes, which know and reach each other."""
    folder = Path(tempfile.mkdtemp(prefix="gossip-"))
    peers = [GossipPeer(python, folder, number) for number in range(COUNT)]
    try:
        for each in peers:
            each.know(peers)
            each.start()
        joined(peers, COUNT - 1)
        yield peers
    finally:
        for each in peers:
            each.stop()
        shutil.rmtree(folder)


def joined(peers: Sequence[GossipPeer], count: int) -> float:
    """Waits until each process has `count` connections, and three seconds more for the mesh to form. Returns the seconds of the
    first wait."""
    begin = time.monotonic()
    _until(
        lambda: all(each.connected() == count for each in peers), 240,
        lambda: f"{count} connections each, and not {[each.connected() for each in peers]}",
    )  # fmt: skip
    found = time.monotonic() - begin
    time.sleep(3)
    return round(found, 1)


def delivery(peers: Sequence[GossipPeer], rounds: int) -> dict[str, Any]:
    """Sends messages at the rate that the limits allow. Returns how many arrived, and how long they took. All must arrive."""
    sent, delays = 0, list[float]()
    for _ in range(rounds):
        for number in range(RATES[HINT].count - 2):
            for each in peers:
                each.client.publish(HINT, {"at": time.monotonic_ns(), "n": number})
                sent += COUNT - 1
            delays += _delays(peers)
        pause = time.monotonic() + RATES[HINT].seconds + 1
        while time.monotonic() < pause:
            delays += _delays(peers)
            time.sleep(0.02)
    delays.sort()
    return {
        "sent": sent, "received": len(delays), "share": round(len(delays) / sent, 4),
        "p50_ms": round(delays[len(delays) // 2] * 1000), "p99_ms": round(delays[len(delays) * 99 // 100] * 1000),
        "rss_mb": round(max(each.state()["rss"] for each in peers) / 2**20), "holds": len(delays) == sent,
    }  # fmt: skip


def unregistered_flood(peers: Sequence[GossipPeer], python: Path) -> dict[str, Any]:
    """Lets an unregistered process dial all others and publish as fast as it can. None of its messages may arrive."""
    other = GossipPeer(python, peers[0].folder.parent, COUNT)
    other.know([*peers, other])
    other.start(["-c", UNLIMITED])
    _until(lambda: other.connected() >= 0, 60, lambda: "an answer of the process that nobody registered")
    sent = _flood(other, 10.0)
    honest = _honest(peers)
    other.stop()
    refused = sum(each.state()["refusals"].get("unregistered", 0) for each in peers)
    holds = honest["flood"] == 0 and honest["share"] == 1 and max(sent, refused) > 0
    return {"sent": sent, **honest, "connections_closed": refused, "holds": holds}


def member_flood(peers: Sequence[GossipPeer]) -> dict[str, Any]:
    """Lets a registered member publish without limits of its own. The other members must cap it and still hear each other."""
    liar, honest_peers = peers[-1], peers[:-1]
    liar.stop()
    liar.start(["-c", UNLIMITED])
    joined(peers, COUNT - 1)
    sent = _flood(liar, 10.0)
    honest = _honest(honest_peers)
    liar.stop()
    liar.start()
    joined(peers, COUNT - 1)
    most = 3 * RATES[HINT].count
    return {"sent": sent, **honest, "most_allowed": most, "holds": honest["flood"] <= most and honest["share"] == 1}


def junk(peers: Sequence[GossipPeer]) -> dict[str, Any]:
    """Sends bytes of no protocol, and opens connections that send nothing. Memory must stay flat, and honest messages must
    arrive."""
    before = peers[0].state()["rss"]
    idle = [socket.create_connection(("127.0.0.1", peers[0].port), 5) for _ in range(50)]
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", peers[0].port), 5) as connection:
            try:
                connection.sendall(os.urandom(JUNK_BYTES))
            except OSError:
                continue
    honest = _honest(peers)
    for each in idle:
        each.close()
    grown = round((peers[0].state()["rss"] - before) / 2**20, 1)
    return {"rss_grown_mb": grown, "share": honest["share"], "holds": grown < 20 and honest["share"] == 1}


def partition(peers: Sequence[GossipPeer]) -> dict[str, Any]:
    """Splits the processes into two halves that do not know each other, then joins them. Nobody repeats messages from the time of
    the split, but later messages must arrive."""
    halves = peers[: COUNT // 2], peers[COUNT // 2 :]
    for half in halves:
        for each in half:
            each.know(half)
    joined(peers, COUNT // 2 - 1)
    [each.taken() for each in peers]
    halves[0][0].client.publish(HINT, {"of": "first half"})
    time.sleep(3)
    inside = sum(bool(each.taken()) for each in halves[0][1:])
    outside = sum(bool(each.taken()) for each in halves[1])
    for each in peers:
        each.know(peers)
    healed = joined(peers, COUNT - 1)
    share = _honest(peers)["share"]
    return {
        "heard_inside": inside, "heard_outside": outside, "healed_s": healed, "share_after": share,
        "holds": inside == COUNT // 2 - 1 and outside == 0 and share == 1,
    }  # fmt: skip


def first_statement(peers: Sequence[GossipPeer]) -> dict[str, Any]:
    """Lets a seat state that it has an envelope as soon as all members know the seats of a dispute. Meanwhile they dial a dead
    member. All others must hear the statement."""
    dead, alive = peers[-1], peers[:-1]
    dead.stop()
    joined(alive, COUNT - 2)
    [each.taken() for each in alive]
    for each in alive:
        each.know(peers, seats=alive)
    said = {"account": alive[0].account, "at": 1, "envelope": ENVELOPE, "size": ENVELOPE_BYTES}
    alive[0].client.publish(HAVE, said)
    time.sleep(3)
    heard = sum(said in each.taken() for each in alive[1:])
    dead.start()
    for each in peers:
        each.know(peers)
    joined(peers, COUNT - 1)
    return {"heard": heard, "holds": heard == len(alive) - 1}


def envelope(peers: Sequence[GossipPeer]) -> dict[str, Any]:
    """Lets a seat give an envelope to another seat. Transfers must be refused to an account without a seat, from a seat without
    the envelope, and from a seat that sends single bytes."""
    giver, taker, stranger, dripper = peers[:4]
    dripper.stop()
    dripper.start(["-c", DRIPPING])
    joined(peers, COUNT - 1)
    for each in peers:
        each.know(peers, seats=[giver, taker, dripper])
    data = os.urandom(ENVELOPE_BYTES)
    for each in (giver, dripper):
        (each.folder / "envelopes" / "e").write_bytes(data)
        each.client.offer(ENVELOPE, each.folder / "envelopes" / "e")
    _until(lambda: _given(taker, giver) == data, 60, lambda: "an envelope from a seat that has it")
    begin = time.monotonic()
    given = _given(taker, giver)
    seconds = round(time.monotonic() - begin, 2)
    refused = {
        "without_seat": _given(stranger, giver) == REFUSED, "not_there": _given(giver, taker) == REFUSED,
        "byte_by_byte": _given(taker, dripper) == REFUSED,
    }  # fmt: skip
    dripper.stop()
    dripper.start()
    for each in peers:
        each.know(peers)
    joined(peers, COUNT - 1)
    return {"bytes": ENVELOPE_BYTES, "seconds": seconds, "refused": refused, "holds": given == data and all(refused.values())}


def _given(taker: GossipPeer, giver: GossipPeer) -> bytes:
    """Returns the bytes that `taker` got from `giver`, or the reason of the refusal."""
    file = taker.folder / "envelopes" / "given"
    try:
        taker.client.fetch(ENVELOPE, ENVELOPE_BYTES, giver.account, file)
    except GossipRefused as error:
        return error.reason.encode()
    return file.read_bytes()


def kills(peers: Sequence[GossipPeer], times: int) -> dict[str, Any]:
    """Kills three of eight processes and starts them again, `times` times. After each time all honest messages must arrive."""
    seconds, shares = list[float](), list[float]()
    for _ in range(times):
        for each in peers[:3]:
            each.stop(signal.SIGKILL)
        time.sleep(1)
        for each in peers[:3]:
            each.start()
        seconds.append(joined(peers, COUNT - 1))
        shares.append(_honest(peers)["share"])
    return {"times": times, "rejoined_s": seconds, "shares": shares, "holds": min(shares) == 1}


def replay(peers: Sequence[GossipPeer]) -> dict[str, Any]:
    """Lets a member publish under an old epoch. The other members must refuse the message."""
    old = peers[0]
    for each in peers[1:]:
        each.know(peers, epoch=5)
    time.sleep(5)
    [each.taken() for each in peers]
    old.client.publish(HINT, {"old": True})
    time.sleep(3)
    heard = sum(bool(each.taken()) for each in peers[1:])
    refused = sum(each.state()["refusals"].get("epoch", 0) for each in peers[1:])
    return {"heard": heard, "refused": refused, "holds": heard == 0 and refused > 0}


def _honest(peers: Sequence[GossipPeer]) -> dict[str, Any]:
    """Lets each process publish one message. Returns the share of deliveries that arrived, and the most messages of a flood that
    one process got."""
    mark = time.monotonic_ns()
    time.sleep(RATES[HINT].seconds + 0.5)
    for each in peers:
        each.client.publish(HINT, {"mark": mark, "of": each.number})
    received, flood = [0] * len(peers), [0] * len(peers)
    end = time.monotonic() + 10
    while time.monotonic() < end and sum(received) < len(peers) * (len(peers) - 1):
        for place, each in enumerate(peers):
            bodies = each.taken()
            received[place] += sum(body.get("mark") == mark for body in bodies)
            flood[place] += sum("flood" in body for body in bodies)
        time.sleep(0.05)
    return {"share": round(sum(received) / (len(peers) * (len(peers) - 1)), 4), "flood": max(flood)}


def _flood(peer: GossipPeer, seconds: float) -> int:
    """Publishes up to 500 messages a second for `seconds`. Returns how many were published."""
    sent, begin = 0, time.monotonic()
    while time.monotonic() - begin < seconds:
        try:
            peer.client.publish(HINT, {"flood": sent})
            sent += 1
        except GossipRefused:
            time.sleep(0.05)
        time.sleep(max(0.0, begin + sent / 500 - time.monotonic()))
    return sent


def _delays(peers: Sequence[GossipPeer]) -> list[float]:
    bodies = [body for each in peers for body in each.taken()]
    return [(time.monotonic_ns() - int(body["at"])) / 1e9 for body in bodies if "at" in body]


def _timed(name: str, part: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    begin = time.monotonic()
    print(f"{name} …", flush=True)
    figures = part()
    print(f"{name}: {'holds' if figures['holds'] else 'FAILED'}, {time.monotonic() - begin:.0f} s", flush=True)
    return figures


def _until(holds: Callable[[], bool], seconds: float, awaited: Callable[[], str]) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"gossip: not within {seconds:g} s: {awaited()}; the machine may be too busy")
        time.sleep(0.2)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path.cwd())}


if __name__ == "__main__":
    sys.exit(main())
