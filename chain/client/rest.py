"""One endpoint of several, and when it is let alone: after a failure it rests, longer each time, and others are asked first."""

from collections.abc import Callable
from typing import TypeVar

from bytewise.protocol.errors import ConfigurationError, RpcRefused, Unavailable
from bytewise.service import telemetry
from chain.client.rpc import ChainClient

T = TypeVar("T")

FIRST_REST_S = 1.0
"""Rest after one failure; it doubles with each further one."""

LONGEST_REST_S = 60.0
"""What a dead endpoint costs is one timeout in this time."""


class Rest:
    """The endpoint at a place of the settings."""

    def __init__(self, place: int, endpoint: ChainClient, now: Callable[[], float]) -> None:
        self.place = place
        self.took_s = 0.0
        """How long its last answer, or the lack of one, took."""
        self._endpoint = endpoint
        self._now = now
        self._failures = 0
        self._until = 0.0

    @property
    def rests(self) -> bool:
        """Whether it failed lately."""
        return self._now() < self._until

    def ask(self, ask: Callable[[ChainClient], T]) -> T:
        """Its answer. A refusal is one; silence, nonsense and another chain are failures, and it rests."""
        began = self._now()
        try:
            answer = ask(self._endpoint)
        except RpcRefused:
            self._answered(began)
            raise
        except (Unavailable, ConfigurationError) as error:
            self.took_s = self._now() - began
            self._failures += 1
            self._until = self._now() + min(FIRST_REST_S * 2.0 ** min(self._failures - 1, 10), LONGEST_REST_S)
            telemetry.count("bytewise_rpc_failures_total", endpoint=str(self.place), error=type(error).__name__)
            telemetry.log_error("chain.endpoint_failed", error, endpoint=self.place)
            raise
        self._answered(began)
        return answer

    def _answered(self, began: float) -> None:
        self.took_s = self._now() - began
        self._failures, self._until = 0, 0.0
