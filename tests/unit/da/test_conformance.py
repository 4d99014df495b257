"""The EigenDA proxy's REST conventions, case by case: on our store, or on the proxy that `BYTEWISE_DA_URL` names."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from bytewise.da.conventions import MAX_PAYLOAD_BYTES, encode_payload
from bytewise.service.clock import monotonic_s

STANDARD = {"commitment_mode": "standard"}
LIMIT_S = 30.0

PAYLOADS = [b"", b"x", bytes(100), "Grüße, 世界".encode(), bytes(31), bytes(32), bytes(33), os.urandom(2**20)]


def ask(method: str, address: str, **more: Any) -> httpx2.Response:
    return httpx2.request(method, address, timeout=LIMIT_S, trust_env=False, **more)


def put(url: str, payload: bytes, standard: bool = True) -> bytes:
    answer = ask("POST", f"{url}/put", content=payload, params=STANDARD if standard else {})
    assert answer.status_code == 200, answer.text
    return answer.content


def get(url: str, text: str, standard: bool = True, **query: str) -> httpx2.Response:
    return ask("GET", f"{url}/get/{text}", params=(STANDARD if standard else {}) | query)


@pytest.fixture
def fault_settings(url: str) -> Iterator[str]:
    """Address of the memstore's knobs; turned back afterwards."""
    address = f"{url}/memstore/config"
    before = ask("GET", address).json()
    yield address
    names = ("BlobExpiration", "PutLatency", "GetLatency", "PutReturnsFailoverError")
    turned = {name: before[name] for name in names} | {"NullableDerivationError": {"Reset": True}}
    assert ask("PATCH", address, json=turned).status_code == 200


def test_c1_health_is_an_empty_200(url: str) -> None:
    answer = ask("GET", f"{url}/health")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("payload", PAYLOADS, ids=len)
def test_c2_standard_mode_gives_back_what_was_put(url: str, payload: bytes) -> None:
    certificate = put(url, payload)
    assert certificate[0] in (2, 3) and certificate[1] >= 0xC0, "version byte, then an RLP list"
    assert get(url, "0x" + certificate.hex()).content == payload


def test_c2_the_largest_payload_fits_and_one_byte_more_does_not(url: str) -> None:
    largest = os.urandom(MAX_PAYLOAD_BYTES)
    assert get(url, put(url, largest).hex()).content == largest
    assert ask("POST", f"{url}/put", content=largest + b"x", params=STANDARD).status_code == 400


def test_c2_a_body_above_the_limit_is_refused(url: str) -> None:
    assert ask("POST", f"{url}/put", content=bytes(17 * 10**6), params=STANDARD).status_code == 400


@pytest.mark.parametrize("path", ["/put", "/put/"])
def test_c3_op_generic_prefixes_the_certificate(url: str, path: str) -> None:
    commitment = ask("POST", url + path, content=b"op").content
    assert commitment[:2] == b"\x01\x00" and commitment[2] in (2, 3)
    assert get(url, "0x" + commitment.hex(), standard=False).content == b"op"


def test_c4_hex_is_accepted_with_and_without_prefix_and_in_upper_case(url: str) -> None:
    text = put(url, b"hex").hex()
    for written in (text, "0x" + text, text.upper(), "0x" + text.upper()):
        assert get(url, written).content == b"hex"


def test_c5_modes_share_certificates_but_not_commitments(url: str) -> None:
    standard, generic = put(url, b"both"), put(url, b"both", standard=False)
    assert get(url, generic[2:].hex()).content == b"both"
    assert get(url, "0100" + standard.hex(), standard=False).content == b"both"
    assert get(url, standard.hex(), standard=False).status_code != 200
    assert get(url, generic.hex()).status_code != 200


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("0x", 404, "404 page not found\n"), ("0x1", 404, "404 page not found\n"),
        ("0x03abc", 400, ""), ("0x03zz", 400, ""), ("03a", 400, ""),
        ("0x04{}", 400, "unsupported version byte 04"), ("0x06{}", 400, "unsupported version byte 06"),
    ],
)  # fmt: skip
def test_c6_path_without_a_known_version_and_hex_is_refused(url: str, text: str, code: int, said: str) -> None:
    answer = get(url, text.format(put(url, b"v").hex()[2:]))
    assert answer.status_code == code and said in answer.text


def test_c6_a_random_certificate_is_never_served(url: str) -> None:
    answer = get(url, "0x03" + os.urandom(300).hex())
    assert answer.status_code in (418, 500)
    if answer.status_code == 418:
        assert answer.json()["StatusCode"] == 1


