"""A deployed network with staked accounts and signed receipts, for tests against a real chain."""

import dataclasses
import functools
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bytewise.protocol import digests, merkle
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.snapshot import Case
from bytewise.protocol.digests import Label
from bytewise.protocol.jobs import EpochRecord, ShardRecord
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.records.environment import PROFILE_EXACT_1, Environment, Limits
from bytewise.protocol.records.receipt import (
    BatchHeader,
    ClientMode,
    EmptyLeaf,
    ListEntry,
    Mode,
    Receipt,
    ReceiptList,
    SignedEmptyLeaf,
    SignedReceipt,
    batch_leaves,
    receipt_id,
)
from bytewise.protocol.signing import Domain, LocalSigner
from bytewise.protocol.units import U8, U32, U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Blob, Digest
from bytewise.service.clock import SystemClock
from bytewise.storage.engine import open_database
from bytewise.storage.migrate import migrate
from bytewise.storage.nonce_lease import DEFAULT_TTL_S, Lane
from chain.acts.actor import ContractSender, contract_sender
from chain.client.access import Chain
from chain.client.artifacts import interface
from chain.deployment.calls import CALL_GAS
from chain.deployment.deploy import (
    Joiner,
    Policy,
    Proposed,
    activate,
    certify,
    deploy,
    environment_proposal,
    join,
    put_in_force,
    survey,
)
from chain.deployment.params import DEVNET, ETHER
from chain.deployment.plan import DEVNET_SHAPE, Shape, Site, Vote
from chain.reads.reader import DocketReader
from chain.sending.keys import devnet_signer
from chain.sending.sender import SenderPolicy
from chain.sending.transactions import Call, send_all
from tests.anvil import CHAIN_ID, Anvil, running_anvil
from tests.restaked import EigenLayer, restaked
from tests.vouched import key_in_force

ENVIRONMENT = Environment(
    container=ZERO_DIGEST, profile=PROFILE_EXACT_1, gpu_arch="cpu", driver="none", libraries=(), engine_flags=(),
    limits=Limits(max_context=512, max_new_tokens=128, max_request_bytes=65536, vocabulary=512),
)  # fmt: skip


def word(*parts: object) -> Digest:
    """An arbitrary digest."""
    return digests.labelled(Label.KEY_DERIVATION, b"test", *(str(part).encode() for part in parts))


MODEL = word("model")
POLICY = Policy(word("policy"), 1, b'{"policy":1}')


@functools.cache
def signer(index: int) -> LocalSigner:
    """0 deployer, 1 and 2 operators, 3 to 7 verifiers, 8 challenger, 9 guardian, 11 to 13 shards; others: money only."""
    return devnet_signer(CHAIN_ID, index)


def epoch_document(number: int = 1) -> EpochDocument:
    """An epoch with three shards; the keys are arbitrary bytes of the right shape, which is all that the chain sees."""
    point = Blob(b"\x04" + word("x") + word("y"))
    shards = tuple(
        ShardRecord(
            index=i,
            address=signer(10 + i).address,
            url=f"https://127.0.0.1:{9000 + i}",
            channel=f"127.0.0.1:{9100 + i}",
            certificate="PEM",
            verification_key=point,
        )
        for i in (1, 2, 3)
    )
    record = EpochRecord(epoch=U64(number), public_key=point, threshold=2, shards=shards, assurance="simulated")
    return EpochDocument(record, (point, point))


POOL, MEASUREMENT, VECTORS = word("pool"), word("measurement"), word("vectors")
OPERATORS, VERIFIERS = (signer(1), signer(2)), tuple(signer(i) for i in range(3, 8))
SHARDS = tuple(signer(10 + i) for i in (1, 2, 3))
"""Of `epoch_document`, by index."""
CHALLENGER, GUARDIAN = signer(8), signer(9)
STAKE_WEI = 32 * ETHER
FEE_WEI = ETHER // 1000
"""More than small batches cost: what is too much comes back."""


def founded(
    anvil: Anvil, params: ParamSet = DEVNET, shape: Shape = DEVNET_SHAPE, settle: Callable[[Anvil, Site], Site] | None = None
) -> Network:
    """Contracts, a pool, one environment, model, policy and key epoch; nobody has joined. Account 0 is curator.

    `settle` may change what is deployed: `tests.restaked.restaked`, say.
    """
    anvil.mine(2)
    vote = Vote(guardian=GUARDIAN.address, curator=signer(0).address, holder=signer(0).address)
    site = survey(anvil.client, signer(0).address, params, shape, [POOL], vote)
    site = site if settle is None else settle(anvil, site)
    return furnished(anvil, deploy(anvil.client, signer(0), site))


def furnished(anvil: Anvil, network: Network) -> Network:
    """The same, of contracts that are deployed by account 0 with `POOL` and without offices for others but `GUARDIAN`."""
    proposals = [environment_proposal(ENVIRONMENT, POOL, VECTORS), Proposed(MODEL, ZERO_DIGEST, VECTORS, b"{}")]
    put_in_force(anvil.client, network, signer(0), [MEASUREMENT], proposals, POLICY)
    return key_in_force(anvil.client, network, signer(0), epoch_document(), POLICY.digest, SHARDS)


def deployed(anvil: Anvil, params: ParamSet = DEVNET, at_eigenlayer: bool = False, **times: int) -> Network:
    """The same with two operators and five verifiers, environment and model ACTIVE, in a stake epoch in which they weigh.

    Whatever the chain had is replaced by this network; nothing before its head can be reorganised away or asked for.
    """
    timed = dataclasses.replace(params, times=dataclasses.replace(params.times, **times))
    network, state = _settled(timed, at_eigenlayer)
    anvil.rpc("anvil_loadState", state)
    # The network may have been made minutes ago: from here on the chain's time is the wall's again.
    anvil.mine()
    return network


