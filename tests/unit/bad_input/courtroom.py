"""A court in one process: a real model and engine, real shards over HTTPS, the enclave's own session. The chain is in memory."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bytewise.crypto.envelope import seal_padded
from bytewise.inference.determinism import environment
from bytewise.inference.engine import ExactEngine
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.evidence.claims import ResultStatement
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.keys.epochs import Decision
from bytewise.protocol.records.compare import Generated
from bytewise.protocol.records.preflight import Record, preflight
from bytewise.protocol.records.receipt import Receipt, SignedReceipt
from bytewise.protocol.records.request import DecodePolicy, Output, Request
from bytewise.protocol.records.seal import Payload, envelope_hash, pad, seal_context
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.tally import RevealedVote, tally
from bytewise.protocol.units import U64, ZERO_DIGEST, Blob, Decimal, Digest
from bytewise.tee.appraisal import verify_result_quote
from enclave.release_client import ShardKeySource
from enclave.session import Bench
from kms.shard.release import Shard
from tests.unit.inference.models import small_artifact
from tests.unit.kms.memory_chain import NOW, VOTER, Case
from tests.unit.kms.world import World as KeyWorld
from tests.unit.verifier.bench import CONTRACTS
from tests.village import Enclave
from tests.world import ANCHOR, CHAIN_ID, World, word
from verifier.audits.auditor import Audited, conclude
from verifier.jobs import tickets

ANCHORED = U64(NOW - 100)
"""Chain time at which the key world anchors its batches."""
STOP = 257
GREEDY = DecodePolicy(12, Decimal("0"), Decimal("1"), 0, (STOP,))

Blame = list[tuple[int, type[BytewiseError]]]
"""Which shards failed an enclave, and how."""


@dataclass(frozen=True)
class Operator(World):
    """The operator and the client of a court; `served` is the real model's environment."""

    court: "Court | None" = None

    def request(self, number: int = 1, **changes: object) -> Request:
        """A question to the court's model."""
        assert self.court is not None
        model = self.court.model
        plain = super().request(number)
        asked = replace(
            plain, model_id=model.model_id, model_name="small", environment=self.court.environment.digest, decode=GREEDY,
            template_digest=model.template_digest, tokenizer_digest=model.tokenizer_digest,
        )  # fmt: skip
        return replace(asked, **changes)  # type: ignore[arg-type]


class Court:
    """Everybody who takes part in judging one receipt."""

    def __init__(self, folder: Path) -> None:
        self.model = small_artifact(folder / "model", 7)
        self.engine = ExactEngine(self.model)
        self.environment = environment(self.model, container=word("container"), max_new_tokens=64)
        self.people = Operator(court=self)
        (folder / "keys").mkdir()
        self.keys = KeyWorld(folder / "keys", contracts=CONTRACTS)

    @contextmanager
    def sitting(self, *shards: tuple[int, Shard]) -> Iterator[None]:
        """With these shards up; all three honest ones without arguments."""
        with self.keys.listening(*(shards or [(i, self.keys.shard(i)) for i in (1, 2, 3)])):
            yield

    @functools.cached_property
    def honest(self) -> tuple[Request, Generated]:
        """Question 1 and its one answer."""
        request = self.people.request(1)
        return request, self.engine.generate(request)

    def receipt(self, request: Request, output: Output, out_hash: Digest, **changes: object) -> Receipt:
        """A receipt that agrees with what its envelope will hold, but for the changes."""
        _, truth = self.honest
        plain = self.people.receipt(1, request, truth, tokens_hash=output.tokens_hash, out_hash=out_hash)
        return replace(plain, **changes)  # type: ignore[arg-type]

    def file(
        self, payload: Payload, receipt: Receipt, plaintext: bytes | None = None, key: Blob | None = None,
        maul: Callable[[bytes], bytes] = lambda data: data,
    ) -> Case:  # fmt: skip
        """Seals for real, anchors and disputes: `VOTER` has a seat. `plaintext`, `key` and `maul` are what may go wrong."""
        data = pad(payload) if plaintext is None else plaintext
        public = key or self.keys.document.record.public_key
        envelope = maul(seal_padded(data, public, seal_context(ANCHOR, receipt), receipt.key_epoch, os.urandom))
        return self.brought(payload, replace(receipt, envelope_hash=envelope_hash(envelope)), envelope)

    def brought(self, payload: Payload, receipt: Receipt, envelope: bytes) -> Case:
        """A case of exactly these bytes."""
        case = self.keys.named(payload, receipt, envelope, self.people.operator)
        self.keys.chain.open(case)
        return case

    def judge(self, case: Case, blame: Blame | None = None, between: Callable[[Bench], Enclave] = Enclave) -> JobResult:
        """What `VOTER`'s enclave says of the case, with whatever shards are up. `between`: who hands it its job."""
        failures: Blame = [] if blame is None else blame
        source = ShardKeySource(
            self.keys.quoter, pause=lambda _: None, attempts=2, on_failure=lambda i, e: failures.append((i, type(e)))
        )
        bench = Bench(self.engine, self.model.model_id, source, self.keys.quoter, CHAIN_ID, os.urandom)
        proof = self.keys.chain.anchor(case)
        about = tickets.Case(
            case.id, SignedReceipt(case.receipt, case.receipt_signature, "eigenda:standard:0x00"), self.keys.chain.batches[0],
            proof, case.envelope, self.environment, self.keys.document.record, Blob(encode(self.keys.policy)),
        )  # fmt: skip
        subject = Digest(case.id[::-1])
        right = tickets.vote_right(subject, 1, self.keys.chain.disputes[subject].round_seed, NOW + 60)
        return tickets.run_job(between(bench), VOTER, CONTRACTS, about, right)

    def stated(self, result: JobResult) -> ResultStatement:
        """The statement inside the result's quote, once its evidence was appraised."""
        return verify_result_quote(self.keys.policy, result.quote, CHAIN_ID).statement

    def released(self, case: Case) -> list[int]:
        """Shards whose log shows that they gave a partial for the case."""
        logs = {i: self.keys.shard(i).log(0).entries for i in (1, 2, 3)}
        kind = Decision.RELEASED
        return [i for i, log in logs.items() if any(e.record.receipt_id == case.id and e.record.decision == kind for e in log)]

    def audited(self, case: Case, result: JobResult) -> Audited:
        """What a light audit would publish of the same result."""
        header, executed = self.keys.chain.batches[0], result.outcome == Outcome.EXECUTED
        checklist = preflight(Record(case.receipt, header, self.environment, word("policy"), 600, "simulated", True, executed))
        return conclude(result, case.receipt, checklist, self.environment.profile, word("salt"), NOW)


def verdict(case: Case, result: JobResult) -> tuple[Verdict, int, Digest]:
    """Verdict, code and replacement if every seat of a committee says so."""
    vote = RevealedVote(result.voter, 15, result.outcome, result.code, result.tokens_hash, result.trace_root, result.round_digest)
    found = tally(15, 2, 3, [vote], case.receipt.tokens_hash, case.receipt.out_hash)
    return found.verdict, found.code, found.replacement


NOTHING = (ZERO_DIGEST, ZERO_DIGEST, ZERO_DIGEST)
"""Tokens hash, trace root and round digest of who has computed nothing."""


def computed(result: JobResult) -> tuple[Digest, Digest, Digest]:
    """The digests of a result."""
    return result.tokens_hash, result.trace_root, result.round_digest
