"""A deployed network with staked accounts and signed receipts, for tests against a real chain."""

import functools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bytewise.protocol import digests, merkle
from bytewise.protocol.digests import Label
from bytewise.protocol.environment import PROFILE_EXACT_1, Environment, Limits
from bytewise.protocol.jobs import EpochRecord, ShardRecord
from bytewise.protocol.keys import EpochDocument
from bytewise.protocol.network import Network
from bytewise.protocol.network_next import Network as NextNetwork
from bytewise.protocol.receipt import BatchHeader, ClientMode, Mode, Receipt, ReceiptList, SignedReceipt, batch_leaves, receipt_id
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U8, U32, U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.storage.engine import open_database
from bytewise.storage.lane import DEFAULT_TTL_S, Lane
from bytewise.storage.migrate import migrate
from chain.access import Chain
from chain.deploy import Joiner, Model, Policy, deploy, join, put_in_force
from chain.intents import ContractSender, contract_sender
from chain.keys import devnet_signer
from chain.params import DEVNET, ETHER
from chain.reader import ChainReader
from chain.sender import SenderPolicy
from tests.anvil import CHAIN_ID, Anvil

VERIFIERS = 5
ENVIRONMENT = Environment(
    container=ZERO_DIGEST, profile=PROFILE_EXACT_1, gpu_arch="cpu", driver="none", libraries=(), engine_flags=(),
    limits=Limits(max_context=512, max_new_tokens=128, max_request_bytes=65536, vocabulary=512),
)  # fmt: skip


def word(*parts: object) -> Digest:
    """An arbitrary digest."""
    return digests.labelled(Label.KEY_DERIVATION, b"test", *(str(part).encode() for part in parts))


MODEL = word("model")
POLICY = Policy(word("policy"), 1, b'{"policy":1}')


def signer(index: int) -> LocalSigner:
    """0 deployer, 1 and 2 operators, 3 to 7 verifiers, 8 challenger, 9 and more: money only."""
    return devnet_signer(CHAIN_ID, index)


def epoch_document(number: int = 1) -> EpochDocument:
    """An epoch with three shards; the keys are arbitrary bytes of the right shape, which is all that the chain sees."""
    point = Blob(b"\x04" + word("x") + word("y"))
    shards = tuple(
        ShardRecord(
            index=i,
            address=signer(10 + i).address,
            url=f"https://127.0.0.1:{9000 + i}",
            certificate="PEM",
            verification_key=point,
        )
        for i in (1, 2, 3)
    )
    record = EpochRecord(epoch=U64(number), public_key=point, threshold=2, shards=shards, assurance="simulated")
    return EpochDocument(record, (point, point))


def deployed(anvil: Anvil, **params: object) -> Network:
    """Contracts, one environment, model, policy and epoch, two operators, five verifiers with 32 ether each."""
    network = deploy(anvil.client, signer(0), {**DEVNET, **params})
    network = put_in_force(anvil.client, network, signer(0), [ENVIRONMENT], [Model(MODEL, b"{}")], POLICY, [epoch_document()])
    joiners = [Joiner(signer(i), 32 * ETHER, f"http://127.0.0.1:{8000 + i}") for i in (1, 2)]
    joiners += [Joiner(signer(3 + i), 32 * ETHER, None) for i in range(VERIFIERS)]
    join(anvil.client, network, joiners)
    return network


def receipt(operator: LocalSigner, seq: int, now: int) -> Receipt:
    """A receipt in mode plain, by a delegated client."""
    tokens, trace = word("tokens", operator.address, seq), word("trace", seq)
    return Receipt(
        operator=operator.address, seq=U64(seq), req_hash=word("request", seq), tokens_hash=tokens,
        out_hash=digests.out_hash(tokens, trace), model_id=MODEL, environment=ENVIRONMENT.digest,
        gpu_arch=ENVIRONMENT.gpu_arch_id, key_epoch=U64(1), envelope_hash=word("envelope", seq), issued_at=U64(now),
        anchor_by=U64(now + 600), mode=U8(Mode.PLAIN), client_mode=U8(ClientMode.DELEGATED), enclave_key=ZERO_ADDRESS,
        chain_id=U256(CHAIN_ID),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of signed receipts, not yet posted."""

    header: BatchHeader
    entries: tuple[SignedReceipt, ...]
    proofs: tuple[tuple[Digest, ...], ...]


def batch(network: Network | NextNetwork, operator: LocalSigner, first_seq: int, count: int, now: int) -> Batch:
    """Receipts with numbers from `first_seq` on."""
    domain = network.anchor_domain
    receipts = [receipt(operator, first_seq + i, now) for i in range(count)]
    entries = tuple(SignedReceipt(r, operator.sign(receipt_id(domain, r)), "eigenda:standard:0x00") for r in receipts)
    leaves = batch_leaves(domain, entries)
    listed = ReceiptList(operator.address, U64(first_seq), entries)
    header = BatchHeader(
        batch_id=0, operator=operator.address, first_seq=U64(first_seq), count=U32(count), root=merkle.batch_root(leaves),
        list_hash=listed.list_hash, environment=ENVIRONMENT.digest, model_id=MODEL, key_epoch=U64(1),
        locator="eigenda:standard:0x01", anchored_at=U64(0), block=U64(0),
    )  # fmt: skip
    return Batch(header, entries, tuple(merkle.batch_proof(leaves, i) for i in range(count)))


@functools.cache
def empty_database() -> bytes:
    """A migrated database file, made once per test run: migrations have tests of their own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        migrate(f"sqlite:///{path}")
        return path.read_bytes()


def sender(
    anvil: Anvil,
    network: Network,
    key: LocalSigner,
    folder: Path,
    policy: SenderPolicy | None = None,
    owner: str = "",
    ttl_s: int = DEFAULT_TTL_S,
    client: Chain | None = None,
) -> ContractSender:
    """A sender with its own database in a folder; the same folder again is the same outbox."""
    path = folder / f"{key.address}.db"
    if not path.exists():
        path.write_bytes(empty_database())
    lane = Lane(open_database(f"sqlite:///{path}"), SystemClock(), CHAIN_ID, key.address, owner, ttl_s)
    return contract_sender(client or anvil.client, network, lane, key, "test", policy or SenderPolicy(confirmations=1))


def pump(anvil: Anvil, senders: Sequence[ContractSender], rounds: int = 6) -> None:
    """Lets senders work, a block between each step, until nothing is open."""
    for _ in range(rounds):
        if not sum(each.pump() for each in senders):
            return
        anvil.mine()


def reader(anvil: Anvil, network: Network) -> ChainReader:
    """A reader at the newest block."""
    return ChainReader(anvil.client, network)


def renumbered(header: BatchHeader, batch_id: int, anchored_at: int, block: int) -> BatchHeader:
    """The header as the chain shows it."""
    return replace(header, batch_id=batch_id, anchored_at=U64(anchored_at), block=U64(block))
