"""Seeds from mixes that a running chain made, proven with its own headers (design section 13; ADR-029)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.digests import keccak256, keccak256_abi
from bytewise.protocol.errors.actors import ChainReverted, TryAgain
from bytewise.protocol.units import Address, digest
from chain.client.artifacts import interface
from chain.client.blocks import header_rlp
from chain.client.rpc import ChainClient, at_number, hex_bytes
from chain.deployment.deploy import created_address
from chain.sending.transactions import TransactionCall, send_all
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil
from tests.fixtures.chain.devnet import signer

SHORTEST, LONGEST = 3, 1_000


class Source:
    """`RandaoSource` on a chain, deployed with the headers of two of its blocks."""

    def __init__(self, anvil: Anvil) -> None:
        self.anvil, self.code = anvil, interface("RandaoSource")
        newest = anvil.mine(2)
        proof = [value for n in (newest - 1, newest) for value in (n, header_rlp(anvil.client, n))]
        self.address = created_address(signer(0).address, anvil.client.nonce(signer(0).address))
        self._send(None, self.code.creation(SHORTEST, LONGEST, *proof), 3_000_000)

    def seed(self, number: int, header: bytes) -> Any:
        """The seed of a block as of the newest block, shown by a header."""
        return self._read("seedOf", number, header)

    def is_expired(self, number: int) -> Any:
        """Whether the seed of a block can never be read again."""
        return self._read("isExpired", number)

    def _read(self, function: str, *arguments: Any) -> Any:
        newest = at_number(self.anvil.client.head().number)
        return self.anvil.client.call("RandaoSource", self.address, function, *arguments, block=newest)

    def _send(self, to: Address | None, data: bytes, gas: int = 300_000) -> int:
        return send_all(self.anvil.client, [TransactionCall(signer(0), to, data, 0, gas)], 30)[0].gas_used


def mix_of(anvil: Anvil, number: int) -> bytes:
    """The mix that the node says the block has."""
    return hex_bytes(anvil.rpc("eth_getBlockByNumber", hex(number), False)["mixHash"])


def seed_of(anvil: Anvil, number: int) -> bytes:
    """The seed that the mix of a block makes."""
    return keccak256_abi(("bytes32", "uint256", "uint256"), (mix_of(anvil, number), CHAIN_ID, number))


def test_mix_of_a_block_becomes_the_seed_after_the_block(anvil: Anvil) -> None:
    source = Source(anvil)
    number = anvil.client.head().number + 10
    with pytest.raises(ChainReverted, match="SeedTooEarly"):
        source.seed(number, b"")
    anvil.mine(10)
    with pytest.raises(ChainReverted, match="SeedTooEarly"):
        source.seed(number, header_rlp(anvil.client, number))
    anvil.mine()
    assert source.seed(number, header_rlp(anvil.client, number)) == seed_of(anvil, number)
    assert source.is_expired(number) is False


def test_other_headers_are_refused(anvil: Anvil) -> None:
    source = Source(anvil)
    number = anvil.mine()
    anvil.mine(2)
    header = header_rlp(anvil.client, number)
    changed = header.replace(mix_of(anvil, number), bytes(32))
    assert changed != header
    for other in (changed, header + b"\0", header[:-1], b"", header_rlp(anvil.client, number - 1)):
        with pytest.raises(ChainReverted, match="WrongHeader"):
            source.seed(number, other)


def test_a_block_that_was_replaced_gives_its_new_mix(anvil: Anvil) -> None:
    source = Source(anvil)
    number = anvil.client.head().number + 10
    anvil.mine(11)
    gone = header_rlp(anvil.client, number)
    anvil.reorganise(3)
    assert gone != header_rlp(anvil.client, number)
    with pytest.raises(ChainReverted, match="WrongHeader"):
        source.seed(number, gone)
    assert source.seed(number, header_rlp(anvil.client, number)) == seed_of(anvil, number)


def test_seed_is_read_from_the_history_that_the_chain_keeps(anvil: Anvil) -> None:
    """`BLOCKHASH` reaches back 256 blocks; EIP-2935 8,191."""
    source = Source(anvil)
    number = anvil.client.head().number + 10
    anvil.rpc("anvil_mine", hex(330))
    assert anvil.client.head().number - number > 256
    assert source.is_expired(number) is False
    assert source.seed(number, header_rlp(anvil.client, number)) == seed_of(anvil, number)


def test_one_block_twice_does_not_show_that_mixes_differ(anvil: Anvil) -> None:
    newest = anvil.mine(2)
    header = header_rlp(anvil.client, newest)
    data = interface("RandaoSource").creation(SHORTEST, LONGEST, newest, header, newest, header)
    with pytest.raises(ChainReverted, match="MixesAreConstant"):
        send_all(anvil.client, [TransactionCall(signer(0), None, data, 0, 3_000_000)], 30)


class OneAnswer(ChainClient):
    """A client of a node that gives this one answer."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer  # and no provider: nothing is asked of any node

    def rpc(self, method: str, *params: Any) -> Any:
        """The answer, whatever is asked."""
        return self._answer


def block(anvil: Anvil) -> dict[str, Any]:
    """A block as the node says it."""
    answer = anvil.rpc("eth_getBlockByNumber", hex(anvil.mine()), False)
    assert isinstance(answer, dict)
    return answer


def test_every_field_of_a_header_is_in_its_hash(anvil: Anvil) -> None:
    raw = block(anvil)
    header = header_rlp(OneAnswer(raw), 1)
    assert keccak256(header) == digest(hex_bytes(raw["hash"]))
    hashed = [name for name in raw if name not in ("totalDifficulty", "size", "uncles", "transactions", "withdrawals")]
    assert len(hashed) == 22, "21 fields and the hash"
    for name in hashed:
        value = raw[name]
        other = value[:-1] + ("1" if value[-1] != "1" else "2") if len(value) > 2 else "0x12"
        for answer in (raw | {name: other}, {key: each for key, each in raw.items() if key != name}):
            with pytest.raises(TryAgain, match="header of block 1"):
                header_rlp(OneAnswer(answer), 1)


ANSWERS = (
    st.none() | st.integers() | st.text(max_size=9) | st.dictionaries(st.sampled_from(["hash", "miner", "number"]), st.text())
)


@given(ANSWERS)
@settings(max_examples=25)
def test_malformed_block_of_a_node_is_refused(answer: Any) -> None:
    with pytest.raises(TryAgain):
        header_rlp(OneAnswer(answer), 1)
