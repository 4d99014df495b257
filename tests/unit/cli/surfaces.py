"""Where receipts, votes, verdicts and logs of key releases are shown, each in a network in which there is something to show.

`SURFACES` is the one list of them for `test_assurance.py`: what shows results anew belongs into it.
"""

import contextlib
import io
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import openai

from bytewise.inference.profiles import verify_artifact
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.encoding import encode
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.records.receipt import receipt_id
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, audit_commitment
from bytewise.protocol.signing import typed_digest
from bytewise.protocol.units import U8, U64, Digest, hex0x
from bytewise.service import telemetry
from bytewise.service.settings import DatabaseUrl, load_settings
from bytewise.storage.migrate import migrate
from chain.client.address_book import write_network
from chain.sending.keys import save_signer
from cli.__main__ import main
from cli.key import _told
from committee.__main__ import build_node as build_member
from enclave.forked_process import Ready
from enclave.settings import EnclaveSettings
from enclave.wiring import _Parts
from kms.settings import ShardSettings
from kms.shard.service import build_shard
from tests.anvil import CHAIN_ID, running_anvil
from tests.court_session import TRUE, Court
from tests.devnet import VERIFIERS, mine, word
from tests.operator_site import MODEL_NAME, Operator, running_operator_site, serving
from tests.unit.cli.test_dispute import Operator as Disputed
from tests.unit.kms.ceremonies import Town, party, plan_for
from tests.unit.kms.test_process import config
from tests.unit.kms.world import World
from tests.unit.verifier.town import NETWORK
from verifier.settings import NodeSettings, Role
from verifier.wiring import build_node, run


