"""The client's mapping of answers (case C14), against real stores with their knobs turned."""

import contextlib
import http.server
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from bytewise.da.client import DaClient
from bytewise.da.conventions import MAX_PAYLOAD_BYTES, ReplyClass, certificate_of, classify, locator_of
from bytewise.protocol.errors.actors import BadCertificate, CallerError, ConfigurationError, FailOver, TryAgain
from bytewise.service.clock import monotonic_s
from cli.demo.site import free_ports
from tests.fixtures.trickling_server import trickling

LIMIT_S = 20.0
SLOW_S = 60.0
"""Seconds that show that there was no limit: a dripping proxy would go on for two minutes."""


@pytest.fixture(autouse=True)
def reset(url: str) -> Iterator[None]:
    """Turns the first store's knobs back."""
    yield
    off = {"PutLatency": "0s", "GetLatency": "0s", "PutReturnsFailoverError": False}
    turn(url, off | {"NullableDerivationError": {"Reset": True}})


def turn(url: str, change: dict[str, Any]) -> None:
    assert httpx2.request("PATCH", f"{url}/memstore/config", json=change, timeout=LIMIT_S, trust_env=False).status_code == 200


def client(*urls: str, timeout_s: float = LIMIT_S) -> DaClient:
    return DaClient(urls, timeout_s, pause=lambda seconds: None)


def nowhere() -> str:
    return f"http://127.0.0.1:{free_ports(1)[0]}"


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, ReplyClass.OK), (400, ReplyClass.CALLER_ERROR), (418, ReplyClass.BAD_CERTIFICATE), (429, ReplyClass.RETRY),
        (500, ReplyClass.RETRY), (502, ReplyClass.RETRY), (503, ReplyClass.FAIL_OVER), (504, ReplyClass.RETRY),
        *((status, ReplyClass.RETRY) for status in (204, 206, 301, 302, 304, 307, 308)),
        *((status, ReplyClass.RETRY) for status in (401, 403, 404, 405, 407, 408, 411, 413, 414, 415, 421, 425, 431, 451, 499)),
    ],
)  # fmt: skip
def test_c14_every_status_code_has_one_meaning(status: int, verdict: ReplyClass) -> None:
    assert classify(status) is verdict


def test_bytes_come_back_under_a_locator_that_names_mode_and_certificate(url: str) -> None:
    with client(url) as da:
        locator = da.put(b"ciphertext")
        assert locator.startswith("eigenda:standard:0x03") and locator_of(certificate_of(locator)) == locator
        assert da.get(locator) == b"ciphertext"


def test_a_payload_that_is_too_large_is_our_error(url: str) -> None:
    with client(url) as da, pytest.raises(CallerError):
        da.put(bytes(MAX_PAYLOAD_BYTES + 1))


