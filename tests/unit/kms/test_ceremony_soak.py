"""Ceremonies of real shard processes over HTTPS: killed by SIGKILL at every moment, and cut off in every phase in every way.

Runs where BYTEWISE_SOAK_KMS is set (`make soak-kms`).
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bytewise.cli.demo.loopback import free_ports
from bytewise.protocol.ceremony import Plan
from bytewise.protocol.encoding import encode
from bytewise.protocol.units import Address
from bytewise.service.clock import monotonic_s
from bytewise.service.settings import child_environment, library_variables
from kms import keyring
from kms.dkg.link import HttpsLink
from kms.dkg.state import Ceremony, Phase
from tests.unit.kms.ceremonies import SCRIBE
from tests.unit.kms.offices import Office, offices, plan, scribe_over
from tests.unit.kms.partitions import Cut, all_or_nothing, cuts, run_cut
from tests.unit.kms.test_ceremony_desks import numbered, on_chain, shares_make_the_key
from tests.unit.kms.world import wait_until

if not library_variables(("BYTEWISE_SOAK_KMS",)):
    pytest.skip("BYTEWISE_SOAK_KMS is not set", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[3]
COUNT = 3


class Network:
    """Three shard processes, the chain that they read, and a way to each."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, killed: bool) -> None:
        self.folder, self.all_deaths = folder, list[str]()
        self.shards, self.chain = offices(folder, COUNT)
        self.links: dict[Address, HttpsLink] = {}
        for (number, each), port in zip(numbered(self.shards).items(), free_ports(COUNT), strict=True):
            each.port = port
            self.links[each.signer.address] = stack.enter_context(HttpsLink(each.seat(number)))
            words = [each.folder, port, SCRIBE.address, folder / "chain.json"]
            if killed:
                self.killed(each).touch()
                words.append(self.killed(each))
            stack.callback(end, start(each, words))
        self.tell()
        wait_until(lambda: all(each.folder.with_suffix(".log").exists() and listens(each.port) for each in self.shards))

    def killed(self, who: Office) -> Path:
        """Where the moments are named at which it was killed."""
        return who.folder.with_suffix(".killed")

    def deaths(self) -> list[str]:
        """All of this ceremony."""
        return [name for each in self.shards for name in self.killed(each).read_text().splitlines()]

    def tell(self) -> None:
        """The chain says now what `self.chain` says."""
        (self.folder / "chain.json").write_bytes(encode(self.chain.epoch))

    def run_killed(self, agreed: Plan, who: list[Office]) -> Ceremony:
        """A ceremony whose shards are killed at every moment, until no new one comes; each is there again after a moment."""
        links = {each.signer.address: self.links[each.signer.address] for each in who}
        for each in who:
            self.killed(each).write_text("")
        state, deaths = scribe_over(self.folder, agreed, links).run(600, 0.05, monotonic_s, threading.Event().wait), 0
        while deaths < len(self.deaths()):
            deaths = len(self.deaths())
            wait_until(lambda: all(listens(each.port) for each in who))
            scribe_over(self.folder, agreed, links).turn()
        print(f"{agreed.purpose.value}: {deaths} times SIGKILL")
        self.all_deaths += self.deaths()
        assert not state.lies and state.phase is Phase.DONE
        for each in who:
            kept = each.ceremonies().find(agreed.digest)
            assert kept is not None and (kept.ended, kept.seed) == ("done", b"")
        return state


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def start(who: Office, words: list[object]) -> "subprocess.Popen[bytes]":
    """The process, a session leader."""
    command = [sys.executable, "-m", "tests.unit.kms.ceremony_shard", *map(str, words)]
    with who.folder.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=log, stdout=log, start_new_session=True)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kills it and what it forked."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


@pytest.fixture()
def network(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Network]:
    with contextlib.ExitStack() as stack:
        yield Network(tmp_path, stack, killed=request.param)


