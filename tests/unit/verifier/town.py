"""A chain, a store and a sender in memory, for the duty process: small, complete, and under the test's hand."""

import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Engine

from bytewise.protocol.address_book import Addresses, Network
from bytewise.protocol.court.commitments import claim_of, sealed
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.audits import AuditStage
from bytewise.protocol.decisions.snapshot import OPEN_END, AnchoredBatch, Case, DisputeOpening, Docket, Holdings, Seat, Seed
from bytewise.protocol.digests import out_hash
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.records import UnknownEnvironment, UnknownKeyEpoch
from bytewise.protocol.evidence.appraisal_policy import policy_digest
from bytewise.protocol.jobs import EpochRecord, JobResult, Prepared, RunJob
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import BatchHeader, ListEntry, SignedReceipt, receipt_id
from bytewise.protocol.records.request import output_for
from bytewise.protocol.records.statements import AuditResult, Vote
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.units import U64, U256, ZERO_DIGEST, Address, Blob, Digest, hex0x
from bytewise.service.clock import SystemClock
from bytewise.storage.archive import Archive
from bytewise.storage.cursor import Cursor
from bytewise.storage.engine import open_database
from bytewise.storage.journal import Journal, journal_key
from bytewise.storage.migrate import migrate
from chain.deployment.params import DEVNET, changed
from enclave.session import Bench, Session
from tests.dockets import anchored, docket, holdings
from tests.dockets import case as dispute_of
from tests.unit.verifier import bench as b
from tests.unit.verifier.claims import Claims, subject_of_list
from tests.unit.verifier.outgoing import Outgoing
from tests.world import ANCHOR, CHAIN_ID, DEMANDS, DISPUTES, KEY_EPOCHS, NOW, World, signer, word
from verifier.watch.absence_check import ControlledStore
from verifier.watch.leaf_index import LeafBook
from verifier.watch.open_windows import DocketPages
from verifier.watch.records import Records

WORLD = World()
ME = b.VOTER
WINDOW_S = 600
PARAMS = changed(DEVNET, {
    "times": {"window": WINDOW_S}, "money": {"audit_unit": 10}, "shares": {"audit_rate_bps": 10_000},
})  # fmt: skip
BOND_WEI = 100
_NOWHERE = Address("0x" + "00" * 20)
NETWORK = Network(
    chain_id=U256(CHAIN_ID), deploy_block=U64(1),
    addresses=Addresses(**dict.fromkeys(Addresses.__dataclass_fields__, _NOWHERE) | {
        "key_epochs": KEY_EPOCHS.contract, "receipt_anchor": ANCHOR.contract, "demands": DEMANDS.contract,
        "disputes": DISPUTES.contract,
    }),
    pools=(), code=(), epochs=(EpochDocument(b.EPOCH, (b.PUBLIC,)),),
)  # fmt: skip


