"""Sending a deployment in one go: what a node loses is handed in again, a bounded number of times, and lands once."""

from typing import Any

import pytest

from bytewise.protocol.errors.actors import ChainReverted, RpcRefused, SigningRefused, TransactionPending
from bytewise.protocol.signing import LocalSigner, Preimage
from bytewise.protocol.units import Blob, Digest
from chain.client.rpc import ChainClient
from chain.sending.transactions import ATTEMPTS, TransactionCall, fee_limit, fees_at, fees_of, send_all
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil, running_anvil
from tests.fixtures.chain.devnet import signer
from tests.fixtures.chain.lying_endpoints import LyingEndpoint, fronts, refuses

FROM, TO = signer(1), signer(9).address
STORES = bytes.fromhex("602a60005260206000f3")
"""Creation code that deploys 32 bytes."""


def payments(count: int) -> list[TransactionCall]:
    return [TransactionCall(FROM, TO, b"", 1, 21_000) for _ in range(count)]


def sent_to(front: LyingEndpoint) -> ChainClient:
    return ChainClient(front.url, CHAIN_ID, 5.0)


def loses(anvil: Anvil, front: LyingEndpoint, places: set[int]) -> None:
    """The node drops the transactions that reach it at these places, and says that it took them."""
    hashes: list[str] = []

    def change(method: str, params: list[Any], answer: Any) -> Any:
        if method == "eth_sendRawTransaction" and "result" in answer:
            if len(hashes) in places:
                anvil.drop(Digest(bytes.fromhex(answer["result"][2:])))
            hashes.append(answer["result"])
        return answer

    front.change = change


@pytest.mark.parametrize("lost", [{0, 1, 2, 3}, {1, 4}])
def test_transaction_lost_by_a_node_is_submitted_again_and_mined_once(lost: set[int]) -> None:
    with running_anvil("--block-time", "1") as anvil, fronts(anvil, 1) as [front]:
        loses(anvil, front, lost)
        before = anvil.client.nonce(FROM.address)
        receipts = send_all(sent_to(front), payments(4), 2.0 * ATTEMPTS)
        assert len(receipts) == 4 and all(each.succeeded for each in receipts)
        assert anvil.client.nonce(FROM.address) == before + 4
        assert front.asked["eth_sendRawTransaction"] > 4, "nothing was lost: the control cannot fail"


def test_a_node_that_mines_nothing_is_asked_a_bounded_number_of_times(anvil: Anvil) -> None:
    anvil.automine(False)
    with fronts(anvil, 1) as [front], pytest.raises(TransactionPending, match="no receipt of 2 of 2 transactions after 1"):
        send_all(sent_to(front), payments(2), 1.0)
    assert front.asked["eth_sendRawTransaction"] == 2 * ATTEMPTS


@pytest.mark.parametrize("part", [None, 0.5, 1.0, 1.15])
def test_no_version_has_a_fee_above_the_ceiling(anvil: Anvil, part: float | None) -> None:
    """`part` is the ceiling as a part of the first fee cap; the default ceiling is twice that."""
    anvil.automine(False)
    base, caps = anvil.client.head().base_fee_wei, list[int]()
    first = fees_at(base).max_fee
    ceiling = fee_limit(base) if part is None else int(first * part)
    with fronts(anvil, 1) as [front], pytest.raises(TransactionPending):

        def change(method: str, params: list[Any], answer: Any) -> Any:
            if method == "eth_sendRawTransaction":
                caps.append(fees_of(bytes.fromhex(params[0][2:]))[0].max_fee)
            return answer

        front.change = change
        send_all(sent_to(front), payments(1), 1.0, None if part is None else ceiling)
    assert len(caps) == ATTEMPTS and max(caps) <= ceiling and caps[0] == min(first, ceiling)
    assert (max(caps) > caps[0]) == (part in (None, 1.15)), "a fee that may be raised is raised"


def test_every_version_of_a_transaction_may_be_the_one_that_lands(anvil: Anvil) -> None:
    """Each is handed in with more fees under one nonce: the newest replaces the others in the pool."""
    anvil.automine(False)
    with fronts(anvil, 1) as [front]:

        def change(method: str, params: list[Any], answer: Any) -> Any:
            if front.asked["eth_sendRawTransaction"] == 3 and method == "eth_getTransactionReceipt":
                anvil.mine()
            return answer

        front.change = change
        [landed] = send_all(sent_to(front), payments(1), ATTEMPTS)
    assert landed.succeeded and anvil.client.nonce(FROM.address) == 1


def test_refusal_at_first_submission_is_reported_unchanged(anvil: Anvil) -> None:
    beyond = TransactionCall(FROM, TO, b"", anvil.client.balance(FROM.address, "latest") * 2, 21_000)
    with pytest.raises(RpcRefused, match="nsufficient funds"):
        send_all(anvil.client, [beyond], 5.0)


def test_error_after_the_submission_names_the_transaction_as_sent(anvil: Anvil) -> None:
    before = anvil.client.nonce(FROM.address)
    with (
        fronts(anvil, 1) as [front],
        pytest.raises(TransactionPending, match=r"transaction 0x[0-9a-f]{64} was sent.*limit exceeded"),
    ):
        front.change = refuses("eth_getTransactionReceipt")
        send_all(sent_to(front), payments(1), 5.0)
    assert anvil.client.nonce(FROM.address) == before + 1


@pytest.mark.parametrize(("said", "error"), [("already known", TransactionPending), ("underpriced", RpcRefused)])
def test_first_version_that_a_node_already_has_counts_as_sent(anvil: Anvil, said: str, error: type[Exception]) -> None:
    with fronts(anvil, 1) as [front]:
        front.change = refuses("eth_sendRawTransaction", said)
        with pytest.raises(error, match=said):
            send_all(sent_to(front), payments(1), 1.0)


class SignsOnce(LocalSigner):
    """A signer with a fee ceiling that a later version exceeds."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(secret)
        self.signed = 0

    def sign_preimage(self, preimage: Preimage) -> Blob:
        self.signed += 1
        if self.signed > 1:
            raise SigningRefused("fee", "above the ceiling")
        return super().sign_preimage(preimage)


def test_refused_second_version_leaves_the_first_named_as_sent(anvil: Anvil) -> None:
    anvil.automine(False)
    call = TransactionCall(SignsOnce(FROM.secret), TO, b"", 1, 21_000)
    with fronts(anvil, 1) as [front], pytest.raises(TransactionPending, match=r"transaction 0x[0-9a-f]{64}.*above the ceiling"):
        send_all(sent_to(front), [call], 1.0)
    refuses_it = SignsOnce(FROM.secret)
    refuses_it.signed = 1
    with pytest.raises(SigningRefused):
        send_all(anvil.client, [TransactionCall(refuses_it, TO, b"", 1, 21_000)], 1.0)


def test_a_revert_names_the_call(anvil: Anvil) -> None:
    with pytest.raises(ChainReverted, match="deployment"):
        send_all(
            anvil.client, [TransactionCall(FROM, None, STORES, 0, 100_000), TransactionCall(FROM, None, b"\xfe", 0, 100_000)], 5.0
        )
