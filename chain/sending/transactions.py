"""EIP-1559 transactions: their fees, their signatures, and sending all transactions of a deployment step together.

Actors do not send from here. Their transactions go through `chain.sending.sender`, which survives a crash (design section 2).
"""

import contextlib
import itertools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import rlp
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from hexbytes import HexBytes

from bytewise.protocol.errors.actors import ChainReverted, RpcRefused, TransactionPending
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.signing import TRANSACTION, Preimage, Signer, preimage_digest
from bytewise.protocol.units import Address, Blob, Digest, address
from bytewise.service.clock import monotonic_s
from chain.client.access import Chain
from chain.client.rpc import Inclusion, at_number

# Fees are in wei per gas. They rise while a transaction is in no block, and as its deadline comes closer. The tip of a
# transaction with a deadline is inversely proportional to the time left: 1 gwei ten minutes before the deadline, 50 gwei in the
# last block. A seat that misses its commitment loses far more than that.

TIP_WEI = 10**9
"""Tip (priority fee) far from a deadline: 1 gwei, which public builders accept at quiet times."""

HURRY_S = 600
"""Seconds before a deadline from which the tip rises: some fifty blocks."""

BLOCK_S = 12
"""Seconds between two blocks. The tip rises no further when less time is left, because no later block can be reached."""


class Fees(NamedTuple):
    """Fee cap and tip (priority fee) of a transaction, in wei per gas."""

    max_fee: int
    """Fee cap: the largest price per gas, including the tip."""
    tip: int
    """Price per gas that the proposer of the block gets."""


def tip_at(left_s: int | None) -> int:
    """Returns the tip in wei per gas. `left_s` is the number of seconds until the deadline, or None if there is no deadline. The
    tip never falls while the deadline comes closer."""
    if left_s is None:
        return TIP_WEI
    return TIP_WEI * HURRY_S // min(max(left_s, BLOCK_S), HURRY_S)


def fees_at(base_fee_wei: int, tip_wei: int = TIP_WEI) -> Fees:
    """Returns fees that stay valid until the base fee has doubled, which takes six full blocks."""
    return Fees(2 * base_fee_wei + tip_wei, tip_wei)


def fee_limit(base_fee_wei: int) -> int:
    """Returns the largest fee cap, in wei per gas, of the transactions that `send_all` sends when the base fee is
    `base_fee_wei`: twice the fee cap of their first versions."""
    return 2 * fees_at(base_fee_wei).max_fee


def first_fees(base_fee_wei: int, left_s: int | None, ceiling_wei: int) -> Fees:
    """Returns the fees of a transaction's first version. Neither fee cap nor tip is above the ceiling."""
    return _under(fees_at(base_fee_wei, tip_at(left_s)), ceiling_wei)


def raised_fees(old: Fees, base_fee_wei: int, left_s: int | None, ceiling_wei: int) -> Fees | None:
    """Returns fees with which a new version replaces the old one in every pool.

    Fee cap and tip are at least 10 % above the old ones, because geth and anvil refuse a smaller step. They are also at least the
    fees that a new transaction would get now. Returns None if the ceiling does not allow 10 % more.
    """
    fresh = fees_at(base_fee_wei, tip_at(left_s))
    least = Fees(_plus_tenth(old.max_fee), _plus_tenth(old.tip))
    new = _under(Fees(max(least.max_fee, fresh.max_fee), max(least.tip, fresh.tip)), ceiling_wei)
    return new if new.max_fee >= least.max_fee and new.tip >= least.tip else None


def tip_has_doubled(old: Fees, left_s: int | None) -> bool:
    """Returns whether the deadline is now so close that `tip_at` gives at least twice the old tip. The sender then raises the
    fees at once. Because the tip must double each time, this happens only a few times for one transaction."""
    return tip_at(left_s) >= 2 * old.tip


def _under(fees: Fees, ceiling_wei: int) -> Fees:
    highest = min(fees.max_fee, ceiling_wei)
    return Fees(highest, min(fees.tip, highest))


def _plus_tenth(value: int) -> int:
    return value + value // 10 + 1


# Transactions: signing and sending.

EMPTY_GAS = 21_000
"""Gas of a transaction without calldata."""

TX_GAS_CAP = 2**24
"""Largest gas limit of one transaction (EIP-7825)."""

ATTEMPTS = 4
"""Number of times that `send_all` sends a transaction which is in no block: at the start, and after each further part of its
time limit."""

_POLL_S = 0.1
_INT = rlp.sedes.big_endian_int
_FIELDS = (_INT, _INT, _INT, _INT, _INT, rlp.sedes.Binary.fixed_length(20, allow_empty=True), _INT, rlp.sedes.binary,
           rlp.sedes.CountableList(rlp.sedes.raw))  # fmt: skip
