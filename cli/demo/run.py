"""Runs the demo from start to end: builds the network, starts its processes, asks questions, watches disputes, and reads back and
judges the facts.

With the option `--keep` the network stays up. Then the demo writes a file of shell variables, makes an account with test ether,
and prints a message for each process that ends.
"""

import json
import platform
import secrets
import shlex
import signal
import ssl
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from bytewise.inference.native.library import unavailable_reason
from bytewise.protocol.address_book import Network as Book
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.errors.actors import ChainReverted
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.suites import suite_of
from bytewise.protocol.units import ZERO_DIGEST, Address, hex0x
from bytewise.service.clock import SystemClock
from bytewise.storage.archive import Archive
from bytewise.storage.engine import open_database
from bytewise.tee_simulated.authorities import issue
from bytewise_client.network_state import whole_snapshot
from chain.client.rpc import ChainClient
from chain.deployment.deploy import fund
from chain.reads.reader import SnapshotReader
from chain.sending.keys import devnet_signer, save_signer
from cli.demo import actors, build, facts, plan
from cli.demo.build import Built
from cli.demo.client import Answer, Client
from cli.demo.director import Director, MemberFailures
from cli.demo.plan import CHAIN_ID, MODEL_NAME, OPERATORS, SHARDS, VERIFIERS, Options, questions
from cli.demo.processes import ProcessGroup, ensure_loopback_up, slowdown
from cli.demo.site import Site, new_site
from verifier.watch.list_reader import GOOD
from verifier.watch.open_windows import is_over

# A demo network that stays up (`--keep`): shell variables, an account with ether, and messages about processes that ended.

LOOK_S = 1.0
"""Seconds between two checks of the running processes."""
LATEST = "latest"
"""Name of the symbolic link in the folder `runs` that points to the newest run whose network stays up."""

COMMANDS = (
    f"source runs/{LATEST}/env",
    'SSL_CERT_FILE="$CERTIFICATE" "$PYTHON" -c "import openai; '
    "print(openai.OpenAI(base_url='$OPERATOR', api_key='none').chat.completions.create(model='$MODEL', "
    "messages=[{'role': 'user', 'content': 'What is a generator?'}], max_tokens=64, temperature=0, "
    f'frequency_penalty={plan.FREQUENCY_PENALTY}).model_dump_json())" > answer.json',
    "RECEIPT_ID=$(\"$PYTHON\" -c \"import json; print(json.load(open('answer.json'))['receipt']['receipt_id'])\")",
    '"$PYTHON" -m bytewise verify "$RECEIPT_ID" --network "$NETWORK" --rpc "$RPC" --da "$DA" --artifact "$ARTIFACT" '
    "--opening answer.json",
)
"""Commands that a user can copy. They ask a question with an OpenAI client that trusts the operator's certificate, and verify the
saved answer. Each command is one line."""


def endpoints(site: Site) -> dict[str, str]:
    """Returns the addresses and files that a user needs to try the running network, by name."""
    return {
        "dashboard": site.dashboard_url,
        "chain": site.rpc_url,
        "da": site.da_url,
        **{f"shard {i + 1}": site.shard_url(i + 1) for i in range(SHARDS)},
        **{f"operator {name}": f"{site.operator_url(name)}/v1" for name in OPERATORS},
        **{f"certificate of {name}": str(site.certificate(name).relative_to(site.root)) for name in OPERATORS},
        "address book": str(site.network_file.relative_to(site.root)),
    }


def variables(site: Site, book: Book, accounts: dict[str, Address]) -> dict[str, str]:
    """Returns the shell variables of a network by name: URLs, absolute paths, accounts such as `ACCOUNT_ADA`, and contracts such
    as `CONTRACT_LEDGER`."""
    addresses = book.addresses
    found: dict[str, str | Path] = {
        "PYTHON": sys.executable,
        "NETWORK": site.network_file,
        "RPC": site.rpc_url,
        "CHAIN_ID": str(CHAIN_ID),
        "DA": site.da_url,
        "DASHBOARD": site.dashboard_url,
        "MODEL": MODEL_NAME,
        "ARTIFACT": site.artifact,
        "OPERATOR": f"{site.operator_url('honest')}/v1",
        "CERTIFICATE": site.certificate("honest"),
        "DISHONEST_OPERATOR": f"{site.operator_url('dishonest')}/v1",
        "DISHONEST_CERTIFICATE": site.certificate("dishonest"),
        **{f"SHARD_{number}": site.shard_url(number) for number in range(1, SHARDS + 1)},
        "POLICY": site.policy_file,
        "ENVIRONMENT": site.environment_file,
        "EPOCH_FILE": site.epoch_file,
        "SPARE_KEY": site.spare_key,
        "SPARE_PLATFORM": site.spare_platform,
        **{f"ACCOUNT_{name.upper()}": account for name, account in accounts.items()},
        **{f"CONTRACT_{each.name.upper()}": getattr(addresses, each.name) for each in fields(addresses)},
    }
    return {name: str(value) for name, value in found.items()}