class MemoryChain(Claims):
    """`ChainView` and `Documents` over lists that the test fills."""

    def __init__(self, arrived: Outgoing | None = None) -> None:
        super().__init__()
        self._arrived = arrived or Outgoing()
        self.number, self.timestamp, self.branch = 20, int(NOW) + 10, "main"
        self.disputes: list[Case] = []
        self.headers: list[BatchHeader] = []
        self.posted: list[tuple[int, AuditResult]] = []
        self.environments: dict[Digest, Environment] = {WORLD.environment.digest: WORLD.environment}
        self.reachable = True
        self.asked: list[int] = []
        """Disputes that each docket was asked for with."""
        self._opened: dict[Digest, int] = {}
        self.alternatives: dict[Digest, Digest] = {}
        """What we committed to as a challenger, by dispute."""
        self.extended: dict[int, int] = {}
        """Seconds by which the window of a batch ends later."""
        self.parameters = PARAMS
        self.agreed = 0
        """Verifiers that showed the same as any."""
        self.joined: dict[Address, list[tuple[int, int]]] = {ME.address: [(1, 1000)], signer("second").address: [(1, 1000)]}
        """Stake of each verifier from a block on."""

    def stake_at(self, account: Address, stake_block: int, block: int) -> int:
        steps = self.joined.get(account, [])
        return next((stake for since, stake in reversed(steps) if since <= stake_block), 0)

    def head(self) -> int:
        if not self.reachable:
            raise TryAgain("chain", "unreachable")
        return self.number

    def opened(self, from_block: int, to_block: int) -> tuple[DisputeOpening, ...]:
        for each in self.disputes:
            self._opened.setdefault(each.id, self.number)
        names = {each.id: each.receipt_id for each in self.disputes}
        found = [DisputeOpening(each, names[each], block) for each, block in self._opened.items() if each in names]
        return tuple(each for each in found if from_block <= each.block <= to_block)

    def docket(self, who: Address, block: int, openings: Sequence[DisputeOpening] = ()) -> Docket:
        asked = {each.id for each in openings}
        self.asked.append(len(asked))
        return docket(
            *(each for each in self.disputes if each.id in asked),
            block_hash=self.block_hash(block), number=block, timestamp=self.timestamp, clock=self.timestamp,
            required_bond_wei=BOND_WEI, me=holdings(balance_wei=10**18),
            batch_count=len(self._up_to(block)), policy=policy_digest(b.POLICY),
        )  # fmt: skip

    def anchored(self, from_batch: int, block: int) -> tuple[AnchoredBatch, ...]:
        return tuple(
            anchored(
                each.batch_id, each.operator, self._end(each), anchored_at=each.anchored_at, **self.list_state(each.batch_id)
            )
            for each in self._up_to(block)[from_batch:]
        )

    def window_end(self, receipt: Digest, batch_id: int, block: int) -> int:
        return self._end(self.headers[batch_id]) + self.held(receipt)

    def auditors(self, environment: Digest, stake_block: int, block: int) -> tuple[tuple[Address, int], ...]:
        return tuple((who, self.stake_at(who, stake_block, block)) for who in self.joined)

    def holdings(self, who: Address, block: int) -> Holdings:
        own = [each for each in self._up_to(block) if each.operator == who]
        return holdings(operator_until=OPEN_END, last_seq=max((each.first_seq + each.count - 1 for each in own), default=0))

    def _end(self, header: BatchHeader) -> int:
        held = self.held(subject_of_list(header.batch_id))
        return header.anchored_at + WINDOW_S + held + self.extended.get(header.batch_id, 0)

    def params(self, version: int, block: int) -> ParamSet:
        return self.parameters

    def audit_stage(self, receipt_id: Digest, batch_id: int, verifier: Address, block: int) -> AuditStage:
        return self._arrived.audit_stage(receipt_id)

    def agreeing(self, receipt_id: Digest, batch_id: int, out_hash: Digest, block: int) -> int:
        return self.agreed

    def alt_commits(self, who: Address, from_block: int, to_block: int) -> dict[Digest, Digest]:
        return dict(self.alternatives)

    def _up_to(self, block: int) -> list[BatchHeader]:
        return [header for header in self.headers if header.block <= block]

    def batches(self, from_block: int, to_block: int) -> tuple[BatchHeader, ...]:
        return tuple(header for header in self.headers if from_block <= header.block <= to_block)

    def audits(self, from_block: int, to_block: int) -> tuple[tuple[AuditResult, Blob], ...]:
        return tuple((result, Blob(b"")) for block, result in self.posted if from_block <= block <= to_block)

    def block_hash(self, number: int) -> Digest:
        return word("block", self.branch if number > 15 else "main", number)

    def epoch(self, epoch: int, block: int) -> EpochRecord:
        if epoch != 1:
            raise UnknownKeyEpoch(epoch)
        return b.EPOCH

    def environment(self, digest: Digest, to_block: int) -> Environment:
        if digest not in self.environments:
            raise UnknownEnvironment("environment", digest.hex(), "none")
        return self.environments[digest]

    def policy_document(self, digest: Digest, to_block: int) -> bytes:
        return b.POLICY

    def balance(self, account: Address, block: int) -> int:
        return 10**18

    def pass_time(self, seconds: int, blocks: int = 1) -> Docket:
        """Later; returns the docket."""
        self.timestamp += seconds
        self.number += blocks
        return self.now()

    def now(self) -> Docket:
        return replace(self.docket(ME.address, self.number, self.opened(0, self.number)), batches=self.anchored(0, self.number))


class Shelf:
    """`BlobStore` whose blobs can be lost, and that can be out of reach."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.reads = self.puts = 0
        self.away = False

    def put(self, data: bytes) -> str:
        if self.away:
            raise TryAgain("da", "away")
        locator = f"eigenda:standard:{hex0x(word('blob', self.puts))}"
        self.puts += 1
        self.blobs[locator] = data
        return locator

    def get(self, locator: str, accept: Callable[[bytes], bool] | None = None) -> bytes:
        self.reads += 1
        if self.away or locator not in self.blobs:
            raise TryAgain("da", "no blob")
        if accept is not None and not accept(self.blobs[locator]):
            raise TryAgain("da", "other bytes")
        return self.blobs[locator]


class Enclave:
    """`EnclaveJobs` in this process: the session code of the enclave without its socket."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.jobs = 0
        self.running = True

    def prepare(self, receipt_id: Digest) -> Prepared:
        if not self.running:
            raise TryAgain("enclave", "not running")
        self.session = Session(self.bench, receipt_id)
        return self.session.prepare()

    def run(self, job: RunJob) -> JobResult:
        self.jobs += 1
        return self.session.run(job)


