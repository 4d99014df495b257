"""One whole demo run: the network catches every fraud, no process that should not holds the prompt, receipts verify.

`make soak-kms` runs it on a hybrid key epoch as well, and on one whose key enclaves rebuild (BYTEWISE_DEMO_KEYS).
"""

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from tokenizers import Tokenizer

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.crypto.shares import combine_values
from bytewise.protocol.court.sortition import BEACON_DELAY_BLOCKS, audit_is_drawn
from bytewise.protocol.units import ZERO_DIGEST, Digest
from bytewise.service.clock import SystemClock
from bytewise.service.settings import library_variables
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise_client.connection import Connection, connected
from bytewise_client.receipt_search import find_receipt
from cli.demo.plan import OPERATORS, SHARDS, THRESHOLD, VERIFIERS
from cli.demo.run import COMMANDS
from cli.options import receipt_argument
from kms.storage.keyring import OpenedShare, load_document, open_share
from tests.fixtures import memory_search

ROOT = Path(__file__).parents[2]
BOUND_S = 1800.0
"""More than the longest run, whose deadlines are five times as long because other processes compute beside it."""


KEYS = library_variables(("BYTEWISE_DEMO_KEYS",)).get("BYTEWISE_DEMO_KEYS", "plain")
"""Of which suite the shards' key is."""
ANSWERING = {"chain", "da"}
"""What `bytewise verify` asks."""
Verified = dict[str, "subprocess.CompletedProcess[str]"]
UNKNOWN = "0x" + "00" * 32


class Run(NamedTuple):
    """A finished demo whose network still runs."""

    report: dict[str, Any]
    folder: Path
    pids: dict[str, int]
    director: int
    canary: str
    cases: list[dict[str, Any]]
    """The disputes as the dashboard tells them."""
    differences: list[str]
    """What the dashboard found different from the contracts."""
    health: dict[str, int]
    """What each operator says of itself when the story is over: HTTP status of `/health`."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    out = tmp_path_factory.mktemp("demo")
    report, log = out / "demo-report.json", out / "demo.log"
    command = [sys.executable, "-m", "cli", "demo", "--keep", "--keys", KEYS, "--report", str(report)]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline, pause = time.monotonic() + BOUND_S, threading.Event()
        while "stays up until" not in log.read_text():
            assert process.poll() is None, f"the demo ended with {process.returncode}:\n{log.read_text()}"
            assert time.monotonic() < deadline, log.read_text()
            pause.wait(0.2)
        document = json.loads(report.read_text())
        folder = ROOT / document["folder"]
        canary = (folder / "client" / "canary.txt").read_text()
        health = {name: _health(folder, document["endpoints"][f"operator {name}"], name) for name in OPERATORS}
        cases, differences = _shown(document["endpoints"]["dashboard"])
        actors = [pid for name, pid in document["processes"].items() if name not in ANSWERING]
        with _still(actors):
            yield Run(document, folder, document["processes"], process.pid, canary, cases, differences, health)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    assert code == 0, log.read_text()
    assert not (folder / "chain-states").exists(), "gigabytes that nobody reads again"


def _shown(dashboard: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The disputes, once the watchtower has a capsule of each, and what the dashboard's own check found."""
    deadline, pause = time.monotonic() + BOUND_S, threading.Event()
    with httpx2.Client(base_url=f"{dashboard}/api/v1", timeout=60) as client:
        while True:
            listed = client.get("/disputes").json()["items"]
            cases = [client.get(f"/disputes/{each['id']}").json()["data"] for each in listed]
            meta = client.get("/meta").json()
            if all(each["capsule"] for each in cases) and meta["checked_block"]:
                return cases, meta["differences"]
            assert time.monotonic() < deadline, [(each["phase"], bool(each["capsule"])) for each in cases]
            pause.wait(1)


def _health(folder: Path, url: str, operator: str) -> int:
    trust = ssl.create_default_context(cafile=str(folder / operator / "tls.pem"))
    return httpx2.get(f"{url.removesuffix('/v1')}/health", verify=trust, timeout=30).status_code