def write_variables(site: Site, book: Book, accounts: dict[str, Address]) -> Path:
    """Writes the file `env` in the run's folder, which a shell can source, and links `runs/latest` to that folder."""
    path = site.folder / "env"
    lines = [f"{name}={shlex.quote(value)}" for name, value in variables(site, book, accounts).items()]
    path.write_text("# For `source`: a network that answers until its demo is ended.\n" + "\n".join(lines) + "\n")
    draft = site.folder.with_name(f".{LATEST}.{secrets.token_hex(8)}")
    draft.symlink_to(site.folder.name)
    draft.replace(site.folder.with_name(LATEST))
    return path


def make_spare_account(site: Site) -> Address:
    """Makes an account with test ether that no process uses, and returns the account. Only the owner of the key file can read the
    key."""
    signer = LocalSigner(secrets.token_bytes(32))
    site.spare_key.parent.mkdir()
    save_signer(site.spare_key, signer)
    client = ChainClient(site.rpc_url, CHAIN_ID, build.RPC_TIMEOUT_S)
    fund(client, devnet_signer(CHAIN_ID, 0), {signer.address: plan.FUNDS_WEI})
    return signer.address


def make_spare_platform(site: Site) -> None:
    """Makes the key file of a simulated platform that no process uses. With this file, a user can let a sixth verifier join."""
    issue(site.of("tee"), site.spare_platform)


def show(site: Site, console: Console) -> None:
    """Prints the endpoints of the running network, and commands to copy. Each command is one line, even in a narrow terminal."""
    console.print("\nThe network stays up until Ctrl-C. Endpoints:")
    for name, where in endpoints(site).items():
        _line(console, f"  {name:24} {where}")
    ether = plan.FUNDS_WEI // plan.ETHER
    _line(console, f"  {'account with ' + str(ether) + ' ETH':24} {site.spare_key.relative_to(site.root)}")
    console.print("\nAsk with your own client, then (within a minute its receipt is on the chain) check what it kept:")
    for command in COMMANDS:
        _line(console, command)


def watch_until_interrupted(network: ProcessGroup, console: Console) -> None:
    """Runs until Ctrl-C, and prints one message for each process that ends."""
    told: set[str] = set()
    while True:
        for sentence in ended_messages(network, told):
            console.print(Text(sentence, style="bold red"), soft_wrap=True)
        time.sleep(LOOK_S)


def ended_messages(network: ProcessGroup, told: set[str]) -> list[str]:
    """Returns a sentence for each process that ended and whose name is not in `told`, with exit status and log file. Adds the
    names to `told`."""
    fresh = {name: code for name, code in network.ended().items() if name not in told}
    told.update(fresh)
    return [f"{name} {_ending_of(code)}; its log is {network.log_of(name)}" for name, code in fresh.items()]


def _ending_of(code: int) -> str:
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def _line(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)


# The screen of a run shows sentences, and below them a live table of the disputes.

_PHASES = {
    Phase.SEED: "waits for a block that nobody could choose",
    Phase.DRAWING: "seats are drawn",
    Phase.COMMIT: "the committee re-executes and commits",
    Phase.REVEAL: "votes are opened",
    Phase.APPEAL: "may be appealed",
    Phase.AIRGAP: "may be refunded",
    Phase.FINAL: "final",
}


