"""Answers to several calls at once: each is its call's by its id, or none is believed, and an error says what to do."""

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.errors.actors import RpcRefused, TryAgain
from bytewise.protocol.keys.epochs import ShardRefusal
from bytewise.protocol.units import Address, Digest
from bytewise.service import telemetry
from chain.client.artifacts import View
from chain.client.rpc import ChainClient, at_hash
from kms.shard.release import refusal
from tests.fixtures.chain.anvil import CHAIN_ID
from tests.fixtures.chain.broken_node import answering_node

ROOT = Path(__file__).parents[3]
Batch = list[dict[str, Any]]
ERROR = {"code": -32600, "message": "batch requests are not enabled"}
WHERE = Address("0x" + "11" * 20)
VIEWS = [View("Params", WHERE, "version")] * 3


@contextmanager
def node(made_of: Callable[[Batch], Any], status: int = 200) -> Iterator[ChainClient]:
    """A client of a node that answers single calls well, and makes this of its answers to a batch."""

    def answer(asked: Any) -> tuple[int, Any]:
        if isinstance(asked, list):
            return status, made_of([_answer(each["id"], f"0x{place:064x}") for place, each in enumerate(asked)])
        return 200, _answer(asked["id"], hex(CHAIN_ID))

    with answering_node(answer) as client:
        yield client


def _answer(id_: object, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def _read(client: ChainClient) -> list[Any]:
    return client.views(VIEWS, at_hash(Digest(b"\1" * 32)))


def _with_ids(change: Callable[[int], Any]) -> Callable[[Batch], Any]:
    return lambda said: [{**each, "id": change(each["id"])} for each in said]


@pytest.mark.parametrize("order", [lambda said: said, lambda said: said[::-1], lambda said: [said[1], said[2], said[0]]])
def test_answers_in_any_order_belong_to_their_calls(order: Callable[[Batch], Any]) -> None:
    with node(order) as client:
        assert [_read(client), _read(client)] == [[0, 1, 2]] * 2


WRONG: dict[str, Callable[[Batch], Any]] = {
    "doubled": lambda said: [said[0], said[0], said[2]],
    "doubled and all": lambda said: [*said, said[0]],
    "missing": lambda said: said[:-1],
    "foreign": _with_ids(lambda id_: id_ + 100 * (3 - id_)),
    "one foreign": lambda said: [*said[:-1], {**said[-1], "id": said[-1]["id"] + 7}],
    "none": lambda said: [{"result": each["result"]} for each in said],
    "null": _with_ids(lambda id_: None),
    "text": _with_ids(str),
    "fractions": _with_ids(float),
    "truth": _with_ids(lambda id_: True),
    "lists": _with_ids(lambda id_: [id_]),
    "huge": _with_ids(lambda id_: id_ + 2**200),
    "no objects": lambda said: [7, None, "x"],
    "empty": lambda said: [],
}


@pytest.mark.parametrize("made_of", WRONG.values(), ids=WRONG)
def test_answers_with_foreign_ids_are_not_believed(made_of: Callable[[Batch], Any]) -> None:
    with node(made_of) as client, pytest.raises(TryAgain, match=r"doubled, missing or foreign ids; .*name another node"):
        _read(client)


REFUSED: dict[str, Callable[[Batch], Any]] = {
    "one object": lambda said: {"jsonrpc": "2.0", "id": None, "error": ERROR},
    "a list of one, as geth says it": lambda said: [{"jsonrpc": "2.0", "id": said[0]["id"], "error": ERROR}],
    "a list of one for nobody": lambda said: [{"jsonrpc": "2.0", "id": None, "error": ERROR}],
    "a word": lambda said: {"error": ERROR["message"]},
}


@pytest.mark.parametrize("made_of", REFUSED.values(), ids=REFUSED)
def test_node_without_batch_support_is_reported_as_such(made_of: Callable[[Batch], Any]) -> None:
    with node(made_of) as client, pytest.raises(TryAgain, match=r"batch of 3 calls .*not enabled; if it stays so.*another node"):
        _read(client)


@pytest.mark.parametrize("said", ["x", 7, None, {"jsonrpc": "2.0", "id": 1, "result": "0x"}])
def test_answer_that_is_no_list_is_refused_for_a_batch(said: Any) -> None:
    with node(lambda _: said) as client, pytest.raises(TryAgain, match="batch of 3 calls was not answered; if it stays so"):
        _read(client)


@pytest.mark.parametrize(("status", "advised"), [(400, True), (405, True), (413, True), (429, False), (503, False)])
def test_http_status_is_named_with_advice_where_retry_does_not_help(status: int, advised: bool) -> None:
    with node(lambda _: {}, status) as client, pytest.raises(TryAgain, match=f"HTTP {status}") as caught:
        _read(client)
    assert ("another node" in str(caught.value)) == advised


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 200_000])
def test_unreadable_answer_is_unavailable(body: bytes) -> None:
    with node(lambda _: body) as client, pytest.raises(TryAgain):
        _read(client)


def test_an_answer_nested_without_end_does_not_end_the_process() -> None:
    """In a process of its own: without the guard it is a segmentation fault, since web3's libraries raise the recursion limit."""
    program = """
import sys
from chain.client.node import NodeHTTPProvider
from bytewise.protocol.errors.records import TooLarge
for opening in (b"[", b'{"result":'):
    try:
        NodeHTTPProvider.decode_rpc_response(opening * 200_000)
    except TooLarge:
        continue
    sys.exit(3)
"""
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=False).returncode == 0


def test_failed_call_fails_alone_with_its_own_message() -> None:
    refused = {"code": -32000, "message": "header not found"}
    with node(lambda said: [*said[:-1], {"id": said[-1]["id"], "error": refused}]) as client:
        with pytest.raises(RpcRefused, match="header not found"):
            _read(client)


def test_no_calls_ask_nothing() -> None:
    with node(lambda said: pytest.fail("asked")) as client:
        assert client.rpc_many([]) == []


def test_shard_operator_reads_advice_and_requester_only_try_again() -> None:
    said = io.StringIO()
    telemetry.configure("kms-serve", said)
    try:
        with node(REFUSED["one object"]) as client, pytest.raises(TryAgain) as caught:
            _read(client)
        assert refusal(caught.value) == ShardRefusal("TryAgain", "R-52", retryable=True)
    finally:
        telemetry.configure("unnamed")
    assert "name another node" in said.getvalue()
