"""EIP-1559 transactions: signing, and the one-shot pipelined sending of deployments.

Actors never send from here: their writes go through `chain.sender`, which survives a crash (design section 2).
"""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from hexbytes import HexBytes

from bytewise.protocol.errors import ChainReverted, TryAgain, Unavailable
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address, Blob, Digest, digest
from bytewise.service.clock import monotonic_s
from chain.access import Chain
from chain.client import ChainClient, Inclusion, at_number, quantity, reading_answer
from chain.fees import Fees, fees_at

EMPTY_GAS = 21_000
"""Gas of a transaction that does nothing."""

TX_GAS_CAP = 2**24
"""Most gas of one transaction (EIP-7825)."""

_POLL_S = 0.1


class Call(NamedTuple):
    """One transaction to be; `to` is None for a deployment."""

    signer: LocalSigner
    to: Address | None
    data: bytes
    value_wei: int
    gas: int


def sign(client: Chain, call: Call, nonce: int, fees: Fees) -> tuple[Blob, Digest]:
    """Raw bytes and hash of the signed transaction."""
    fields: dict[str, Any] = {
        "type": 2, "chainId": client.chain_id, "nonce": nonce, "gas": call.gas, "value": call.value_wei,
        "maxFeePerGas": fees.max_fee, "maxPriorityFeePerGas": fees.tip, "data": call.data,
    }  # fmt: skip
    if call.to is not None:
        fields["to"] = bytes.fromhex(call.to[2:])
    signed = Account.sign_transaction(fields, call.signer.secret)
    return Blob(bytes(signed.raw_transaction)), digest(bytes(signed.hash))


def fees_of(raw: bytes) -> tuple[Fees, int]:
    """Fees and gas limit of signed bytes of ours."""
    fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
    return Fees(int(fields["maxFeePerGas"]), int(fields["maxPriorityFeePerGas"])), int(fields["gas"])


def is_empty(raw: bytes) -> bool:
    """Whether signed bytes of ours do nothing but use their nonce: every act has calldata."""
    return not TypedTransaction.from_bytes(HexBytes(raw)).as_dict()["data"]


def send_all(client: ChainClient, calls: Sequence[Call], timeout_s: float) -> list[Inclusion]:
    """Sends all calls in one round trip, in order per signer, and waits for every receipt.

    `ChainReverted` names the first that failed; `TryAgain` after `timeout_s` seconds without all receipts.
    """
    accounts = sorted({call.signer.address for call in calls})
    counts = client.rpc_many([("eth_getTransactionCount", (who, "latest")) for who in accounts])
    with reading_answer("eth_getTransactionCount"):
        nonces = {who: quantity(count) for who, count in zip(accounts, counts, strict=True)}
    fees = fees_at(client.head().base_fee_wei)
    raws: list[Blob] = []
    hashes: list[Digest] = []
    for call in calls:
        raw, tx_hash = sign(client, call, nonces[call.signer.address], fees)
        nonces[call.signer.address] += 1
        raws.append(raw)
        hashes.append(tx_hash)
    client.rpc_many([("eth_sendRawTransaction", ("0x" + raw.hex(),)) for raw in raws])
    receipts = _wait(client, hashes, timeout_s)
    for call, receipt in zip(calls, receipts, strict=True):
        if not receipt.succeeded:
            raise ChainReverted(call.to or "deployment", why_reverted(client, call, receipt.number))
    return receipts


def why_reverted(client: Chain, call: Call, block: int) -> str:
    """The decoded error of a reverted call repeated on the state after its block, which it did not change; best effort."""
    request = {"from": call.signer.address, "data": "0x" + call.data.hex(), "value": hex(call.value_wei), "gas": hex(call.gas)}
    if call.to is not None:
        request["to"] = call.to
    try:
        client.replay(request, at_number(block))
    except (ChainReverted, Unavailable) as error:
        return str(error)
    return "no reason on the state after its block"


def _wait(client: ChainClient, hashes: Sequence[Digest], timeout_s: float) -> list[Inclusion]:
    until = monotonic_s() + timeout_s
    pause = threading.Event()
    while True:
        looked = client.receipts(hashes)
        found = [each for each in looked if each is not None]
        if len(found) == len(looked):
            return found
        if monotonic_s() > until:
            raise TryAgain("chain", f"no receipt of {len(looked) - len(found)} of {len(looked)} transactions after {timeout_s} s")
        pause.wait(_POLL_S)