class Screen:
    """The screen of a run. It prints each event with the time since the start. On a terminal it also shows a live table of
    disputes. The screen is a context manager, and the table is live inside its block."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._started = time.monotonic()
        self._live = Live(Text("starting"), console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> "Screen":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start of the run."""
        return time.monotonic() - self._started

    def say(self, sentence: str) -> None:
        """Prints one sentence with the seconds since the start."""
        self.console.print(Text(f"{self.elapsed_s:6.1f} s  ", style="dim") + Text(sentence))

    def waiting(self, what: str) -> None:
        """Shows below the printed sentences that the run waits for `what`. Does nothing if the output is no terminal."""
        if self.console.is_terminal:
            self._live.update(Spinner("dots", text=f"waiting for {what}"))

    def show(self, snapshot: Snapshot, names: dict[Address, str], last_window_s: int) -> None:
        """Shows the table of disputes at a snapshot's block. `last_window_s` is the seconds until the last challenge window
        closes."""
        left = f"; receipts can be disputed for {last_window_s} s more" if last_window_s > 0 else ""
        table = Table(title=f"block {snapshot.number}: disputes on-chain{left}", title_justify="left", expand=False)
        for heading in ("dispute", "operator", "challenger", "round", "phase", "committed", "opened"):
            table.add_column(heading)
        for dispute in snapshot.disputes:
            committed = sum(m.seat_mask.bit_count() for m in dispute.members if m.committed)
            opened = sum(m.seat_mask.bit_count() for m in dispute.members if any(m.group))
            opener = dispute.challenger.account
            says = "" if dispute.verdict is Verdict.NONE else f"{dispute.verdict.name}, "
            phase = says + _PHASES[dispute.phase]
            table.add_row(
                dispute.id.hex()[:8], names.get(dispute.operator, dispute.operator[:8]),
                names.get(opener, opener[:8]), str(dispute.round), phase,
                f"{committed}/{dispute.seats}", f"{opened}/{dispute.seats}",
            )  # fmt: skip
        if self.console.is_terminal:
            self._live.update(Group(table))


HEALTH_TIMEOUT_S = 5.0
SHOWN = 100
"""Most characters of an answer that are shown on the screen."""
WATCH_S = 300.0
"""Longest time to wait for the verdicts on an idle machine, in seconds. The verdicts usually take half of this time."""


