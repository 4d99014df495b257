"""Several endpoints: what a quorum says is what one honest node says; whatever fewer say is nothing."""

from collections.abc import Iterator
from typing import Any

import pytest

from bytewise.protocol.errors.actors import ChainReverted, NoAgreement, RpcRefused, TryAgain
from chain.client.artifacts import Reason, interface
from chain.client.quorum import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, EndpointBackoff
from chain.client.rpc import ChainClient, OtherChain
from chain.sending.transactions import TransactionCall, fees_at, sign
from tests.fixtures.chain.anvil import CHAIN_ID
from tests.fixtures.chain.devnet import signer, word
from tests.fixtures.chain.lying_endpoints import gone, lies
from tests.fixtures.chain.quorum_fixture import ACCOUNT, LIES, WORD, QuorumFixture, standing
from tests.fixtures.metric_values import value_of


@pytest.fixture(scope="module")
def place() -> Iterator[QuorumFixture]:
    with standing() as made:
        yield made


@pytest.fixture
def square(place: QuorumFixture) -> QuorumFixture:
    return place.honest_again()


def test_several_honest_endpoints_answer_like_one(square: QuorumFixture) -> None:
    assert square.everything(square.chain) == square.everything(square.alone)


@pytest.mark.parametrize("lie", LIES)
def test_one_bad_endpoint_of_three_changes_nothing(square: QuorumFixture, lie: str) -> None:
    square.endpoints[0].change = LIES[lie]
    assert square.everything(square.chain) == square.everything(square.alone)


@pytest.mark.parametrize("lie", LIES)
def test_answer_that_two_endpoints_do_not_share_is_not_read(square: QuorumFixture, lie: str) -> None:
    square.endpoints[1].change = LIES[lie]
    with pytest.raises(NoAgreement, match="endpoint 1"):
        square.everything(square.client(2))


def test_endpoint_that_lags_or_runs_ahead_does_not_move_the_head(square: QuorumFixture) -> None:
    early = square.alone.block(3)
    square.anvil.mine(2)
    raw = square.anvil.rpc("eth_getBlockByNumber", "0x3", False)
    for bad in square.endpoints:
        for change in (lies("eth_getBlockByNumber", lambda result: raw), LIES["a head far ahead"]):
            bad.change = change
            assert square.chain.head() == square.alone.head() != early
        bad.change = None


def test_mined_transaction_is_known_if_one_endpoint_has_it(square: QuorumFixture) -> None:
    who = signer(8)
    mined = square.chain.nonce(who.address)
    assert square.chain.nonce(who.address, "pending") == mined
    square.endpoints[1].change = square.endpoints[2].change = lies("eth_getTransactionCount", lambda result: hex(mined))
    raw, _ = sign(
        square.alone, TransactionCall(who, who.address, b"", 0, 21_000), mined, fees_at(square.alone.head().base_fee_wei)
    )
    square.alone.broadcast(raw)
    assert (square.chain.nonce(who.address), square.chain.nonce(who.address, "pending")) == (mined, mined + 1)
    square.anvil.mine(1)


def test_unavailable_quorum_is_named_by_endpoints_and_recovers(square: QuorumFixture) -> None:
    square.endpoints[0].change = square.endpoints[2].change = gone
    with pytest.raises(NoAgreement, match="endpoint 0: TryAgain; endpoint 2: TryAgain") as caught:
        square.chain.head()
    assert not any(each.url in str(caught.value) for each in square.endpoints), "a URL may hold a key"
    square.endpoints[0].change = None
    assert square.chain.head() == square.alone.head()


def test_dead_endpoint_is_asked_once_per_backoff(square: QuorumFixture) -> None:
    dead = square.endpoints[1]
    dead.change = gone
    asked = value_of("bytewise_rpc_request_seconds_count", provider="0", method="eth_getBlockByNumber")
    square.chain.head()
    assert [value_of("bytewise_rpc_using_fallback", provider=place) for place in "012"] == [0, 1, 0]
    assert value_of("bytewise_rpc_request_seconds_count", provider="0", method="eth_getBlockByNumber") > asked
    tries = dead.asked.total()
    for _ in range(20):
        square.chain.head()
    assert dead.asked.total() == tries
    square.clock.seconds += FIRST_BACKOFF_S
    square.chain.head()
    assert dead.asked.total() > tries and value_of("bytewise_rpc_using_fallback", provider="1") == 1
    dead.change = None
    square.clock.seconds += 2 * FIRST_BACKOFF_S
    square.chain.head()
    assert value_of("bytewise_rpc_using_fallback", provider="1") == 0, "it serves again, although two would suffice"


