"""A node that answers nonsense is a node that does not answer: `TryAgain`, never an accusation and never our end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bytewise.protocol.errors.actors import ChainReverted, TryAgain
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, Digest
from chain.acts.state_check import classify
from chain.client.artifacts import View, interface
from chain.client.rpc import ChainClient
from tests.fixtures.chain.anvil import CHAIN_ID
from tests.fixtures.chain.broken_node import answering_node

WHERE = Address("0x" + "11" * 20)
WORD = "0x" + "11" * 32
BLOCK = {"hash": WORD, "parentHash": WORD, "timestamp": "0x1", "number": "0x1"}
RECEIPT = {"blockNumber": "0x1", "blockHash": WORD, "status": "0x1", "gasUsed": "0x1"}
LOG = {"address": WHERE, "topics": [], "data": "0x", "blockNumber": "0x1", "blockHash": WORD, "logIndex": "0x0"}


@contextmanager
def node(**answers: Any) -> Iterator[ChainClient]:
    """A node's client; it gives these answers, members of a JSON-RPC response by method, or one of several after the other."""
    answers["eth_chainId"] = {"result": hex(CHAIN_ID)}

    def answer(asked: Any) -> tuple[int, Any]:
        return 200, [_said(answers, each) for each in asked] if isinstance(asked, list) else _said(answers, asked)

    with answering_node(answer) as client:
        yield client


def _said(answers: dict[str, Any], asked: dict[str, Any]) -> Any:
    answer = answers[asked["method"]]
    return {"jsonrpc": "2.0", "id": asked["id"], **(next(answer) if isinstance(answer, Iterator) else answer)}


def _view(client: ChainClient) -> object:
    return client.call("Registry", WHERE, "policySerial", block="latest")


def _views(client: ChainClient) -> object:
    return client.views([View("Registry", WHERE, "policySerial")], "latest")


def _logs(client: ChainClient) -> object:
    return client.logs("ReceiptAnchor", WHERE, ["BatchAnchored"], 1, 2)


def _nonce(client: ChainClient) -> object:
    return client.nonce(WHERE)


def _receipts(client: ChainClient) -> object:
    return client.receipts([Digest(b"h" * 32)])


@pytest.mark.parametrize("result", [None, "0x", "0xnone", "nonsense", 7, [], {}])
@pytest.mark.parametrize(
    ("method", "read"),
    [("eth_call", _view), ("eth_getTransactionCount", _nonce), ("eth_getBlockByNumber", lambda client: client.head())],
)
def test_a_result_of_another_form_is_unavailable(method: str, read: Callable[[ChainClient], object], result: Any) -> None:
    with node(**{method: {"result": result}}) as client, pytest.raises(TryAgain):
        read(client)


@pytest.mark.parametrize("read", [_view, _views])
@pytest.mark.parametrize("broken", [None, "0x", "0xnone", [], {}])
def test_view_with_a_broken_answer_is_retried_exactly_once(read: Callable[[ChainClient], object], broken: Any) -> None:
    whole = {"result": "0x" + f"{7:064x}"}
    once = iter([{"result": broken}, whole, whole])
    with node(eth_call=once) as client:
        assert read(client) in (7, [7]) and list(once) == [whole]
    always = iter([{"result": broken}, {"result": broken}, whole])
    with node(eth_call=always) as client, pytest.raises(TryAgain):
        read(client)
    assert list(always) == [whole]


def test_a_refusal_is_not_asked_again() -> None:
    refused = {"error": {"code": 3, "message": "execution reverted"}}
    said = iter([refused, refused])
    with node(eth_call=said) as client, pytest.raises(ChainReverted):
        _view(client)
    assert list(said) == [refused]


@pytest.mark.parametrize(
    "result", [None, 7, [None], ["0x"], [LOG | {"topics": None}], [LOG | {"data": None}], [LOG | {"data": "0x1"}], [{}]]
)
def test_broken_logs_are_unavailable(result: Any) -> None:
    with node(eth_getLogs={"result": result}) as client, pytest.raises(TryAgain):
        _logs(client)


@pytest.mark.parametrize("change", [{"blockNumber": None}, {"blockHash": None}, {"address": None}, {"logIndex": "x"}])
def test_a_log_of_ours_that_is_not_in_a_block_is_unavailable(change: dict[str, Any]) -> None:
    contract = interface("Registry")
    topics = ["0x" + contract.topic("VerifierLeft").hex(), "0x" + "00" * 12 + "11" * 20, WORD]
    whole = LOG | {"topics": topics, "data": "0x", "transactionHash": WORD}
    with node(eth_getLogs={"result": [whole]}) as client:
        assert len(client.logs("Registry", WHERE, ["VerifierLeft"], 1, 1)) == 1
    with node(eth_getLogs={"result": [whole | change]}) as client, pytest.raises(TryAgain):
        client.logs("Registry", WHERE, ["VerifierLeft"], 1, 1)


@pytest.mark.parametrize("change", [{"number": None}, {"hash": "0x11"}, {"parentHash": None}, {"timestamp": "0x"}])
def test_a_block_without_its_fields_is_unavailable(change: dict[str, Any]) -> None:
    with node(eth_getBlockByNumber={"result": BLOCK}) as client:
        assert client.head().number == 1
    with node(eth_getBlockByNumber={"result": BLOCK | change}) as client, pytest.raises(TryAgain):
        client.head()


@pytest.mark.parametrize("change", [{"blockNumber": None}, {"blockHash": "0x1"}, {"status": None}, {"gasUsed": None}])
def test_a_receipt_without_its_fields_is_unavailable(change: dict[str, Any]) -> None:
    with node(eth_getTransactionReceipt={"result": RECEIPT | change}) as client, pytest.raises(TryAgain):
        _receipts(client)


def test_a_transaction_without_a_receipt_is_none() -> None:
    with node(eth_getTransactionReceipt={"result": None}) as client:
        assert _receipts(client) == [None]


@pytest.mark.parametrize("block", [None, BLOCK | {"hash": "0x" + "22" * 32}])
def test_receipts_of_a_node_on_another_chain_do_not_count(block: Any) -> None:
    receipt = {"eth_getTransactionReceipt": {"result": RECEIPT}}
    with node(eth_getBlockByNumber={"result": BLOCK}, **receipt) as client:
        seen = client.head()
        (found,) = client.receipts([Digest(b"h" * 32)], seen)
        assert found is not None and found.succeeded
    with node(eth_getBlockByNumber={"result": block}, **receipt) as client, pytest.raises(TryAgain):
        client.receipts([Digest(b"h" * 32)], seen)


def test_revert_data_that_is_no_hex_is_unavailable() -> None:
    with node(eth_call={"error": {"code": 3, "message": "reverted", "data": "0x123456789"}}) as client:
        with pytest.raises(TryAgain):
            _view(client)


def test_known_revert_without_its_arguments_has_no_meaning() -> None:
    selector = next(key for key, entry in interface("Disputes").errors.items() if entry["name"] == "WrongPhase")
    with node(eth_call={"error": {"code": 3, "message": "reverted", "data": "0x" + selector.hex()}}) as client:
        with pytest.raises(ChainReverted) as caught:
            _view(client)
    with pytest.raises(TryAgain):
        classify("commit", caught.value)


def test_our_own_wrong_arguments_are_a_bug() -> None:
    with node() as client, pytest.raises(MalformedValue):
        client.call("Lens", WHERE, "disputeView", b"too long" * 9, block="latest")
