"""Who asks again, too often, or for a receipt: the official client against a real operator process."""

import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest

from bytewise.protocol.encoding import from_json
from bytewise.protocol.records.receipt import SignedReceipt, verify_receipt
from bytewise.protocol.units import unhex
from tests.fixtures.serving.operator_site import Operator, body


def test_lost_answer_is_returned_to_the_official_clients_retry(operator: Operator, client: openai.OpenAI) -> None:
    lost: list[bytes] = []

    class Lossy(httpx2.HTTPTransport):
        """A line that loses the first answer."""

        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            response = super().handle_request(request)
            if not lost:
                lost.append(response.read())
                response.close()
                raise httpx2.ReadError("lost")
            return response

    trusted = ssl.create_default_context(cafile=str(operator.folder / "tls.pem"))
    with httpx2.Client(transport=Lossy(verify=trusted), timeout=60.0) as http:
        retried = client.with_options(http_client=http).chat.completions.with_raw_response.create(**body("Again."))
    assert retried.retries_taken == 1 and retried.content == lost[0]
    for header in ("x-should-retry", "x-bytewise-receipt"):
        assert retried.headers[header]


def test_repeated_post_is_another_request(operator: Operator, client: openai.OpenAI) -> None:
    replies = [client.chat.completions.create(**body("Roll.", max_tokens=32)) for _ in range(2)]
    assert replies[0].choices[0].message.content != replies[1].choices[0].message.content
    assert replies[0].model_extra["determinism"]["seed"] != replies[1].model_extra["determinism"]["seed"]
    again = client.chat.completions.create(**body("Roll.", max_tokens=32), extra_headers={"x-stainless-retry-count": "1"})
    assert again == replies[1]


def test_posts_with_one_idempotency_key_share_one_receipt(operator: Operator, client: openai.OpenAI) -> None:
    before = operator.receipt_store.next_seq()
    named = {"Idempotency-Key": "one"}
    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda _: client.chat.completions.create(**body("Together."), extra_headers=named), range(6)))
    assert all(reply == replies[0] for reply in replies) and operator.receipt_store.next_seq() == before + 1
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.chat.completions.create(**body("Another body."), extra_headers=named)
    assert (caught.value.code, caught.value.param) == ("idempotency_key_reused", "Idempotency-Key")
    # Whom a header names is nobody's address.
    claimed = client.chat.completions.create(**body("Together."), extra_headers={**named, "X-Forwarded-For": "10.0.0.9"})
    assert claimed == replies[0]
    other = client.with_options(api_key="another caller").chat.completions.create(**body("Another body."), extra_headers=named)
    assert other.id != replies[0].id and operator.receipt_store.next_seq() == before + 2


def test_excess_requests_are_asked_to_retry_and_then_succeed(operator: Operator, client: openai.OpenAI) -> None:
    def post(number: int) -> Any:
        knobs = {"max_tokens": 64, "temperature": 1.5, "logit_bias": {str(number): 1}}
        try:
            return client.with_options(max_retries=0).chat.completions.create(**body("Queue.", **knobs)).id
        except openai.RateLimitError as error:
            assert (error.code, error.type, error.param) == ("rate_limit_exceeded", "rate_limit_error", None)
            assert error.response.headers["retry-after"] == "1"
            return "refused"

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(post, range(32)))
    assert "refused" in found and len(set(found)) == len(found) - found.count("refused") + 1
    patient = client.with_options(max_retries=9)
    with ThreadPoolExecutor(8) as pool:
        served = list(pool.map(lambda _: patient.chat.completions.create(**body("Patience.", max_tokens=32)).id, range(8)))
    assert len(set(served)) == 8, "whose first request was refused gets no equal request's answer"


def test_receipt_is_named_in_a_header_and_read_by_its_id(operator: Operator, client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(**body("Receipt, please."))
    reply = raw.parse()
    identifier = raw.headers["x-bytewise-receipt"]
    with operator.http() as http:
        found = [http.get(f"{operator.url}/v1/receipts/{name}") for name in (identifier, reply.id)]
    assert [each.status_code for each in found] == [200, 200] and found[0].content == found[1].content
    told = found[0].json()
    signed = from_json(SignedReceipt, told["signed"])
    assert verify_receipt(operator.network.anchor_domain, signed) == unhex(identifier) == unhex(told["receipt_id"])
    extra = reply.model_extra
    assert told == {"object": "receipt", **extra["receipt"], "eigendalink": extra["eigendalink"]}, "and nothing that opens it"


def test_each_of_several_choices_has_its_receipt_in_the_header(operator: Operator, client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(**body("Several.", n=3))
    named = raw.headers["x-bytewise-receipt"].split(", ")
    assert named == [each["receipt"]["receipt_id"] for each in raw.parse().model_extra["answers"]]
    with operator.http() as http:
        told = [http.get(f"{operator.url}/v1/receipts/{name}").json()["receipt_id"] for name in named]
    assert told == named


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("0x" + "00" * 32, 404, "receipt_not_found"), ("chatcmpl-" + "0" * 32, 404, "receipt_not_found"),
        ("0x" + "00" * 31, 400, "invalid_value"), ("0x" + "AB" * 32, 400, "invalid_value"), ("00" * 32, 400, "invalid_value"),
        ("0x" + "00" * 32 + "%0a", 400, "invalid_value"), ("chatcmpl-", 400, "invalid_value"), ("%F0%9F", 400, "invalid_value"),
        ("", 404, "unknown_url"), ("0x/../..", 404, "unknown_url"),
    ],
)  # fmt: skip
def test_missing_receipt_is_reported_as_missing(operator: Operator, name: str, status: int, code: str) -> None:
    with operator.http() as http:
        answer = http.get(f"{operator.url}/v1/receipts/{name}", follow_redirects=False)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