def said(*arguments: str) -> str:
    """What a verb of `bytewise` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        main(list(arguments))
    return out.getvalue()


def logged(daemon: str, run: Callable[[], object]) -> str:
    """What a daemon logs while `run` does a part of its life."""
    with contextlib.redirect_stderr(io.StringIO()) as out:
        telemetry.configure(daemon)
        run()
    return out.getvalue()


@dataclass
class Answered:
    """An operator with one anchored answer of two choices, all of it as real processes."""

    site: Operator
    answer: dict[str, Any]

    @staticmethod
    @contextlib.contextmanager
    def begun(folder: Path) -> Iterator["Answered"]:
        """Until the block ends."""
        with running_operator_site(folder) as site:
            with serving(site), site.http() as http:
                health = http.get(f"{site.url}/health").json()
                with openai.OpenAI(base_url=f"{site.url}/v1", api_key="x", http_client=http, timeout=60.0) as api:
                    asked: Any = [{"role": "user", "content": "What are you worth?"}]
                    reply = api.chat.completions.create(model=MODEL_NAME, messages=asked, max_tokens=4, n=2, seed=1)
                site.wait_anchored(2)
            yield Answered(site, {**json.loads(reply.model_dump_json()), "health": health})

    def verb(self, *arguments: str, da: bool = False) -> str:
        """A verb with this network."""
        where = ["--network", str(self.site.folder / "network.json"), "--rpc", self.site.anvil.url]
        return said(*arguments, *where, *(["--da", self.site.da_url] if da else []))

    def about(self, verb: str, *options: str) -> str:
        """A verb about the receipt."""
        return self.verb(*verb.split(), self.answer["receipt"]["receipt_id"], *options, da=True)

    def keys(self, *options: str) -> str:
        """`bytewise kms status`; nobody is where the shards should be."""
        (document,), certificate = self.site.network.epochs, (self.site.folder / "tls.pem").read_text()
        shards = tuple(replace(each, certificate=certificate) for each in document.record.shards)
        document, book = replace(document, record=replace(document.record, shards=shards)), self.site.folder / "keys.json"
        write_network(book, replace(self.site.network, epochs=(document,)))
        return said("kms", "status", "--network", str(book), "--rpc", self.site.anvil.url, *options)

    def duty(self, name: str, role: Role, build: Any) -> str:
        """The log of a duty process until its first tick is over."""
        folder = self.site.folder / name
        folder.mkdir()
        migrate(f"sqlite:///{folder / 'node.db'}")
        save_signer(folder / "account.key", VERIFIERS[0])
        settings = NodeSettings(
            role, self.site.folder / "network.json", folder / "account.key", DatabaseUrl(f"sqlite:///{folder / 'node.db'}"),
            folder / "journal.key", (self.site.da_url,), rpc_url=self.site.anvil.url, enclave_socket=folder / "s", audits=False,
            challenges=False, ready_file=folder / "ready",
        )  # fmt: skip
        stop = threading.Event()
        watch = threading.Thread(target=_stop_when, args=(folder / "ready", stop))
        watch.start()
        log = logged(name, lambda: run(name, settings, build, stop))
        watch.join(60)
        return log

    def enclave(self) -> str:
        """The log of an enclave that waits for its first job."""
        folder = self.site.folder
        settings = EnclaveSettings(
            self.site.artifact, folder / "s", CHAIN_ID, EvidenceType.SIMULATED, folder / "p", insecure_accept_simulated=True
        )
        loaded = verify_artifact(self.site.artifact, None, threads=1)
        parts = _Parts(settings, loaded, None, None, ())  # type: ignore[arg-type]
        return logged("enclave", lambda: parts.announce(Ready(())))


def _stop_when(ready: Path, stop: threading.Event) -> None:
    for _ in range(600):
        if ready.exists():
            break
        stop.wait(0.1)
    stop.set()


class Judged:
    """A batch of three receipts: one is disputed and has a verdict, one is audited."""

    def __init__(self, court: Court, folder: Path) -> None:
        self.court, self.folder, self.operator = court, folder, Disputed(court, folder)
        self._audit(1)
        court.open(0, word("guess"))
        case = court.until(Phase.COMMIT)
        votes = [court.vote(case, each.voter, TRUE) for each in case.members]
        court.commit(votes)
        mine(court.anvil, 2)
        court.reveal(votes)
        self.case = court.until(Phase.APPEAL)

    @staticmethod
    @contextlib.contextmanager
    def begun(folder: Path) -> Iterator["Judged"]:
        """Until the block ends."""
        with running_anvil() as anvil:
            yield Judged(Court(anvil, folder, window=900, appeal_time=600), folder)

    def status(self, *options: str) -> str:
        """The network's status."""
        return said("status", "--network", str(self.folder / "network.json"), "--rpc", self.court.anvil.url, *options)

    def appeal(self) -> str:
        """What an appeal would be about."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.operator.appeal(self.case.id, "--dry-run")
        return out.getvalue()

    def _audit(self, index: int) -> None:
        court, subject = self.court, self.receipt(index)
        mine(court.anvil, 3)
        for each in VERIFIERS:
            salted = audit_commitment(subject, each.address, *TRUE, word("salt"))
            now = U64(court.anvil.client.head().timestamp)
            result = AuditResult(subject, each.address, U8(AuditOutcome.MATCH), salted, now)
            court.of(each).post_audit(result, each.sign(typed_digest(court.domain, result)), 0)
        court.pump()

    def receipt(self, index: int) -> Digest:
        """Id of a receipt of the batch."""
        return receipt_id(self.court.network.anchor_domain, self.court.batch.entries[index].receipt)


class Released:
    """Three shards, two of which released a receipt's key to an enclave."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.world = folder, World(folder, contracts=NETWORK.contracts)
        write_network(folder / "network.json", replace(NETWORK, epochs=(self.world.document,)))
        self.shards = [(index, self.world.shard(index)) for index in (1, 2, 3)]
        self.case = self.world.case()
        self.world.chain.open(self.case)
        for _, shard in self.shards[:2]:
            self.world.release(shard, self.case)

    @staticmethod
    @contextlib.contextmanager
    def begun(folder: Path) -> Iterator["Released"]:
        """Until the block ends."""
        made = Released(folder)
        with made.world.serving(*made.shards):
            made.verb("verify")
            yield made

    def verb(self, verb: str, *more: str) -> str:
        """A verb of `bytewise kms log`."""
        return said(
            "kms", "log", verb, *more, "--network", str(self.folder / "network.json"), "--logs", str(self.folder / "logs")
        )

    def show(self, *options: str) -> str:
        """Who opened the receipt."""
        return self.verb("show", hex0x(self.case.id), *options)

    def start(self) -> str:
        """The log of a shard that starts."""
        (self.folder / "policy.json").write_bytes(encode(self.world.policy))
        settings = load_settings(ShardSettings, config(self.world, 1))
        return logged("kms-serve", lambda: build_shard(settings, self.world.contracts, self.world.chain))


