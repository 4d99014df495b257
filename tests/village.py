"""A whole network in memory for `tests/test_walkthrough.py`: the real parts, without processes, HTTP, databases or contracts.

A `Village` has a model, three key shards, five staked verifiers with an enclave each, and shows what the chain would show.
"""

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bytewise.crypto.curve import GENERATOR, decode_point, decode_scalar, encode_point, random_scalar
from bytewise.crypto.envelope import open_with_point, verify_receipt_envelope
from bytewise.crypto.proofs import prove_partial, verify_partial
from bytewise.crypto.shares import combine, split, verification_key
from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import make_model
from bytewise.inference.determinism import environment
from bytewise.inference.engine import ExactEngine
from bytewise.protocol.decisions.snapshot import Case, Docket
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy, Role
from bytewise.protocol.evidence.policy_updates import first_standing
from bytewise.protocol.jobs import Contracts, EpochRecord, JobResult, Prepared, RunJob, ShardRecord
from bytewise.protocol.keys.epochs import AuditDrawing, ChainFacts, EpochState, ReleaseRequest
from bytewise.protocol.records.receipt import BatchHeader
from bytewise.protocol.records.seal import seal_context
from bytewise.protocol.units import U64, U256, Address, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.tee.binding import Terms
from bytewise.tee.measurement import ENCLAVE_ENTRY, measure
from bytewise.tee_simulated.__main__ import policy_for
from bytewise.tee_simulated.quoter import SimulatedQuoter, source_root
from bytewise.tee_simulated.root import Platform, issue, make_root
from chain.deployment.params import DEVNET, changed
from enclave.session import Bench, Session
from kms.shard import release_policy
from tests.attested import attested
from tests.dockets import anchored, docket
from tests.world import ANCHOR, CHAIN_ID, DISPUTES, KEY_EPOCHS, NOW, signer, word

NAMES = ("ada", "ben", "cleo", "dan", "eva")
ETHER = 10**18
STAKE = 10 * ETHER
CONTRACTS = Contracts(U256(CHAIN_ID), ANCHOR.contract, DISPUTES.contract, KEY_EPOCHS.contract)
PARAMS = changed(DEVNET, {"times": {"window": 60}, "money": {"audit_unit": STAKE}, "shares": {"audit_rate_bps": 9_000}})


class Dice:
    """Reproducible randomness, so that a walkthrough that fails once fails again."""

    def __init__(self) -> None:
        self._throws = itertools.count()

    def __call__(self, size: int) -> bytes:
        """The next bytes."""
        return b"".join(word("dice", next(self._throws)) for _ in range(0, size, 32))[:size]


class Keys(NamedTuple):
    """A key epoch: what is public, and each shard's share. Nobody holds the whole key."""

    record: EpochRecord
    shares: Mapping[int, int]


def deal(rng: Dice) -> Keys:
    """Deals a fresh key to three shards, any two of which open an envelope."""
    shares, commitments = split(random_scalar(rng), 2, 3, rng)
    shards = tuple(
        ShardRecord(i, signer(f"shard {i}").address, "", "", "", encode_point(verification_key(i, commitments))) for i in shares
    )
    return Keys(EpochRecord(U64(1), encode_point(commitments[0]), 2, shards, "simulated"), shares)


class Chain:
    """What the chain shows, as tests set it."""

    def __init__(self, verifiers: tuple[tuple[Address, int], ...], appraisal: Digest) -> None:
        self.verifiers = verifiers
        self.appraisal = appraisal
        self.batch: BatchHeader | None = None
        self.cases: tuple[Case, ...] = ()
        self.beacon = word("hash of the second block after the batch")
        self.now = NOW

    def docket(self, **changes: object) -> Docket:
        """All reads of one decision."""
        batches = () if self.batch is None else (anchored(0, self.batch.operator, NOW + PARAMS.times.window),)
        return docket(
            *self.cases, number=self.now - NOW + 12, timestamp=self.now, clock=self.now, policy=self.appraisal,
            required_bond_wei=PARAMS.required_bond, batches=batches, **changes,
        )  # fmt: skip

    def facts(self, epoch: EpochRecord, voter: Address) -> ChainFacts:
        """All that a shard asks about a voter's ticket."""
        return ChainFacts(
            number=self.now - NOW + 12, timestamp=self.now, clock=self.now, policy=self.appraisal, is_verifier=True,
            case=self.cases[0] if self.cases else None, drawing=self._drawing(voter), epoch_state=EpochState.ACTIVE,
            assurance="simulated", public_key=epoch.public_key, commitments=Blob(b""), holders=(),
        )  # fmt: skip

    def _drawing(self, voter: Address) -> AuditDrawing | None:
        if self.batch is None:
            return None
        seats = dict(self.verifiers).get(voter, 0) // PARAMS.money.audit_unit
        return AuditDrawing(self.batch, NOW + PARAMS.times.window, self.beacon, PARAMS.shares.audit_rate_bps, seats)