@functools.cache
def _migrated() -> bytes:
    """A migrated, empty database."""
    with tempfile.TemporaryDirectory() as name:
        migrate(f"sqlite:///{name}/empty.db")
        return (Path(name) / "empty.db").read_bytes()


class Town:
    """A chain with one anchored batch, its bytes on the shelf, and the repositories of one node in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shelf, self.sender = Shelf(), Outgoing()
        self.chain = MemoryChain(self.sender)
        self.url = f"sqlite:///{folder / 'node.db'}"
        (folder / "node.db").write_bytes(_migrated())
        self.clock = SystemClock()
        self.enclave = Enclave(b.bench(folder))
        self.reopen()

    def reopen(self) -> None:
        """A restart: everything in memory is new, the database is not."""
        self.database: Engine = open_database(self.url)
        self.archive = Archive(self.database, self.clock)
        self.journal = Journal(self.database, journal_key(self.folder / "journal.key"), self.clock)
        self.store = ControlledStore(self.shelf, randomness, lambda: self.chain.timestamp)
        self.leaves, cursor = LeafBook(ANCHOR), Cursor(self.database, "batches")
        read = (self.chain, self.chain, self.store, self.archive, cursor, NETWORK)
        self.records = Records(*read, fetch_deadline_s=60, leaves=self.leaves)

    @property
    def pages(self) -> DocketPages:
        """What reads the dockets of a node that starts."""
        return DocketPages(self.chain, ME.address, 0)

    def signed(self, seq: int, cheat: bool = False, key: LocalSigner | None = None) -> SignedReceipt:
        """A signed receipt whose envelope is on the shelf."""
        request = WORLD.request(seq)
        truth = WORLD.engine.generate(request)
        output = truth.output
        if cheat:
            output = output_for(request, ((output.token_ids[0] + 1) % 256, *output.token_ids[1:]), output.finish_reason)
        changes = {"tokens_hash": output.tokens_hash, "out_hash": out_hash(output.tokens_hash, truth.trace_root)}
        receipt, envelope = b.sealed(WORLD, WORLD.payload(request, output), WORLD.receipt(seq, request, truth, **changes))
        return WORLD.sign(receipt, self.shelf.put(envelope))

    def anchor(self, *entries: ListEntry, **changes: object) -> BatchHeader:
        """Anchors a batch of them; its list is on the shelf."""
        header, listed = WORLD.batch(entries)
        locator = self.shelf.put(encode(listed))
        header = replace(header, batch_id=len(self.chain.headers), locator=locator, **changes)  # type: ignore[arg-type]
        self.chain.headers.append(header)
        return header

    def dispute(self, signed: SignedReceipt, *members: Seat, **changes: object) -> Case:
        """A dispute about a receipt, in its commit phase, with a seat of ours."""
        plain = dispute_of(
            id=word("dispute", signed.receipt.seq), receipt_id=receipt_id(ANCHOR, signed.receipt),
            operator=signed.receipt.operator, claim=claim_of(signed.receipt.tokens_hash, signed.receipt.out_hash),
            phase=Phase.COMMIT, round_seed=word("round seed"),
            seed=Seed(self.chain.number - 10, False, True),
            commit_end=self.chain.timestamp + 60, reveal_end=self.chain.timestamp + 120, members=members or (seat(),),
        )  # fmt: skip
        found = replace(plain, **changes)  # type: ignore[arg-type]
        self.chain.disputes.append(found)
        return found

    def show(self, dispute: Case, vote: Vote, **changes: object) -> Case:
        """The chain now has the commitment of a vote of ours."""
        shown = replace(dispute, members=(seat(sealed(typed_digest(DISPUTES, vote), vote.voter, vote.seat_mask)),), **changes)  # type: ignore[arg-type]
        self.chain.disputes[self.chain.disputes.index(dispute)] = shown
        return shown


def seat(commitment: Digest = ZERO_DIGEST, group: Digest = ZERO_DIGEST) -> Seat:
    """Our seat, of three."""
    return Seat(ME.address, 0b111, commitment, group)


def randomness(size: int) -> bytes:
    """Real randomness: salts must differ between runs for the tests to mean something."""
    return os.urandom(size)