def ceremony() -> str:
    """What a verb that makes a key says of the ceremony."""
    parties = [party(n) for n in (1, 2, 3)]
    return json.dumps(_told(Town(plan_for(parties, 2, 2), parties).run()))


JSON = ("--output", "json")

Kind = type[Answered] | type[Judged] | type[Released]

SURFACES: dict[str, tuple[Kind, Callable[[Any], str]]] = {
    "API: an answer": (Answered, lambda on: _label(on.answer)),
    "API: each choice of an answer": (Answered, lambda on: _label(on.answer["answers"][1])),
    "API: health": (Answered, lambda on: _label(on.answer["health"])),
    "log: operator": (Answered, lambda on: _event(on.site.log(), "key_epoch.told")),
    "log: operator, a receipt": (Answered, lambda on: _event(on.site.log(), "receipt.signed")),
    "log: watchtower": (Answered, lambda on: _event(on.duty("watchtower", Role.WATCHTOWER, build_node), "key_epoch.told")),
    "log: committee": (Answered, lambda on: _event(on.duty("committee", Role.VERIFIER, build_member), "key_epoch.told")),
    "log: enclave": (Answered, lambda on: _event(on.enclave(), "enclave.ready")),
    "log: shard": (Released, lambda on: _event(on.start(), "key_epoch.told")),
    "metrics": (Released, lambda on: on.start() and telemetry.metrics_text()),
    "verify": (Answered, lambda on: on.about("verify")),
    "verify, JSON": (Answered, lambda on: _label(json.loads(on.about("verify", *JSON)))),
    "receipt show": (Answered, lambda on: _label(json.loads(on.about("receipt show")))),
    "status": (Judged, lambda on: on.status()),
    "status, JSON": (Judged, lambda on: _label(json.loads(on.status(*JSON)))),
    "status, JSON: a batch": (Judged, lambda on: _label(json.loads(on.status(*JSON))["batches"][0])),
    "status, JSON: an audited receipt": (Judged, lambda on: _label(json.loads(on.status(*JSON))["receipts"][0])),
    "status, JSON: a verdict and its votes": (Judged, lambda on: _label(json.loads(on.status(*JSON))["disputes"][0])),
    "dispute appeal": (Judged, lambda on: on.appeal()),
    "chain status": (Answered, lambda on: on.verb("chain", "status")),
    "chain status, JSON": (Answered, lambda on: _label(json.loads(on.verb("chain", "status", *JSON)))),
    "kms status": (Answered, lambda on: on.keys()),
    "kms status, JSON": (Answered, lambda on: _label(json.loads(on.keys(*JSON))["epochs"][0])),
    "kms dkg": (Released, lambda on: _label(json.loads(ceremony()))),
    "kms log verify": (Released, lambda on: on.verb("verify")),
    "kms log verify, JSON": (Released, lambda on: _label(json.loads(on.verb("verify", *JSON))[0])),
    "kms log show": (Released, lambda on: on.show()),
    "kms log show, JSON": (Released, lambda on: _label(json.loads(on.show(*JSON)))),
    "kms log show, JSON: a release": (Released, lambda on: _label(json.loads(on.show(*JSON))["records"][0]["enclave"])),
    "shard: what it serves": (Released, lambda on: f"assurance {on.shards[0][1].info().assurance}"),
}
"""Each place, the network that it is looked at in, and what is shown there."""


def _label(told: dict[str, Any]) -> str:
    return f"assurance {told['assurance']}"


def _event(log: str, event: str) -> str:
    return next(line for line in log.splitlines() if f'"event":"{event}"' in line)