@functools.cache
def _settled(params: ParamSet, at_eigenlayer: bool) -> tuple[Network, str]:
    """The network and the state of a chain of its own, made once per test run: a deployment is half a second of work."""
    with running_anvil() as anvil:
        network = with_members(anvil, params, _FAKE if at_eigenlayer else None)
        return network, anvil.rpc("anvil_dumpState")


class Restaking(NamedTuple):
    """How a network comes to its stake at EigenLayer."""

    settle: Callable[[Anvil, Site], Site]
    """Deploys EigenLayer, whose operator set names the stake source of the site."""
    stake: Callable[[Anvil, Network, Sequence[LocalSigner]], None]
    """Has members in the set, with `STAKE_WEI` allocated of each."""


def _stake_at_fake(anvil: Anvil, network: Network, members: Sequence[LocalSigner]) -> None:
    EigenLayer.of(anvil, network).delegate([each.address for each in members], STAKE_WEI)


_FAKE = Restaking(restaked, _stake_at_fake)


def with_members(anvil: Anvil, params: ParamSet, restaking: Restaking | None = None) -> Network:
    """The network of `deployed`, made on this chain."""
    return populated(anvil, founded(anvil, params, settle=restaking and restaking.settle), restaking)


def populated(anvil: Anvil, network: Network, restaking: Restaking | None = None) -> Network:
    """The same, of a network that nobody has joined."""
    members, deposit = (*OPERATORS, *VERIFIERS), 0 if restaking else STAKE_WEI
    if restaking:
        restaking.stake(anvil, network, members)
        vault, code = network.addresses.stake_vault, interface("EigenLayerStake")
        send_all(anvil.client, [Call(each, vault, code.call("sync", each.address), 0, CALL_GAS) for each in members], 60)
    joiners = [Joiner(each, deposit, f"http://127.0.0.1:{8000 + i}") for i, each in enumerate(OPERATORS)]
    joiners += [Joiner(each, deposit, None, POOL, word("machine", i), MEASUREMENT) for i, each in enumerate(VERIFIERS)]
    join(anvil.client, network, joiners)
    in_force(anvil, network, VERIFIERS, [ENVIRONMENT.digest, MODEL])
    return network


def in_force(anvil: Anvil, network: Network, verifiers: Sequence[LocalSigner], items: Sequence[Digest]) -> None:
    """Has verifiers, once they weigh, certify environments and models, and puts those in force."""
    next_stake_epoch(anvil, network)
    certify(anvil.client, network, verifiers, dict.fromkeys(items, VECTORS))
    activate(anvil.client, network, signer(0), list(items))


def next_stake_epoch(anvil: Anvil, network: Network) -> None:
    """Mines until stake that was written now weighs."""
    head = anvil.client.head().number
    pool = DocketReader(anvil.client, network).pool(network.pools[0].digest, head)
    assert pool is not None, "the curator added it"
    mine(anvil, pool.epoch_end - head + 1)


def mine(anvil: Anvil, blocks: int) -> None:
    """Mines blocks a second apart in one call."""
    anvil.rpc("anvil_mine", hex(blocks), hex(1))


def seed_passed(anvil: Anvil, case: Case) -> None:
    """Mines until the seed block of a dispute is over."""
    mine(anvil, max(case.seed.block + 1 - anvil.client.head().number, 0))


def fee_wei(anvil: Anvil, network: Network, receipts: int) -> int:
    """What a batch costs now."""
    chain = reader(anvil, network)
    return receipts * chain.docket(signer(1).address, chain.head()).price_wei


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


def batch(network: Network, operator: LocalSigner, first_seq: int, count: int, now: int, skipped: Collection[int] = ()) -> Batch:
    """Receipts with numbers from `first_seq` on; of those that are `skipped` the batch has empty leaves."""
    domain = network.anchor_domain
    receipts = [receipt(operator, first_seq + i, now) for i in range(count)]
    entries = tuple(SignedReceipt(r, operator.sign(receipt_id(domain, r)), "eigenda:standard:0x00") for r in receipts)
    shown = tuple(_shown(domain, operator, each, each.receipt.seq in skipped) for each in entries)
    leaves = batch_leaves(domain, shown)
    listed = ReceiptList(operator.address, U64(first_seq), shown)
    header = BatchHeader(
        batch_id=0, operator=operator.address, first_seq=U64(first_seq), count=U32(count), root=merkle.batch_root(leaves),
        list_hash=listed.list_hash, environment=ENVIRONMENT.digest, model_id=MODEL, key_epoch=U64(1),
        locator="eigenda:standard:0x01", anchored_at=U64(0), block=U64(0),
    )  # fmt: skip
    return Batch(header, entries, merkle.batch_tree(leaves).proofs)


def _shown(domain: Domain, operator: LocalSigner, signed: SignedReceipt, is_skipped: bool) -> ListEntry:
    if not is_skipped:
        return signed
    leaf = EmptyLeaf(operator.address, signed.receipt.seq, signed.receipt.chain_id)
    return SignedEmptyLeaf(leaf, operator.sign(receipt_id(domain, leaf)))


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


def reader(anvil: Anvil, network: Network) -> DocketReader:
    """A reader at the newest block."""
    return DocketReader(anvil.client, network)


def renumbered(header: BatchHeader, batch_id: int, anchored_at: int, block: int) -> BatchHeader:
    """The header as the chain shows it."""
    return replace(header, batch_id=batch_id, anchored_at=U64(anchored_at), block=U64(block))
