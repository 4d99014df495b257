"""Readiness: recorded and computed checks, and what a question for them may cost."""

import threading

import pytest

from bytewise.protocol.errors.actors import TryAgain
from bytewise.service import readiness
from bytewise.service.readiness import Check, ReadinessRegistry, readiness_document
from tests.fixtures.metric_values import value_of


def passing(name: str = "stake") -> Check:
    return Check(name, True, "1 ETH", "at least 1 ETH", "Add stake.")


@pytest.fixture
def registry() -> ReadinessRegistry:
    """Of a process that has done its work once."""
    made = ReadinessRegistry()
    made.started()
    return made


def others(registry: ReadinessRegistry) -> tuple[Check, ...]:
    return tuple(check for check in registry.checks() if check.name != "started")


def test_process_is_not_ready_before_its_first_pass() -> None:
    registry = ReadinessRegistry()
    (first,) = registry.checks()
    assert (first.name, first.ok, first.value) == ("started", False, "starting")
    registry.started()
    (first,) = registry.checks()
    assert first.ok and value_of("bytewise_readiness", check="started") == 1


def test_recorded_and_computed_checks_are_listed_by_name(registry: ReadinessRegistry) -> None:
    registry.record([passing("stake"), passing("balance")])
    registry.add("enclave", lambda: passing("enclave"))
    assert [check.name for check in registry.checks()] == ["balance", "enclave", "stake", "started"]
    assert all(check.ok for check in registry.checks())


def test_recorded_check_fails_when_its_loop_stops(registry: ReadinessRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(readiness, "monotonic_s", lambda: now[0])
    registry.record([passing()], fresh_s=10.0)
    now[0] = 110.0
    assert others(registry) == (passing(),)
    now[0] = 117.0
    (stale,) = others(registry)
    assert not stale.ok and stale.value == "1 ETH (7 s out of date)" and "/livez" in stale.advice


def test_function_that_does_not_answer_fails_its_check_only(registry: ReadinessRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "ANSWER_S", 0.05)
    release, runs = threading.Event(), []

    def slow() -> Check:
        runs.append(1)
        release.wait(30)
        return passing("slow")

    registry.add("slow", slow)
    registry.add("fast", lambda: passing("fast"))
    for _ in range(3):
        assert {check.name: check.ok for check in others(registry)} == {"fast": True, "slow": False}
    assert len(runs) == 1, "one thread asks, however often the checks are read"
    release.set()
    monkeypatch.setattr(readiness, "ANSWER_S", 30.0)
    assert all(check.ok for check in registry.checks())


def test_error_of_a_function_is_the_value_of_its_check(registry: ReadinessRegistry) -> None:
    def unavailable() -> Check:
        raise TryAgain("enclave", "is not there")

    def broken() -> Check:
        raise KeyError("secret value")

    registry.add("enclave", unavailable)
    registry.add("broken", broken)
    defect, enclave = others(registry)
    assert not enclave.ok and "is not there" in enclave.value and enclave.advice
    assert not defect.ok and defect.value == "defect: KeyError"


def test_result_of_a_function_is_used_again_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, runs = ReadinessRegistry(), []
    registry.add("counted", lambda: runs.append(1) or passing("counted"))  # type: ignore[func-returns-value]
    registry.checks()
    registry.checks()
    assert len(runs) == 1
    monkeypatch.setattr(readiness, "CACHE_S", -1.0)
    registry.checks()
    assert len(runs) == 2


def test_second_function_of_one_name_is_a_mistake() -> None:
    registry = ReadinessRegistry()
    registry.add("stake", passing)
    with pytest.raises(ValueError, match="stake"):
        registry.add("stake", passing)


def test_document_says_ready_only_if_every_check_passes() -> None:
    failing = Check("balance", False, "0 ETH", "at least 1 ETH", "Send ETH.")
    assert readiness_document([passing()])["ready"] is True
    document = readiness_document([passing(), failing])
    assert document["ready"] is False and [each["name"] for each in document["checks"]] == ["balance", "stake"]
    told = {"name": "balance", "ok": False, "value": "0 ETH", "threshold": "at least 1 ETH", "advice": "Send ETH."}
    assert document["checks"][0] == told
