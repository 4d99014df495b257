"""A deployment whose process ends in the middle."""

import pytest

from chain.deployment import deploy as deploying
from chain.sending.transactions import Call, send_all


class Killed(BaseException):
    """The process ends in the middle."""


def stop_after(sent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends when so many transactions have their block."""
    whole = send_all
    left = sent

    def some(client: object, calls: list[Call], timeout_s: float) -> list[object]:
        nonlocal left
        now, left = calls[:left], max(0, left - len(calls))
        done = whole(client, now, timeout_s) if now else []  # type: ignore[arg-type]
        if len(now) < len(calls):
            raise Killed
        return list(done)

    monkeypatch.setattr(deploying, "send_all", some)
