"""Which answer is believed: exactly the one that a quorum gives, and a quorum is more than half."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.errors.actors import ConfigurationError, RpcRefused, TryAgain
from bytewise.protocol.errors.branches import Unavailable
from bytewise.protocol.units import Digest
from chain.client.access import open_chain
from chain.client.quorum import QuorumClient
from chain.client.rpc import Block, ChainClient
from tests.fixtures.chain.anvil import CHAIN_ID


class Scripted(ChainClient):
    """A node that gives one answer for every block: a hash, nothing (None), or a refusal ("")."""

    def __init__(self, says: str | None) -> None:
        super().__init__("http://127.0.0.1:1", CHAIN_ID)
        self._says = says

    def block(self, number: int) -> Block:
        """The scripted answer."""
        if self._says is None:
            raise TryAgain("chain", "scripted")
        if not self._says:
            raise RpcRefused("eth_getBlockByNumber", "scripted")
        return Block(number, Digest(self._says.encode() * 32), Digest(bytes(32)), 1, 1)


@given(says=st.lists(st.sampled_from(["a", "b", "c", "", None]), min_size=1, max_size=7), data=st.data())
def test_an_answer_is_believed_exactly_if_a_quorum_gives_it(says: list[str | None], data: st.DataObject) -> None:
    quorum = data.draw(st.integers(len(says) // 2 + 1, len(says)))
    chain = QuorumClient([Scripted(each) for each in says], quorum, lambda: 0.0)
    believed = {each for each in says if each is not None and says.count(each) >= quorum}
    try:
        answer = chain.block(1)
    except Unavailable as error:
        assert believed == ({""} if isinstance(error, RpcRefused) else set())
    else:
        assert believed == {chr(answer.hash[0])}


@pytest.mark.parametrize(("count", "quorum"), [(2, 1), (3, 1), (4, 2), (3, 4), (2, 0)])
def test_a_quorum_that_two_answers_could_reach_is_refused(count: int, quorum: int) -> None:
    with pytest.raises(ConfigurationError, match="more than half"):
        open_chain([f"http://127.0.0.1:{port}" for port in range(1, count + 1)], quorum, CHAIN_ID, 1.0)
