"""A network of the contracts that come next, deployed by our own deployer, with staked accounts, for tests on a real chain."""

import dataclasses
from pathlib import Path

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.docket import Case
from bytewise.protocol.network_next import Network
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import ZERO_DIGEST, Address
from bytewise.service.clock import SystemClock
from bytewise.storage.engine import open_database
from bytewise.storage.lane import Lane
from chain.next.deploy import (
    Joiner,
    Proposed,
    activate,
    certify,
    deploy,
    environment_proposal,
    join,
    put_in_force,
    survey,
)
from chain.next.params import DEVNET, ETHER
from chain.next.plan import DEVNET_SHAPE, Vote
from chain.next.reader import DocketReader
from chain.next.sending import ContractSender, contract_sender
from chain.sender import SenderPolicy
from tests.anvil import CHAIN_ID, Anvil
from tests.devnet import ENVIRONMENT, MODEL, POLICY, empty_database, epoch_document, signer, word

POOL, MEASUREMENT, VECTORS = word("pool"), word("measurement"), word("vectors")
GUARDIAN = signer(9)
STAKE_WEI = 32 * ETHER
VERIFIERS = tuple(signer(i) for i in range(3, 8))
OPERATORS = (signer(1), signer(2))
CHALLENGER = signer(8)


def site_params(**times: int) -> ParamSet:
    """The devnet's parameters with other times."""
    return dataclasses.replace(DEVNET, times=dataclasses.replace(DEVNET.times, **times))


def founded(anvil: Anvil, params: ParamSet = DEVNET) -> Network:
    """Contracts, a pool, one environment, model, policy and key epoch; nobody has joined. Account 0 is curator."""
    anvil.mine(2)
    vote = Vote(guardian=GUARDIAN.address, curator=signer(0).address, holder=signer(0).address)
    site = survey(anvil.client, signer(0).address, params, DEVNET_SHAPE, [POOL], vote)
    network = deploy(anvil.client, signer(0), site)
    proposals = [environment_proposal(ENVIRONMENT, POOL, VECTORS), Proposed(MODEL, ZERO_DIGEST, VECTORS, b"{}")]
    return put_in_force(anvil.client, network, signer(0), [MEASUREMENT], proposals, POLICY, [epoch_document()])


def populated(anvil: Anvil, params: ParamSet = DEVNET) -> Network:
    """The same with two operators and five verifiers, environment and model ACTIVE, in a stake epoch in which they weigh."""
    network = founded(anvil, params)
    joiners = [Joiner(each, STAKE_WEI, f"http://127.0.0.1:{8000 + i}") for i, each in enumerate(OPERATORS)]
    joiners += [Joiner(each, STAKE_WEI, None, POOL, word("machine", i), MEASUREMENT) for i, each in enumerate(VERIFIERS)]
    join(anvil.client, network, joiners)
    next_stake_epoch(anvil, network)
    items = {ENVIRONMENT.digest: VECTORS, MODEL: VECTORS}
    certify(anvil.client, network, VERIFIERS, items)
    activate(anvil.client, network, signer(0), list(items))
    return network


def next_stake_epoch(anvil: Anvil, network: Network) -> None:
    """Mines until stake that was written now weighs."""
    head = anvil.client.head().number
    pool = DocketReader(anvil.client, network).pool(POOL, head)
    assert pool is not None, "the curator added it"
    mine(anvil, pool.epoch_end - head + 1)


def mine(anvil: Anvil, blocks: int) -> None:
    """Mines blocks a second apart in one call."""
    anvil.rpc("anvil_mine", hex(blocks), hex(1))


def seed_passed(anvil: Anvil, case: Case) -> None:
    """Mines until the seed block of a dispute is over."""
    mine(anvil, max(case.seed.block + 1 - anvil.client.head().number, 0))


def actor(anvil: Anvil, network: Network, key: LocalSigner, folder: Path) -> ContractSender:
    """A sender with its own database in a folder; the same folder again is the same outbox."""
    path = folder / f"{key.address}.db"
    if not path.exists():
        path.write_bytes(empty_database())
    lane = Lane(open_database(f"sqlite:///{path}"), SystemClock(), CHAIN_ID, key.address)
    return contract_sender(anvil.client, network, lane, key, "test", SenderPolicy(confirmations=1))


def address_of(place: int) -> Address:
    """Account of a numbered signer of the test chain."""
    return signer(place).address