"""Types of the fields in the order of EIP-1559, from the chain id to the access list."""
_SIGNATURE = (_INT, _INT, _INT)
"""Types of the signature fields: parity of y, r and s."""


class TransactionCall(NamedTuple):
    """A transaction that is to be signed. `to` is None for a deployment."""

    signer: Signer
    to: Address | None
    data: bytes
    value_wei: int
    gas: int
    nonce: int | None = None
    """The nonce that the transaction must have, if its effect depends on it; None for the next nonce of its signer."""


class UnsignedTransaction(NamedTuple):
    """An EIP-1559 transaction without access list, before it is signed. Amounts are in wei, fees in wei per gas."""

    chain_id: int
    nonce: int
    tip: int
    max_fee: int
    gas: int
    to: Address | None
    """None for a deployment."""
    value_wei: int
    data: bytes

    @property
    def preimage(self) -> Preimage:
        """Bytes that are hashed and signed: 0x02 ‖ rlp of all fields."""
        return Preimage(TRANSACTION + rlp.encode(self._items(), rlp.sedes.List(_FIELDS)))

    def signed(self, signature: Blob) -> tuple[Blob, Digest]:
        """Returns raw bytes and hash of the transaction with `signature`, which is a signature of its preimage."""
        items = (*self._items(), signature[64] - 27, int.from_bytes(signature[:32]), int.from_bytes(signature[32:64]))
        raw = Blob(TRANSACTION + rlp.encode(items, rlp.sedes.List((*_FIELDS, *_SIGNATURE))))
        return raw, preimage_digest(Preimage(raw))

    def _items(self) -> tuple[Any, ...]:
        to = b"" if self.to is None else bytes.fromhex(self.to[2:])
        return self.chain_id, self.nonce, self.tip, self.max_fee, self.gas, to, self.value_wei, self.data, ()


def read_unsigned(preimage: bytes) -> UnsignedTransaction:
    """Decodes the transaction in a preimage. Raises `MalformedValue` unless it is of the kind that this program makes."""
    try:
        if not preimage.startswith(TRANSACTION):
            raise MalformedValue("transaction", "not of type 2")
        chain_id, nonce, tip, max_fee, gas, to, value_wei, data, access = rlp.decode(preimage[1:], rlp.sedes.List(_FIELDS))
    except rlp.exceptions.RLPException as error:
        raise MalformedValue("transaction", f"{len(preimage)} bytes that are none: {type(error).__name__}") from None
    if access:
        raise MalformedValue("transaction", "has an access list")
    where = address("0x" + to.hex()) if to else None
    return UnsignedTransaction(chain_id, nonce, tip, max_fee, gas, where, value_wei, data)


def sign(client: Chain, call: TransactionCall, nonce: int, fees: Fees) -> tuple[Blob, Digest]:
    """Signs a transaction, and returns its raw bytes and its hash. Raises the errors of the call's signer."""
    made = UnsignedTransaction(
        int(client.chain_id), nonce, fees.tip, fees.max_fee, call.gas, call.to, call.value_wei, bytes(call.data)
    )
    return made.signed(call.signer.sign_preimage(made.preimage))


def fees_of(raw: bytes) -> tuple[Fees, int]:
    """Returns fees and gas limit of a transaction that this process signed."""
    fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
    return Fees(int(fields["maxFeePerGas"]), int(fields["maxPriorityFeePerGas"])), int(fields["gas"])


def is_empty(raw: bytes) -> bool:
    """Returns whether a signed transaction of this process has no calldata. The process makes such a transaction only to use up
    the nonce of one that came too late."""
    return not TypedTransaction.from_bytes(HexBytes(raw)).as_dict()["data"]


def send_all(
    client: Chain, calls: Sequence[TransactionCall], timeout_s: float, ceiling_wei: int | None = None
) -> list[Inclusion]:
    """Sends all calls without waiting between them, in order for each signer, and waits for every receipt.

    Nodes lose transactions. A transaction without receipt after a part of `timeout_s` is sent again with higher fees and the
    same nonce, `ATTEMPTS` times in all. No fee cap is above `ceiling_wei` wei per gas, by default `fee_limit` of now. Raises
    `ChainReverted`, which names the first call that failed. After `timeout_s` seconds raises `TransactionPending`, and also if
    the node fails after it got a transaction. Other errors mean that nothing was sent.
    """
    nonces = _nonces(client, calls)
    versions: list[list[Digest]] = [[] for _ in calls]
    try:
        receipts = _receipts_of(client, calls, nonces, versions, timeout_s, ceiling_wei)
    except TransactionPending:
        raise
    except BytewiseError as error:
        # The error may come after the first version was sent, for example from a signer. That version may still be mined.
        if not any(versions):
            raise
        raise TransactionPending(_names_of(versions), error) from None
    return _succeeded(client, calls, receipts)