def test_c6_get_on_put_is_not_allowed(url: str) -> None:
    assert ask("GET", f"{url}/put").status_code == 405


def test_c7_the_encoded_payload_is_encoding_0(url: str) -> None:
    text = put(url, b"hello").hex()
    assert get(url, text, return_encoded_payload="TRUE").content == encode_payload(b"hello")
    assert get(url, text, return_encoded_payload="false").content == b"hello"


@pytest.mark.parametrize(("number", "code"), [("x", 400), ("-1", 400), (str(2**64), 400), (str(2**32), 200), ("0", 200)])
def test_c8_the_inclusion_block_is_a_uint64(url: str, number: str, code: int) -> None:
    assert get(url, put(url, b"n").hex(), l1_inclusion_block_number=number).status_code == code


def test_c9_a_put_can_ask_to_fail_over(url: str, fault_settings: str) -> None:
    shown = ask("PATCH", fault_settings, json={"PutReturnsFailoverError": True})
    assert shown.json()["PutReturnsFailoverError"] is True
    assert ask("POST", f"{url}/put", content=b"x", params=STANDARD).status_code == 503


@pytest.mark.parametrize(("knob", "method"), [("PutLatency", "POST"), ("GetLatency", "GET")])
def test_c9_latency_outlasts_an_impatient_client(url: str, fault_settings: str, knob: str, method: str) -> None:
    address = f"{url}/put" if method == "POST" else f"{url}/get/{put(url, b'slow').hex()}"
    assert ask("PATCH", fault_settings, json={knob: "4s"}).json()[knob] == "4s"
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.request(method, address, params=STANDARD, timeout=0.5, trust_env=False)
    assert ask("PATCH", fault_settings, json={knob: "0s"}).status_code == 200
    assert ask(method, address, params=STANDARD).status_code == 200


def test_c9_an_expired_blob_is_a_500_and_not_proof(url: str, fault_settings: str) -> None:
    assert ask("PATCH", fault_settings, json={"BlobExpiration": "1s"}).status_code == 200
    text = put(url, b"gone").hex()
    deadline, idle, code = monotonic_s() + LIMIT_S, threading.Event(), 200
    while code == 200 and monotonic_s() < deadline:
        code = get(url, text).status_code
        idle.wait(0.1)
    assert code == 500


@pytest.mark.parametrize("status", [1, 2, 3, 4])
def test_c9_each_derivation_error_is_a_418_with_its_number(url: str, fault_settings: str, status: int) -> None:
    told = {"StatusCode": status, "Msg": "as told", "Reset": False}
    assert ask("PATCH", fault_settings, json={"NullableDerivationError": told}).status_code == 200
    text = put(url, b"refused").hex()
    answer = get(url, text)
    assert answer.status_code == 418
    assert (answer.json()["StatusCode"], answer.json()["Msg"]) == (status, "as told")
    assert ask("PATCH", fault_settings, json={"NullableDerivationError": {"Reset": True}}).status_code == 200
    assert get(url, put(url, b"served").hex()).content == b"served"


@pytest.mark.parametrize("change", ["{", '{"PutLatency": "soon"}', '{"PutLatency": 3}'])
def test_c9_bad_parameter_is_refused(fault_settings: str, change: str) -> None:
    assert ask("PATCH", fault_settings, content=change).status_code == 400


def test_c10_disabled_api_is_forbidden(url: str) -> None:
    assert get(url, "00" + "ab" * 32, standard=False).status_code == 403


def test_c11_config_lists_what_is_enabled(url: str) -> None:
    shown = ask("GET", f"{url}/config").json()
    assert shown["max_payload_size_bytes"] == MAX_PAYLOAD_BYTES
    assert {"standard", "op-generic"} <= set(shown["apis_enabled"]) and shown["read_only_mode"] is False


def test_c12_two_puts_of_one_payload_give_two_certificates(url: str) -> None:
    first, second = put(url, b"twice"), put(url, b"twice")
    assert first != second
    assert get(url, first.hex()).content == get(url, second.hex()).content == b"twice"


def test_c13_thirty_two_concurrent_puts_do_not_mix(url: str) -> None:
    payloads = [os.urandom(2000) for _ in range(32)]
    with ThreadPoolExecutor(32) as pool:
        certificates = list(pool.map(lambda payload: put(url, payload), payloads))
        assert [answer.content for answer in pool.map(lambda c: get(url, c.hex()), certificates)] == payloads
