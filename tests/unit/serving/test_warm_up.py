"""An operator answers and verifies before it is ready; a machine that contradicts itself never gets there."""

from dataclasses import dataclass, field

import pytest

from bytewise.protocol.errors.actors import NotExact
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.trace import Generated, Verification
from bytewise.protocol.units import Digest
from serving.wiring import NEW_TOKENS, warm_up
from tests.fixtures.builders import StubEngine
from tests.fixtures.serving.offer import OFFER, WORLD, StubTokenizer


@dataclass
class Watched:
    """An engine that generates with one step of the parrot and verifies with another, and notes what it was asked."""

    generates: int = 7
    verifies: int = 7
    asked: list[Request] = field(default_factory=list)

    def generate(self, request: Request) -> Generated:
        self.asked.append(request)
        return StubEngine(self.generates).generate(request)

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        return StubEngine(self.verifies).verify(request, claimed, out_hash)


def test_a_greedy_and_a_sampled_request_are_answered_and_verified() -> None:
    engine = Watched()
    assert warm_up(engine, OFFER, StubTokenizer(), WORLD.client) == 2 * NEW_TOKENS
    assert [request.decode.temperature for request in engine.asked] == ["0", "0.8"]
    assert {request.environment for request in engine.asked} == {WORLD.environment.digest}


def test_machine_that_contradicts_itself_does_not_become_ready() -> None:
    with pytest.raises(NotExact, match="warm-up"):
        warm_up(Watched(verifies=8), OFFER, StubTokenizer(), WORLD.client)