class Shards:
    """A `KeySource`: every shard judges the request by itself, and each answer is verified before any two are combined."""

    def __init__(self, keys: Keys, chain: Chain, appraisal: AppraisalPolicy, quoter: SimulatedQuoter, rng: Dice) -> None:
        self._keys, self._chain, self._appraisal, self._quoter, self._rng = keys, chain, appraisal, quoter, rng

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        """Padded plaintext of the job's envelope."""
        envelope = verify_receipt_envelope(ANCHOR, job.receipt, job.envelope)
        base = decode_point(envelope.enc)
        points = {}
        for shard in self._keys.record.shards[:2]:
            share = self._released(shard, job, transport_secret)
            partial = prove_partial(shard.index, share, base, job.ticket.receipt_id, self._rng)
            key = decode_point(shard.verification_key)
            points[shard.index] = verify_partial(partial, shard.index, key, base, job.ticket.receipt_id)
        context = seal_context(ANCHOR, job.receipt)
        return open_with_point(envelope, combine(points), self._keys.record.public_key, context, job.ticket.receipt_id)

    def _released(self, shard: ShardRecord, job: RunJob, transport_secret: bytes) -> int:
        """The shard's share, once quote, ticket and right are verified."""
        terms = Terms(
            Role.KEY_SHARD, Role.VERIFIER_ENCLAVE, CONTRACTS, job.ticket.key_epoch, first_standing(self._appraisal), None
        )
        transport_key = encode_point(GENERATOR * decode_scalar(transport_secret))
        peer = attested(terms, self._quoter, transport_key, self._appraisal.digest)
        request = ReleaseRequest(
            job.ticket, job.ticket_signature, job.receipt, job.receipt_signature, job.batch_id, job.proof, job.envelope
        )
        admitted = release_policy.verify_request(request, CONTRACTS, peer)
        release_policy.verify_right(request, admitted, CONTRACTS, self._chain.facts(self._keys.record, job.ticket.voter))
        return self._keys.shares[shard.index]


class Enclave:
    """An `EnclaveJobs` without a socket: the same sessions as in the measured program."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._session: Session | None = None

    def prepare(self, receipt_id: Digest) -> Prepared:
        """A fresh transport key."""
        self._session = Session(self._bench, receipt_id)
        return self._session.prepare()

    def run(self, job: RunJob) -> JobResult:
        """The result of the prepared job."""
        assert self._session is not None
        return self._session.run(job)


class Village:
    """Everybody. `model` and `engine` are the honest ones."""

    def __init__(self, folder: Path) -> None:
        make_model(folder / "checkpoint", 1, layers=2, width=64, heads=4, key_value_heads=2, context=256)
        convert(folder / "checkpoint", folder / "artifact")
        make_root(folder / "root")
        issue(folder / "root", folder / "platform.pem")
        self.model: Artifact = artifact.load(folder / "artifact")
        self.engine = ExactEngine(self.model)
        self.environment = environment(self.model, container=word("container"), max_new_tokens=64)
        self.rng = Dice()
        self.keys = deal(self.rng)
        self.appraisal = policy_for(_measurement(self.model.model_id), word("shard"), folder / "root", CHAIN_ID, 1)
        self.operator, self.gateway = signer("operator"), signer("gateway")
        self.people = {name: signer(name) for name in NAMES}
        self.chain = Chain(tuple((key.address, STAKE) for key in self.people.values()), self.appraisal.digest)
        quoter = SimulatedQuoter(Platform(folder / "platform.pem"), _measurement(self.model.model_id), SystemClock())
        shards = Shards(self.keys, self.chain, self.appraisal, quoter, self.rng)
        bench = functools.partial(Bench, self.engine, self.model.model_id, shards, quoter, CHAIN_ID, self.rng)
        self.enclaves = {name: Enclave(bench()) for name in NAMES}

    def name_of(self, account: Address) -> str:
        """Whose account it is."""
        return next(name for name, key in self.people.items() if key.address == account)


@functools.cache
def _measurement(model_id: Digest) -> Digest:
    return measure(source_root(), ENCLAVE_ENTRY, model_id)
