"""Hints from auditors to watchtowers (design section 9).

A challenger earns the opener's share only if it committed to the right answer when it opened the dispute. A watchtower has no
enclave and cannot compute that answer. So a drawn auditor sends the answer that it found to watchtowers of its choice, before it
opens its audit result on the chain. This message is the hint.

A hint proves itself. It opens the commitment of a result that its verifier signed, and the salt of that commitment is a hash over
a nonce, the outcome and the code. A recipient can therefore pass a hint on, but not change it.

Hints travel over HTTPS (`HintSender`, `hint_server`) or over gossip (`GossipHints`). Record, check and `HintBox` are the same for
both.
"""

import queue
import ssl
import threading
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from pathlib import Path

import httpx2

from bytewise.ports import GossipPort
from bytewise.protocol.court.tally import key_of
from bytewise.protocol.decisions.actions import Action
from bytewise.protocol.decisions.snapshot import Snapshot
from bytewise.protocol.digests import keccak256_abi, out_hash
from bytewise.protocol.encoding import encode, from_json, to_json
from bytewise.protocol.errors.actors import ConfigurationError, HintMismatch, UnknownAuditor
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.records.statements import AuditResult, Outcome, audit_commitment
from bytewise.protocol.signing import Domain, typed_digest, verify_signature
from bytewise.protocol.units import U8, ZERO_DIGEST, Address, Blob, Digest, hex0x
from bytewise.service import metrics, telemetry

MAX_TIPS = 4096
"""Most hints that a `HintBox` keeps. The oldest are dropped first."""
MAX_TIPS_EACH = 64
"""Most hints that a `HintBox` keeps of one verifier, so that no verifier can displace the hints of others."""
MAX_WAITING = 256
"""Most hints that wait to be sent. Further hints are dropped, because sending hints is voluntary."""
TIMEOUT_S = 5.0
"""Seconds for one exchange with a watchtower."""
PATH = "/v1/tip"


@dataclass(frozen=True, slots=True)
class AuditHint:
    """An auditor's finding, sent before its result is opened on the chain."""

    result: AuditResult
    """The audit result that the auditor will publish."""
    signature: Blob
    """The auditor's signature over the result."""
    outcome: U8
    """Outcome of the audit, a value of `Outcome`."""
    code: U8
    """Defect code of the outcome, or 0 if the outcome is EXECUTED."""
    tokens_hash: Digest
    """Tokens hash that the auditor computed, or zero if it computed none."""
    trace_root: Digest
    """Trace root that the auditor computed, or zero if it computed none."""
    nonce: Digest
    """Random number of the auditor. `audit_salt` computes the salt of the commitment from it."""

    @property
    def salt(self) -> Digest:
        """The salt that opens the result's commitment."""
        return audit_salt(self.nonce, self.outcome, self.code)

    @property
    def key(self) -> Digest:
        """Digest over the outcome, the code and the `out_hash` that this hint names (`court.tally.key_of`). A vote with the same
        digest agrees with the hint."""
        executed = self.outcome == Outcome.EXECUTED.value
        return key_of(self.outcome, self.code, out_hash(self.tokens_hash, self.trace_root) if executed else ZERO_DIGEST)


def audit_salt(nonce: Digest, outcome: int, code: int) -> Digest:
    """Returns the salt of an audit's commitment: a hash over `nonce`, outcome and code. The commitment names neither outcome nor
    code, so without this hash a recipient could change them in a hint."""
    return keccak256_abi(("bytes32", "uint8", "uint8"), (nonce, outcome, code))