def test_backoff_grows_and_ends_with_an_answer(square: QuorumFixture) -> None:
    clock, front = square.clock, square.endpoints[0]
    rest = EndpointBackoff(0, ChainClient(front.url, CHAIN_ID, 5.0), clock)
    front.change, waited = gone, []
    for _ in range(9):
        with pytest.raises(TryAgain):
            rest.ask(lambda node: node.head())
        start = clock.seconds
        while rest.is_backing_off:
            clock.seconds += 0.5
        waited.append(clock.seconds - start)
    assert waited == [1, 2, 4, 8, 16, 32, 60, 60, 60] and LONGEST_BACKOFF_S == 60
    front.change = None
    rest.ask(lambda node: node.head())
    front.change = gone
    with pytest.raises(TryAgain):
        rest.ask(lambda node: node.head())
    clock.seconds += FIRST_BACKOFF_S
    assert not rest.is_backing_off


def test_node_of_another_chain_is_not_used_as_endpoint(square: QuorumFixture) -> None:
    square.endpoints[0].change = lies("eth_chainId", lambda result: "0x5")
    assert square.everything(square.chain) == square.everything(square.alone)
    square.endpoints[1].change = lies("eth_chainId", lambda result: "0x5")
    with pytest.raises(OtherChain, match="the node is on chain 5, not 31337"):
        square.client().head()
    square.endpoints[1].change = lies("eth_chainId", lambda result: "none")
    with pytest.raises(NoAgreement, match="endpoint 0: OtherChain; endpoint 1: "):
        square.client().head()


def test_a_revert_that_a_quorum_shares_is_a_revert_with_its_reason(square: QuorumFixture) -> None:
    square.endpoints[2].change = lies("eth_call", lambda result: WORD)
    with pytest.raises(ChainReverted) as caught:
        square.chain.call("Disputes", square.network.addresses.disputes, "draw", word("none"), 1, b"", block="latest")
    assert isinstance(caught.value.values[2], Reason) and caught.value.values[2].name == "WrongPhase"


def test_refusal_by_a_quorum_is_refused_and_no_disagreement(square: QuorumFixture) -> None:
    deposit = interface("StakeVault").call("deposit")
    vault = square.network.addresses.stake_vault
    request = {"from": ACCOUNT, "to": vault, "data": "0x" + deposit.hex(), "value": hex(10**30)}
    with pytest.raises(RpcRefused):
        square.chain.estimate(request)


def test_absurd_gas_estimate_of_one_endpoint_is_ignored(square: QuorumFixture) -> None:
    request = {"from": ACCOUNT, "to": ACCOUNT, "data": "0x", "value": "0x1"}
    true = square.alone.estimate(request)
    square.endpoints[0].change = lies("eth_estimateGas", lambda result: "0xffffff")
    assert square.chain.estimate(request) == true
    square.endpoints[0].change = lies("eth_estimateGas", lambda result: "0x1")
    assert square.chain.estimate(request) == true


def test_bytes_go_to_every_endpoint_and_one_that_takes_them_is_enough(square: QuorumFixture) -> None:
    call = TransactionCall(signer(9), signer(8).address, b"", 1, 21_000)
    raw, tx_hash = sign(square.chain, call, square.chain.nonce(signer(9).address), fees_at(square.chain.head().base_fee_wei))
    square.endpoints[0].change, square.endpoints[1].refused = gone, frozenset({"eth_sendRawTransaction"})
    square.chain.broadcast(raw)
    assert square.alone.knows(tx_hash)
    with pytest.raises(RpcRefused, match=r"limit exceeded.*already"):
        square.chain.broadcast(raw)


def test_logs_of_an_endpoint_that_ends_before_the_block_do_not_count(square: QuorumFixture) -> None:
    number, where = square.alone.head().number, square.network.addresses.registry
    events = ["VerifierJoined", "OperatorRegistered"]

    def behind(method: str, params: list[Any], answer: Any) -> Any:
        ahead = method == "eth_getBlockByNumber" and params[0] == hex(number)
        return {"result": None if ahead else []} if ahead or method == "eth_getLogs" else answer

    wanted = square.alone.logs("Registry", where, events, 0, number)
    for bad in square.endpoints:
        bad.change = behind
        assert square.chain.logs("Registry", where, events, 0, number) == wanted != []
        bad.change = None
    square.endpoints[0].change = square.endpoints[1].change = behind
    with pytest.raises(NoAgreement):
        square.chain.logs("Registry", where, events, 0, number)


def test_logs_read_across_a_reorganisation_are_not_returned(square: QuorumFixture) -> None:
    """All endpoints agree, and on another last block than the one that was there before they were asked."""
    number, where = square.alone.head().number, square.network.addresses.registry
    taken: list[int] = []

    def late(method: str, params: list[Any], answer: Any) -> Any:
        if method == "eth_getLogs" and not taken:
            taken.append(number)
            square.anvil.reorganise(1)
        return answer

    before = square.alone.block(number)
    for each in square.endpoints:
        each.change = late
    with pytest.raises(NoAgreement, match="reorganised while they were read"):
        square.chain.logs("Registry", where, ["VerifierJoined"], 0, number)
    assert taken and square.alone.block(number) != before
    assert square.chain.logs("Registry", where, ["VerifierJoined"], 0, number) == square.alone.logs(
        "Registry", where, ["VerifierJoined"], 0, number
    )
