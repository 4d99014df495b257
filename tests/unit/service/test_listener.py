"""The listener of a process: answers over real sockets, its limits, and a port that is taken."""

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service import listener, metrics, probe, schedule
from bytewise.service.exit_codes import exit_of
from bytewise.service.listener import Listener, serve_metrics
from bytewise.service.metrics import Actor
from bytewise.service.readiness import Check, ReadinessRegistry
from bytewise.service.sections import MetricsSettings
from bytewise.service.settings import child_environment
from tests.source import ROOT

CHOSEN = MetricsSettings(port=0)


@pytest.fixture
def registry() -> ReadinessRegistry:
    made = ReadinessRegistry()
    made.started()
    return made


@pytest.fixture
def served(registry: ReadinessRegistry) -> Iterator[Listener]:
    # Servers that earlier tests ran in this process are not loops of this one.
    for loop in schedule.loop_states():
        schedule.forget_loop(loop)
    with serve_metrics(CHOSEN, Actor.SHARD, registry) as found:
        assert found is not None
        yield found


def get(served: Listener, path: str, **headers: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["content-type"], answer.read()


def test_metrics_are_served_with_their_readiness(served: Listener, registry: ReadinessRegistry) -> None:
    registry.record([Check("stake", False, "0 ETH", "at least 8 ETH", "Stake.")])
    status, kind, body = get(served, "/metrics")
    assert status == 200 and kind.startswith("text/plain; version=")
    text = body.decode()
    assert "# TYPE bytewise_up gauge\nbytewise_up 1.0\n" in text and 'bytewise_readiness{check="stake"} 0.0\n' in text
    assert re.search(r'^bytewise_build_info\{python="3\.\d+\.\d+",version="[^"]+"\} 1\.0$', text, re.MULTILINE)
    assert "bytewise_kms_channels_total" in text and "bytewise_account_balance_wei" not in text


def test_readyz_names_what_fails_and_what_to_do(served: Listener, registry: ReadinessRegistry) -> None:
    status, kind, body = get(served, "/readyz")
    assert (status, kind, json.loads(body)["ready"]) == (200, "application/json", True)
    registry.record([Check("stake", False, "0 ETH", "at least 8 ETH", "Stake for the account.")])
    status, _, body = get(served, "/readyz")
    first = json.loads(body)["checks"][0]
    assert status == 503 and (first["name"], first["advice"]) == ("stake", "Stake for the account.")


def test_process_that_only_starts_is_not_ready() -> None:
    with serve_metrics(CHOSEN, Actor.DA, ReadinessRegistry()) as served:
        assert served is not None
        status, _, body = get(served, "/readyz")
    assert status == 503 and json.loads(body)["checks"][0]["value"] == "starting"


def test_livez_fails_when_a_loop_stops(served: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    loops, now = schedule.Liveness(), [0.0]
    monkeypatch.setattr(schedule, "monotonic_s", lambda: now[0])
    monkeypatch.setattr(schedule, "loop_states", loops.loops)
    assert get(served, "/livez")[0] == 200, "no loop is announced yet"
    loops.expect("tick", 10.0)
    now[0] = 9.0
    loops.beat("tick")
    now[0] = 19.0
    assert get(served, "/livez")[0] == 200
    now[0] = 20.0
    status, _, body = get(served, "/livez")
    assert status == 503 and json.loads(body)["loops"]["tick"] == {"alive": False, "last_s": 11.0, "limit_s": 10.0}
    loops.forget("tick")
    assert get(served, "/livez")[0] == 200


def test_version_and_unknown_paths(served: Listener) -> None:
    status, _, body = get(served, "/version")
    assert status == 200 and json.loads(body)["actor"] == "shard"
    status, _, body = get(served, "/")
    assert status == 404 and json.loads(body) == {"paths": ["/livez", "/metrics", "/readyz", "/version"]}


@pytest.mark.parametrize("headers", [{"content-length": "3"}, {"transfer-encoding": "chunked"}])
def test_request_with_a_body_is_refused(served: Listener, headers: dict[str, str]) -> None:
    assert get(served, "/metrics", **headers)[0] == 413


def test_other_methods_are_refused(served: Listener) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("POST", "/metrics")
        assert connection.getresponse().status == 501


def test_connections_are_few_and_end(served: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds all connections is cut off at the deadline, although bytes keep coming."""
    with contextlib.ExitStack() as stack:
        address = ("127.0.0.1", served.port)
        slow = [stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(listener.MAX_CONNECTIONS)]
        for each in slow:
            each.sendall(b"GET /metrics HTTP/1.0\r\nx: ")
        refused = stack.enter_context(socket.create_connection(address, timeout=30))
        assert refused.recv(64) == b"", "one more is closed before a byte is read"
        monkeypatch.setattr(listener, "DEADLINE_S", 0.1)
        pause = threading.Event()
        while any(_is_open(each) for each in slow):
            pause.wait(0.05)
        monkeypatch.undo()
        while not _is_served(served):
            pause.wait(0.05)


def _is_served(served: Listener) -> bool:
    try:
        return get(served, "/version")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def _is_open(connection: socket.socket) -> bool:
    """Whether the server still takes bytes of this connection."""
    try:
        connection.sendall(b"a")
        connection.settimeout(0.01)
        return connection.recv(64) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def test_defect_of_an_answer_is_reported_and_hides_nothing(
    served: Listener, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> bytes:
        raise RuntimeError("secret")

    monkeypatch.setattr(metrics, "exposition", broken)
    status, _, body = get(served, "/metrics")
    assert (status, json.loads(body)) == (500, {"error": "RuntimeError"})
    assert get(served, "/version")[0] == 200


def test_occupied_port_is_one_clear_error(served: Listener) -> None:
    with (
        pytest.raises(ConfigurationError, match=f"127.0.0.1:{served.port}: Address already in use; name a free port") as caught,
        serve_metrics(MetricsSettings(port=served.port), Actor.DA, ReadinessRegistry()),
    ):
        pass
    assert exit_of(caught.value) == 64


@pytest.mark.parametrize("settings", [MetricsSettings("256.1.1.1"), MetricsSettings(port=70000), MetricsSettings(port=-1)])
def test_impossible_address_is_one_clear_error(settings: MetricsSettings) -> None:
    with pytest.raises(ConfigurationError, match=r"metrics\.port"), serve_metrics(settings, Actor.DA, ReadinessRegistry()):
        pass


def test_process_without_the_section_serves_nothing() -> None:
    with serve_metrics(None, Actor.DA, ReadinessRegistry()) as found:
        assert found is None


def test_probe_answers_by_exit_code(served: Listener, registry: ReadinessRegistry, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{served.port}"
    assert probe.main([f"{url}/readyz"]) == 0 and probe.main([f"{url}/livez"]) == 0
    registry.record([Check("stake", False, "0 ETH", "at least 8 ETH", "Stake for the account.")])
    assert probe.main([f"{url}/readyz"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "stake: 0 ETH, should be at least 8 ETH. Stake for the account."
    assert probe.main([f"{url}/nothing"]) == 1 and "HTTP 404" in capsys.readouterr().err
    assert probe.main(["file:///etc/hostname"]) == 1 and "not a URL" in capsys.readouterr().err


def test_probe_of_a_process_that_is_away_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bytewise.service.probe", f"http://127.0.0.1:{port}/livez"]
    done = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "is the process running?" in done.stderr and "Traceback" not in done.stderr