class Demo:
    """One run of the demo: its options, processes, answers and results."""

    def __init__(self, root: Path, options: Options, canary: str, console: Console) -> None:
        ensure_loopback_up()
        self.options = options
        self.screen = Screen(console)
        self.site: Site = new_site(root, options.folder, options.epoch, options.database_server)
        self.network = ProcessGroup(self.site.folder, root, self.screen.waiting)
        self.canary = canary
        (self.site.openings / "canary.txt").write_text(canary)
        self.answers: list[Answer] = []
        self.book: Book | None = None
        self.accounts: dict[str, Address] = {}
        self.failures = MemberFailures()
        self._pace = 1.0
        """Factor of all deadlines, which is more than 1 on a busy machine."""
        self._has_challenger = False
        """Whether the challenger of one honest receipt has started."""
        self._lock = threading.Lock()

    def run(self) -> facts.Report:
        """Runs the whole demo, and returns the report with the facts that were read back."""
        with self.screen:
            built = self._start()
            self.book, self.accounts = built.network, built.accounts
            director = Director(self.site, self.network, built.accounts)
            self.failures = director.failures
            reader = SnapshotReader(ChainClient(self.site.rpc_url, plan.CHAIN_ID, build.RPC_TIMEOUT_S), built.network)
            with ThreadPoolExecutor(len(OPERATORS)) as pool:
                asking = [pool.submit(self._ask, name) for name in OPERATORS]
                self._watch(reader, director, built, asking)
                for each in asking:
                    each.result(1.0)
        return self._read_back(reader, director, built)

    def _start(self) -> Built:
        """Builds the network and starts its processes. Returns when every process is ready."""
        site, network, say = self.site, self.network, self.screen.say
        missing = unavailable_reason()
        if missing:
            say(missing)
        self._pace = plan.pace_of(slowdown())
        if self._pace > 1:
            say(f"this machine is busy: all deadlines are {self._pace:.1f} times as long, so the run takes longer")
        say("a chain, a data availability store and some twenty other processes start on this machine")
        actors.start_chain(site, network)
        actors.start_stores(site, network)
        signers = build.make_keys(site)
        build.make_models(site, network)
        actors.start(actors.enclaves(site), network)
        say("models are made and converted; five enclaves verify the artifact while contracts are deployed")
        built = build.build(site, network, signers, plan.terms_at(self._pace))
        say("contracts are deployed, stakes are bonded; three shards made a key that nobody holds (any two open one receipt)")
        actors.start(actors.operators(site, self.options.adversary), network)
        actors.start_shards(site, network)
        actors.start(actors.members(site, self.options), network)
        if self.options.keep:
            # The dashboard costs two per cent of a core, so it runs only if the network stays up and somebody can look at it.
            actors.start([actors.dashboard(site, built.accounts)], network)
            say(f"what happens is at {site.dashboard_url}, too")
        actors.wait_ready(site, network)
        for name in OPERATORS:
            network.wait(f"operator {name}", lambda name=name: self._healthy(name), actors.READY_S)  # type: ignore[misc]
        say("everybody is ready")
        return built

    def _healthy(self, operator: str) -> bool:
        try:
            trust = ssl.create_default_context(cafile=str(self.site.certificate(operator)))
            url = f"{self.site.operator_url(operator)}/health"
            return httpx2.get(url, verify=trust, timeout=HEALTH_TIMEOUT_S).status_code == 200
        except httpx2.HTTPError:
            return False

    def _ask(self, operator: str) -> None:
        """Sends all questions for one operator, one after the other, and records the answers."""
        client = Client(operator, self.site.operator_url(operator), self.site.certificate(operator), MODEL_NAME)
        mine = [question for question in questions(self.canary) if question.operator == operator]
        for number, question in enumerate(mine):
            # The second question to the honest operator is sent twice, like a client's retry.
            answer = client.ask(question, self.site.openings, repeat=number == 1 and operator == "honest")
            with self._lock:
                self.answers.append(answer)
            said = textwrap.shorten(answer.text, SHOWN, placeholder=" …")
            self.screen.say(
                f"the {operator} operator answered {answer.completion_tokens} tokens, receipt {answer.receipt_id[:10]}: “{said}”"
            )
        client.close()

    def _start_challenger(self, reader: SnapshotReader, block: int) -> None:
        """Starts the challenger, for the first honest receipt for which an audit is posted. Before an audit is posted it is too
        early, because the contract accepts no audit of a disputed receipt. If verifiers run no audits, takes the first honest
        receipt."""
        if self._has_challenger:
            return
        with self._lock:
            honest = [answer.receipt_id for answer in self.answers if answer.operator == "honest"]
        posted = {hex0x(each.result.receipt_id) for each in reader.audits(int(reader.network.deploy_block), block)}
        victim = next((each for each in honest if each in posted or not self.options.audits), None)
        if victim is not None:
            self.screen.say(f"somebody will dispute the honest receipt {victim[:10]} out of spite")
            actors.start_challenger(self.site, self.network, victim)
            self._has_challenger = True

    def _watch(self, reader: SnapshotReader, director: Director, built: Built, asking: list[Any]) -> None:
        """Makes the director act and shows the disputes, until every answer is anchored and every dispute and challenge window is
        over. Also ends when the longest time has passed."""
        names = {account: name for name, account in built.accounts.items()}
        seen: set[str] = set()
        longest_s = WATCH_S * self._pace
        end = self.screen.elapsed_s + longest_s
        # The loop runs several times for each block. The cache makes it read each block only once.
        read = lru_cache(maxsize=1)(partial(self._read_block, reader))

        def settled() -> bool:
            try:
                snapshot, anchored, left_s = read(reader.head())
                self._start_challenger(reader, snapshot.number)
            except Unavailable:
                return False
            happened = director.step(snapshot)
            if happened:
                self.screen.say(happened)
            self._print_news(snapshot, names, seen)
            self.screen.show(snapshot, names, left_s)
            final = self._has_challenger and all(map(is_over, snapshot.disputes))
            asked = all(each.done() for each in asking) and anchored >= len(self.answers)
            return (asked and final and left_s < 0) or self.screen.elapsed_s > end

        self.network.wait("the verdicts", settled, longest_s + 10)

    def _print_news(self, snapshot: Snapshot, names: dict[Any, str], seen: set[str]) -> None:
        for dispute in snapshot.disputes:
            for sentence in facts.dispute_sentences(dispute, names):
                if sentence not in seen:
                    seen.add(sentence)
                    self.screen.say(sentence)

    def _read_block(self, reader: SnapshotReader, block: int) -> tuple[Snapshot, int, int]:
        """Returns the snapshot at a block, the number of anchored receipts, and the number of seconds until the last challenge
        window ends. That number is negative if all windows are over."""
        snapshot = whole_snapshot(reader, block)
        batches = reader.batches(reader.network.deploy_block, block)
        last = max((each.window_end for each in snapshot.batches), default=snapshot.clock)
        return snapshot, sum(batch.count for batch in batches), last - snapshot.clock

    def _read_back(self, reader: SnapshotReader, director: Director, built: Built) -> facts.Report:
        """Reads the facts back in a new process and from the databases, and judges the facts. Returns the report."""
        self.screen.say("a fresh process reads the whole story back from the chain")
        director.finish(reader)
        out = self.site.folder / "status.json"
        self.network.start("status", facts.status_command(self.site), out)
        self.network.expect_success("status", build.BUILD_TIMEOUT_S)
        status = json.loads(out.read_text())
        checked = {name: _count_checked(self.site.database(name)) for name in VERIFIERS}
        judged = facts.judge(status, checked, self.answers, director.failures, built.accounts)
        judged |= _final_fact(reader, self.site, self.answers)
        judged |= _key_facts(reader, self.site)
        judged |= facts.gate_fact(self._gate())
        answers = facts.answers_document(self.answers)
        return facts.Report(judged, status, answers, self.screen.elapsed_s, self.network.peak_pss_bytes / 2**20)

    def _gate(self) -> dict[str, Any]:
        """Runs `bytewise gate` against the honest operator. Returns the output, or an empty mapping if the gate printed none."""
        # The gate runs after all facts were read back, because its receipts belong to no fact.
        self.screen.say("identical requests are fired at the honest operator, alone and among other traffic")
        out = self.site.folder / "gate.json"
        self.network.start("gate", facts.gate_command(self.site), out)
        self.network.finish("gate", build.BUILD_TIMEOUT_S)
        told = out.read_text()
        return dict(json.loads(told)) if told else {}