class Ingress(http.server.BaseHTTPRequestHandler):
    """Stands before a proxy and answers every request with one status and one body."""

    status, body = 404, b""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_GET = do_POST = _answer

    def log_message(self, *args: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def answering(status: int, body: bytes = b"") -> Iterator[str]:
    """The address of such an ingress."""
    handler = type("Handler", (Ingress,), {"status": status, "body": body})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(timeout=20)
            assert not thread.is_alive()


@pytest.mark.parametrize("status", [301, 403, 404, 408, 413, 431])
def test_ingress_error_during_a_proxy_restart_is_not_a_caller_error(url: str, status: int) -> None:
    with answering(status) as before, client(before, url) as both, client(before) as alone:
        locator = both.put(b"kept")
        assert both.get(locator) == b"kept"
        with pytest.raises(TryAgain):
            alone.put(b"lost")
        with pytest.raises(TryAgain):
            alone.get(locator)


def test_lying_proxy_does_not_outweigh_one_with_fitting_bytes(url: str) -> None:
    with client(url) as honest:
        locator = honest.put(b"true bytes")
    with answering(200, b"other bytes") as liar, client(liar, url) as both, client(liar) as alone:
        assert both.get(locator) == b"other bytes", "who gives no test checks what comes"
        assert both.get(locator, lambda data: data == b"true bytes") == b"true bytes"
        with pytest.raises(TryAgain, match="other bytes"):
            alone.get(locator, lambda data: data == b"true bytes")


def test_proxy_that_calls_a_locator_malformed_outweighs_no_other(url: str) -> None:
    with client(url) as honest:
        locator = honest.put(b"kept")
    with answering(400) as wrong, client(wrong, url) as both, client(wrong, wrong) as agreed, client(wrong, nowhere()) as one:
        assert both.get(locator) == b"kept"
        with pytest.raises(CallerError):
            agreed.get(locator)
        with pytest.raises(TryAgain):
            one.get(locator)


def test_status_code_beyond_all_numbers_is_no_reason() -> None:
    told = b'{"StatusCode": 1e999}'
    with answering(418, told) as wrong, client(wrong) as da, pytest.raises(TryAgain, match="without a reason"):
        da.get("eigenda:standard:0x03abcd")


def test_a_put_fails_over_to_the_next_proxy(url: str, second_url: str) -> None:
    turn(url, {"PutReturnsFailoverError": True})
    with client(url, second_url) as da:
        locator = da.put(b"elsewhere")
        assert da.get(locator) == b"elsewhere", "the first proxy's 500 is no proof either"
    with client(url) as da, pytest.raises(FailOver):
        da.put(b"nowhere else")


def test_a_proxy_that_is_down_or_slow_is_unavailable(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    turn(url, {"PutLatency": "5s"})
    # The user name and the path of a proxy may be its key.
    with client(nowhere().replace("//", "//hidden@") + "/hidden") as da, pytest.raises(TryAgain) as caught:
        da.put(b"x")
    assert "hidden" not in str(caught.value) + capfd.readouterr().err
    with client(url, timeout_s=0.2) as da, pytest.raises(TryAgain):
        da.put(b"x")
    with client(nowhere(), url) as da:
        turn(url, {"PutLatency": "0s"})
        assert da.get(da.put(b"x")) == b"x"


@pytest.mark.parametrize("part", ["request", "head", "body"])
def test_proxy_that_drips_is_abandoned_in_time(part: str) -> None:
    data = bytes(MAX_PAYLOAD_BYTES if part == "request" else 1)
    with trickling(part) as port, DaClient((f"http://127.0.0.1:{port}",), 1.0, attempts=1) as da:
        for ask in (lambda: da.put(data), lambda: da.get("eigenda:standard:0x03abcd")):
            begun = monotonic_s()
            with pytest.raises(TryAgain, match="Timeout"):
                ask()
            assert monotonic_s() - begun < SLOW_S


def test_connections_to_a_proxy_are_kept(url: str) -> None:
    with client(url) as da:
        none = len(os.listdir("/proc/self/fd"))
        locator = da.put(b"kept")
        before = len(os.listdir("/proc/self/fd"))
        assert before == none + 1
        with ThreadPoolExecutor(1) as other:
            assert [da.get(locator), other.submit(da.get, locator).result()] == [b"kept"] * 2
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_missing_blob_is_never_proof(url: str, second_url: str) -> None:
    with client(second_url) as other:
        locator = other.put(b"only there")
    with client(url) as da, pytest.raises(TryAgain):
        da.get(locator)


def test_one_proxy_alone_cannot_condemn_a_certificate(url: str) -> None:
    turn(url, {"NullableDerivationError": {"StatusCode": 3, "Msg": "bad", "Reset": False}})
    with client(url) as da:
        locator = da.put(b"x")
        with pytest.raises(TryAgain, match="no second proxy"):
            da.get(locator)
    with client(url, nowhere()) as da, pytest.raises(TryAgain):
        da.get(locator)


def test_two_proxies_that_agree_condemn_a_certificate(url: str, second_url: str) -> None:
    unparsable = "eigenda:standard:0x03" + "c1" * 40
    with client(url, second_url) as da, pytest.raises(BadCertificate, match="418/1"):
        da.get(unparsable)


def test_a_proxy_that_has_the_bytes_outweighs_one_that_condemns(url: str, second_url: str) -> None:
    """The blob is only in the second store; the first condemns everything it cannot parse."""
    turn(url, {"NullableDerivationError": {"StatusCode": 4, "Msg": "bad", "Reset": False}})
    with client(url) as da:
        condemned = da.put(b"x")
    with client(url, second_url) as da, pytest.raises(TryAgain):
        da.get(condemned)


@pytest.mark.parametrize(
    "locator",
    [
        "", "file:x", "eigenda:standard:", "eigenda:standard:0x", "eigenda:standard:0x03", "eigenda:standard:0x03AB",
        "eigenda:op:0x03ab", "eigenda:standard:0x00ab", "eigenda:standard:0x06ab", "eigenda:standard:0x03ab\n",
        "eigenda:standard:0x03" + "ab" * 9000,
    ],
)  # fmt: skip
def test_malformed_locator_is_the_posters_fault_and_asks_no_proxy(locator: str) -> None:
    with client(nowhere()) as da, pytest.raises(BadCertificate):
        da.get(locator)


def test_a_client_needs_a_proxy() -> None:
    with pytest.raises(ConfigurationError):
        DaClient((), LIMIT_S)


def test_tries_are_bounded_and_wait_longer_each_time() -> None:
    waits: list[float] = []
    with DaClient((nowhere(),), 1.0, attempts=4, pause=waits.append) as da, pytest.raises(TryAgain):
        da.get("eigenda:standard:0x03abcd")
    assert waits == [0.2, 0.4, 0.8]


def test_a_deeply_nested_reason_of_a_proxy_does_no_harm() -> None:
    from bytewise.da.client import _detail

    assert _detail(418, b"[" * 500_000) == "418 without a reason"
    assert _detail(418, b'{"StatusCode":3}') == "418/3"