@contextlib.contextmanager
def _still(pids: list[int]) -> Iterator[None]:
    """Processes that do not move a secret from what is not searched yet to what was, nor take time from the searching."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_every_fact_is_read_back_from_the_chain(demo: Run) -> None:
    assert demo.report["missing"] == []
    assert json.loads((demo.folder / "demo-report.json").read_text()) == demo.report, "each run keeps its own"
    assert len(demo.report["facts"]) >= 24 and all(demo.report["facts"].values())
    assert demo.report["money"]["sums"] is True
    assert demo.report["peak_pss_mb"] < 6000
    assert len(demo.report["disputes"]) == 5, "four frauds and the frivolous one: no other honest receipt is disputed"


def test_dashboard_tells_the_same_and_keeps_the_proof(demo: Run) -> None:
    assert demo.differences == [] and len(demo.cases) == len(demo.report["disputes"])
    told = {each["id"]: each for each in demo.cases}
    for dispute in demo.report["disputes"]:
        case = told[dispute["dispute"]]
        assert (case["verdict"], case["phase"]) == (dispute["verdict"].lower(), "final") and case["sums"]
        assert not case["capsule"]["is_wrong"] and any(dispute["verdict"] in line for line in case["capsule"]["shows"])


def test_both_operators_take_requests_at_the_end_of_the_demo(demo: Run) -> None:
    assert demo.health == dict.fromkeys(OPERATORS, 200)


def test_printed_commands_verify_a_clients_saved_answer(demo: Run) -> None:
    answer = next(a for a in demo.report["answers"] if a["operator"] == "honest")
    opening, verify = demo.folder / "client" / answer["opening"], COMMANDS[-1]
    # As it is printed and pasted, but for the folder of this run, which another run's may have followed.
    line = f"source {demo.folder}/env; RECEIPT_ID={answer['receipt_id']}; {verify.replace('answer.json', str(opening))}"
    done = subprocess.run(["bash", "-euc", line], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "VERIFIED" in done.stdout, done.stdout + done.stderr


def test_every_actors_journal_verifies(demo: Run) -> None:
    for name in (*OPERATORS, *VERIFIERS, "watchtower", "challenger"):
        folder = demo.folder / name
        journal = Journal(open_database(f"sqlite:///{folder / 'actor.db'}"), journal_key(folder / "journal.key"), SystemClock())
        assert journal.verify_journal() != ZERO_DIGEST, name


def test_members_log_what_the_court_made_of_their_seats_to_the_wei(demo: Run) -> None:
    accounts = {account: name for name, account in demo.report["names"].items()}
    shown, logged = dict[tuple[str, str], list[int]](), dict[tuple[str, str], list[int]]()
    for dispute in demo.report["disputes"]:
        for seat in dispute["members"]:
            sums = shown.setdefault((accounts[seat["voter"]], dispute["dispute"]), [0, 0])
            sums[0] += int(seat["paid_wei"])
            sums[1] += sum(map(int, seat["charged"].values()))
    for name in VERIFIERS:
        for line in (demo.folder / f"{name}.log").read_text().splitlines():
            if '"event":"seats.settled"' in line:
                found = json.loads(line)
                sums = logged.setdefault((name, found["dispute"]), [0, 0])
                sums[0] += found["pay_wei"]
                sums[1] += found["penalty_wei"]
    assert logged == shown != {}


def test_plaintext_is_only_where_the_design_allows_it(demo: Run) -> None:
    tokenizer = Tokenizer.from_file(str(ROOT / "build/models/lighthouse/tokenizer.json"))
    ids = tokenizer.encode(f" {demo.canary}", add_special_tokens=False).ids
    needles = memory_search.forms(demo.canary, ids)
    holders = {name: found for name, pid in demo.pids.items() if (found := memory_search.in_memory(pid, needles))}
    opened = {f"{name}-enclave" for name in _ticketed(demo)}
    assert memory_search.in_memory(demo.director, needles), "the client itself must hold its prompt (positive control)"
    assert "honest" in holders, "the asked operator must hold the prompt (positive control)"
    # The process that had the receipt is gone: its log says so, and what lives on of an enclave never had it.
    receipt = next(a["receipt_id"] for a in demo.report["answers"] if a["operator"] == "honest")
    given = {
        name for name in opened if f'"enclave_job.started","receipt":"{receipt}"' in (demo.folder / f"{name}.log").read_text()
    }
    assert given, "an enclave with a ticket must have been given the receipt (positive control)"
    assert holders.keys() == {"honest"}, holders
    # A job may run at this moment, in a process of who has the right to it.
    working = {name for name, pid in demo.pids.items() if memory_search.in_children(pid, needles)}
    assert working <= opened, working


def test_no_file_of_another_actor_holds_plaintext(demo: Run) -> None:
    tokenizer = Tokenizer.from_file(str(ROOT / "build/models/lighthouse/tokenizer.json"))
    needles = memory_search.forms(demo.canary, tokenizer.encode(f" {demo.canary}", add_special_tokens=False).ids)
    hits = memory_search.in_files(demo.folder, needles)
    owners = {path.relative_to(demo.folder).parts[0] for path in hits}
    assert "client" in owners, "the client keeps its opening (positive control)"
    assert owners <= {"client", "honest"}, hits


def test_no_actor_holds_the_private_key_of_the_shards(demo: Run) -> None:
    document = load_document(demo.folder / "epoch.json")
    held = {n: open_share(demo.folder / f"shard{n}", document) for n in range(1, SHARDS + 1)}
    key = combine_values({n: held[n].scalar() for n in range(1, THRESHOLD + 1)})
    assert encode_point(GENERATOR * key) == document.record.public_key
    assert (document.record.hybrid is not None) == (KEYS == "hybrid")
    shown = {n: _kept(n, each) for n, each in held.items()}
    for number, kinds in shown.items():
        pid = demo.pids[f"shard{number}"]
        for forms in kinds if memory_search.sees_closed() else ():
            assert memory_search.in_memory(pid, forms), "a shard must hold its own share (positive control)"
        if not memory_search.sees_closed():
            # Who may not search closed processes sees at least that they are closed.
            memory_search.verify_closed(pid)
        others = {name: data for n in shown if n != number for forms in shown[n] for name, data in forms.items()}
        assert memory_search.in_memory(pid, others) == set(), number
    for name, pid in (*demo.pids.items(), ("the demo", demo.director)):
        assert memory_search.in_memory(pid, memory_search.scalar_forms(key)) == set(), name
    # What an enclave or an operator started is in no list: jobs' processes, the second backend, who rebuilds keys.
    for name, pid in demo.pids.items():
        assert memory_search.in_children(pid, memory_search.scalar_forms(key)) == set(), name
    secrets = {name: data for kinds in shown.values() for forms in kinds for name, data in forms.items()}
    assert memory_search.in_files(demo.folder, secrets | memory_search.scalar_forms(key)) == {}


def _kept(number: int, share: OpenedShare) -> list[dict[str, bytes]]:
    """The forms of what a shard alone has: its share, and in a hybrid epoch its second key."""
    kinds = [memory_search.scalar_forms(share.scalar())]
    if KEYS == "hybrid":
        kinds.append({"seed": share.kem_seed(), "seed in hex": share.kem_seed().hex().encode()})
    return [{f"{number} {name}": data for name, data in forms.items()} for forms in kinds]


@pytest.fixture(scope="module")
def verified(demo: Run) -> Verified:
    """What `bytewise verify` says, all asked at once: with the openings of two answers, without one, of no receipt."""
    answers = {a["operator"]: a for a in demo.report["answers"]}
    artifact = ("--artifact", str(ROOT / "build/models/lighthouse"))
    asked: dict[str, tuple[str, ...]] = {
        operator: (
            answers[operator]["receipt_id"],
            "--opening",
            str(demo.folder / "client" / answers[operator]["opening"]),
            *artifact,
        )
        for operator in ("honest", "dishonest")
    }
    asked |= {"without": (answers["dishonest"]["receipt_id"],), "unknown": (UNKNOWN,)}
    with ThreadPoolExecutor(len(asked)) as pool:
        return dict(zip(asked, pool.map(lambda words: _verify(demo, *words), asked.values()), strict=True))


@pytest.mark.parametrize(("operator", "code"), [("honest", 0), ("dishonest", 2)])
def test_opening_is_enough_to_verify_a_receipt(verified: Verified, operator: str, code: int) -> None:
    done = verified[operator]
    assert done.returncode == code, done.stdout + done.stderr
    assert ("VERIFIED" in done.stdout) == (code == 0), done.stdout


def test_without_an_opening_only_public_facts_are_shown(verified: Verified) -> None:
    cheated, unknown = verified["without"], verified["unknown"]
    assert "OVERTURNED" in cheated.stdout, cheated.stdout + cheated.stderr
    assert unknown.returncode == 4, unknown.stdout + unknown.stderr


def _verify(demo: Run, receipt: str, *more: str) -> "subprocess.CompletedProcess[str]":
    where = demo.report["endpoints"]
    network = ["--network", str(demo.folder / "network.json"), "--rpc", where["chain"], "--da", where["da"]]
    command = [sys.executable, "-m", "cli", "verify", receipt, *network, *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ, "COLUMNS": "120"})


def _ticketed(demo: Run) -> set[str]:
    """Verifiers whose enclaves were entitled to the canary's receipt: its drawn auditors, and seats of a dispute about it.

    The draw is made here again from the chain. Results posted until the report was written would not do: a drawn auditor that
    is slower holds the prompt just as rightly.
    """
    receipt = next(a["receipt_id"] for a in demo.report["answers"] if a["operator"] == "honest")
    entitled = {m["voter"] for d in demo.report["disputes"] if d["receipt"] == receipt for m in d["members"]}
    where = demo.report["endpoints"]
    with connected(demo.folder / "network.json", [where["chain"]], [where["da"]]) as connection:
        entitled |= _drawn(connection, receipt_argument(receipt))
    return {name for name, account in demo.report["names"].items() if account in entitled and name in VERIFIERS}


def _drawn(connection: Connection, receipt: Digest) -> set[str]:
    reader, found = connection.reader, find_receipt(connection, receipt, lambda done, total: None).found
    assert found is not None, "the canary's receipt must be anchored"
    beacon = reader.block_hash(found.header.block + BEACON_DELAY_BLOCKS)
    params = reader.params(reader.params_version(found.head), found.head)
    rate, unit = params.shares.audit_rate_bps, params.money.audit_unit
    voters = [each.account for each in reader.verifiers(reader.network.pools[0].digest, found.head)]
    seats = {voter: reader.stake_at(voter, found.header.block, found.head) // unit for voter in voters}
    return {voter for voter in voters if audit_is_drawn(beacon, receipt, voter, rate, seats[voter])}