def _count_checked(database: str) -> int:
    """Returns the number of receipts that a verifier checked and found good. The number comes from the verifier's database."""
    engine = open_database(database)
    try:
        return len(Archive(engine, SystemClock()).receipts(finding=GOOD))
    finally:
        engine.dispose()


def _final_fact(reader: SnapshotReader, site: Site, answers: list[Answer]) -> dict[str, bool]:
    """Returns the fact that the contract's function `isFinal` accepts every honest receipt, and whether it holds. The function
    takes the receipt, its signature and its Merkle path, which the watchtower read from the public list."""
    honest = {answer.receipt_id for answer in answers if answer.operator == "honest"}
    block, final = reader.head(), set()
    engine = open_database(site.database("watchtower"))
    for seen in Archive(engine, SystemClock()).receipts():
        identifier = hex0x(seen.receipt_id)
        if identifier in honest:
            # The contract refuses a receipt whose window is still open, as at the end of a run that took too long.
            with suppress(ChainReverted):
                reader.verify_final(seen.signed, seen.batch_id, seen.proof, block)
                final.add(identifier)
    engine.dispose()
    return {"isFinal says of every honest receipt that it is accepted": bool(honest) and final == honest}


def _key_facts(reader: SnapshotReader, site: Site) -> dict[str, bool]:
    """Returns two facts, and whether they hold: the shards signed the transcript of their key on the chain, and every receipt is
    sealed to this key."""
    block = reader.head()
    signed = reader.epoch_on_chain(site.epoch, block).transcript != ZERO_DIGEST
    named = {batch.key_epoch for batch in reader.batches(reader.network.deploy_block, block)}
    return {
        "the shards of the key signed on-chain for the shares that they made together": signed,
        f"every receipt is sealed to that key, of suite {suite_of(site.epoch)}": named == {site.epoch},
    }


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the important libraries of this run, by name."""
    names = ("torch", "transformers", "web3", "cryptography", "sqlalchemy", "openai")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