@pytest.mark.e2e
@pytest.mark.parametrize("network", [True], indirect=True)
def test_processes_that_are_killed_at_every_moment_make_renew_and_repair_a_key(network: Network) -> None:
    shards = network.shards
    made = network.run_killed(plan(shards, 2, 3), shards)
    shares_make_the_key(made, numbered(shards))
    source = on_chain(network.chain, made)
    network.tell()
    renewed = network.run_killed(plan(shards, 2, 3, dealers=numbered(shards), source=source), shards)
    shares_make_the_key(renewed, numbered(shards))
    shares_make_the_key(made, numbered(shards))
    lost = keyring.find_share(shards[0].folder, 3, source.commitments).scalar()
    (shards[0].folder / f"share-3-{made.id.hex()[:16]}.json").unlink()
    helpers = {2: shards[1], 3: shards[2]}
    network.run_killed(plan(helpers.values(), 2, 2, dealers=helpers, source=source, heir=shards[0].seat(1)), shards)
    assert keyring.find_share(shards[0].folder, 3, source.commitments).scalar() == lost
    deaths = network.all_deaths
    kinds = Counter(" ".join(name.split()[:2]).rstrip(":") for name in deaths)
    print(f"killed {len(deaths)} times:", dict(kinds))
    for kind in ("join", "commit", "deal", "judgement", "hand", "confirm", "consent"):
        for when in ("before", "after"):
            assert any(name.startswith(f"{when} commit: INSERT ceremony_word {kind}") for name in deaths), (when, kind)
    assert any(name.startswith("before os.link share-") for name in deaths)


@pytest.mark.e2e
@pytest.mark.parametrize("network", [False], indirect=True)
def test_processes_that_are_cut_off_in_any_phase_and_any_number_make_a_key_or_change_nothing(network: Network) -> None:
    shards, done = network.shards, Counter[str]()
    phases = (Phase.JOINING, Phase.DEALING, Phase.JUDGING, Phase.CONFIRMING)
    for cut in cuts(phases, COUNT):
        state = run_cut(network.folder, plan(shards, 2, 2), network.links, cut)
        all_or_nothing(cut, state, shards, None)
        done[f"new key {state.phase.name}"] += 1
    made = scribe_over(network.folder, plan(shards, 2, 3), network.links).run(600, 0.05, monotonic_s, threading.Event().wait)
    source = on_chain(network.chain, made)
    network.tell()
    for cut in cuts(phases, COUNT):
        state = run_cut(network.folder, plan(shards, 2, 2, dealers=numbered(shards), source=source), network.links, cut)
        all_or_nothing(cut, state, shards, made)
        done[f"refresh {state.phase.name}"] += 1
    lost, helpers = shards[0].share(3, source.commitments), {2: shards[1], 3: shards[2]}
    for cut in cuts((*phases, Phase.HANDING), COUNT):
        for path in shards[0].folder.glob("share-3-*.json"):
            path.unlink()
        agreed = plan(helpers.values(), 2, 2, dealers=helpers, source=source, heir=shards[0].seat(1))
        state = run_cut(network.folder, agreed, network.links, cut)
        repaired(cut, state, shards[0], lost)
        done[f"repair {state.phase.name}"] += 1
    print("cut off:", dict(done))
    assert sum(done.values()) == (4 + 4 + 5) * 7 * 2


def repaired(cut: Cut, state: Ceremony, heir: Office, lost: int) -> None:
    """Asserts that the heir has its share, unless somebody was away who was needed in that phase."""
    needed = {Phase.JOINING: {1, 2, 3}, Phase.CONFIRMING: {1}, Phase.JUDGING: set[int]()}.get(cut.phase, {2, 3})
    assert not state.lies and state.plan.source is not None
    assert (state.phase is Phase.FAILED) == bool(needed & cut.shards), cut
    if state.phase is Phase.DONE:
        assert heir.share(3, state.plan.source.commitments) == lost