class HintBox:
    """A thread-safe store of hints, by receipt and verifier. It accepts only hints of accounts in `verifiers`, and may ask from
    any thread whether `verifiers` contains an account."""

    def __init__(self, domain: Domain, verifiers: Container[Address]) -> None:
        self._domain = domain
        self._verifiers = verifiers
        self._hints: dict[tuple[Digest, Address], AuditHint] = {}
        self._lock = threading.Lock()

    def put(self, hint: AuditHint) -> None:
        """Stores a hint. Raises a `Fault` if its verifier is unknown, or if its commitment or signature does not fit. The cheap
        checks come first."""
        result = hint.result
        if result.verifier not in self._verifiers:
            raise UnknownAuditor(result.verifier)
        found = audit_commitment(result.receipt_id, result.verifier, hint.tokens_hash, hint.trace_root, hint.salt)
        if found != result.commitment:
            raise HintMismatch(result.verifier, hex0x(result.commitment))
        verify_signature("tip", typed_digest(self._domain, result), hint.signature, result.verifier)
        with self._lock:
            self._hints[(result.receipt_id, result.verifier)] = hint
            own = [key for key in self._hints if key[1] == result.verifier]
            if len(own) > MAX_TIPS_EACH:
                del self._hints[own[0]]
            while len(self._hints) > MAX_TIPS:
                del self._hints[next(iter(self._hints))]

    def key(self, posted: Iterable[AuditResult]) -> Digest | None:
        """Returns the answer (`AuditHint.key`) that most hints about the audit results `posted` name. Returns None if there is no
        hint about these results."""
        with self._lock:
            told = [(result, self._hints.get((result.receipt_id, result.verifier))) for result in posted]
        keys = [hint.key for result, hint in told if hint is not None and hint.result == result]
        return max(keys, key=keys.count) if keys else None


class HintSender:
    """A sender of hints that works in a separate thread, because a watchtower may be slow and votes have deadlines. If a
    watchtower does not answer, the sender does not try again, because hints are voluntary."""

    def __init__(self, urls: tuple[str, ...], certificate: Path) -> None:
        """`certificate` is a file with the certificates of the watchtowers. Raises `ConfigurationError`, which names the setting
        and the file, if the file cannot be read or contains no certificate."""
        self._urls = urls
        try:
            self._context = ssl.create_default_context(cafile=str(certificate))
        except OSError as error:
            why = f"{certificate.name}: no certificates of the watchtowers, PEM and readable: {error.strerror or error}"
            raise ConfigurationError("hints.certificate_file", why) from None
        self._waiting: queue.Queue[AuditHint] = queue.Queue(MAX_WAITING)
        threading.Thread(target=self._loop, name="hints out", daemon=True).start()

    def __call__(self, hint: AuditHint) -> None:
        """Queues a hint for all watchtowers. Never waits. If the queue is full, the hint is dropped and logged."""
        try:
            self._waiting.put_nowait(hint)
        except queue.Full:
            telemetry.log("hint.dropped", receipt=hint.result.receipt_id)

    def _loop(self) -> None:
        while True:
            self._tell(self._waiting.get())

    def _tell(self, hint: AuditHint) -> None:
        for url in self._urls:
            try:
                answer = httpx2.post(url + PATH, content=encode(hint), verify=self._context, timeout=TIMEOUT_S)
                telemetry.log("hint.sent", receipt=hint.result.receipt_id, status=answer.status_code)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                telemetry.log("hint.send_failed", receipt=hint.result.receipt_id, error=type(error).__name__)


TOPIC = "hint"
"""Gossip topic of audit hints."""


class GossipHints:
    """The part of a node that puts the hints from gossip into the box. It decides no action. Implements `node.NodePart`."""

    def __init__(self, gossip: GossipPort, box: HintBox) -> None:
        self._gossip = gossip
        self._box = box

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Takes the hints that arrived since the last block, and returns no action. A wrong hint is counted and logged. If the
        gossip process is away, nothing happens."""
        try:
            bodies = self._gossip.take(TOPIC)
        except Unavailable:
            return ()
        for body in bodies:
            try:
                self._box.put(from_json(AuditHint, body))
            except Fault as error:
                metrics.HINTS_REFUSED.labels(reason=type(error).__name__).inc()
                telemetry.log_error("hint.refused", error)
        return ()


def sent_over(gossip: GossipPort, also: Callable[[AuditHint], None] | None) -> Callable[[AuditHint], None]:
    """Returns a function that publishes a hint over gossip and then gives it to the sender `also`, if there is one. If gossip
    does not accept the hint, the function only logs that."""

    def send(hint: AuditHint) -> None:
        try:
            gossip.publish(TOPIC, to_json(hint))
        except Unavailable as error:
            telemetry.log_error("hint.not_published", error, receipt=hint.result.receipt_id)
        if also is not None:
            also(hint)

    return send