def _receipts_of(
    client: Chain, calls: Sequence[TransactionCall], nonces: Sequence[int], versions: list[list[Digest]], timeout_s: float,
    ceiling_wei: int | None,
) -> list[Inclusion]:  # fmt: skip
    """Sends all calls until each has a receipt. Adds to `versions` the hashes under which each call was sent."""
    base = client.head().base_fee_wei
    ceiling = fee_limit(base) if ceiling_wei is None else ceiling_wei
    fees = first_fees(base, None, ceiling)
    found: list[Inclusion | None] = [None] * len(calls)
    for attempt in range(ATTEMPTS):
        waiting = [place for place, receipt in enumerate(found) if receipt is None]
        signed = [sign(client, calls[place], nonces[place], fees) for place in waiting]
        # A node that still has the last version, or just mined it, may refuse another version. The receipts show the result.
        with contextlib.suppress(*((RpcRefused,) if attempt else ())):
            for place, (raw, tx_hash) in zip(waiting, signed, strict=True):
                _broadcast(client, raw, tx_hash, versions[place])
        found = _wait(client, versions, timeout_s / ATTEMPTS)
        receipts = [receipt for receipt in found if receipt is not None]
        if len(receipts) == len(calls):
            return receipts
        fees = raised_fees(fees, client.head().base_fee_wei, None, ceiling) or fees
    lost = [each for each, receipt in zip(versions, found, strict=True) if receipt is None]
    raise TransactionPending(_names_of(lost), f"no receipt of {len(lost)} of {len(calls)} transactions after {timeout_s} s")


def _broadcast(client: Chain, raw: Blob, tx_hash: Digest, versions: list[Digest]) -> None:
    """Sends one version of a transaction, and adds its hash to `versions` unless the node refused the first version."""
    versions.append(tx_hash)
    try:
        client.broadcast(raw)
    except (RpcRefused, ChainReverted) as error:
        # One endpoint may have got the transaction from another endpoint, whose answer was lost.
        if len(versions) == 1 and not any(each in str(error).lower() for each in ALREADY_THERE):
            versions.pop()
        raise


ALREADY_THERE = ("already known", "already imported")
"""Words of nodes for a transaction that they have."""


def _names_of(versions: Sequence[Sequence[Digest]]) -> str:
    newest = [f"0x{each[-1].hex()}" for each in versions if each]
    return f"transaction {', '.join(newest[:8])}"


def why_reverted(client: Chain, call: TransactionCall, block: int) -> str:
    """Returns the decoded error of a reverted call as text. It repeats the call on the state after the call's block.

    The reverted call did not change that state, but other transactions of the block may have changed it. If the repeated call
    therefore succeeds, the text says that no reason was found.
    """
    request = {"from": call.signer.address, "data": "0x" + call.data.hex(), "value": hex(call.value_wei), "gas": hex(call.gas)}
    if call.to is not None:
        request["to"] = call.to
    try:
        client.replay(request, at_number(block))
    except (ChainReverted, Unavailable) as error:
        return str(error)
    return "no reason on the state after its block"


def _nonces(client: Chain, calls: Sequence[TransactionCall]) -> list[int]:
    """Returns the nonce of each call: the one that the call names, or the next free one of its signer."""
    accounts = sorted({call.signer.address for call in calls if call.nonce is None})
    following = {who: itertools.count(client.nonce(who)) for who in accounts}
    return [next(following[call.signer.address]) if call.nonce is None else call.nonce for call in calls]


def _succeeded(client: Chain, calls: Sequence[TransactionCall], receipts: list[Inclusion]) -> list[Inclusion]:
    for call, receipt in zip(calls, receipts, strict=True):
        if not receipt.succeeded:
            raise ChainReverted(call.to or "deployment", why_reverted(client, call, receipt.number))
    return receipts


def _wait(client: Chain, versions: Sequence[Sequence[Digest]], timeout_s: float) -> list[Inclusion | None]:
    """Waits for the receipt of one version of each transaction. Returns all receipts, or those that were found when the time is
    over."""
    until = monotonic_s() + timeout_s
    pause = threading.Event()
    while True:
        looked = iter(client.receipts([tx_hash for each in versions for tx_hash in each]))
        found = [next((one for one in [next(looked) for _ in each] if one is not None), None) for each in versions]
        if None not in found or monotonic_s() > until:
            return found
        pause.wait(_POLL_S)
