"""The official client against a real operator process, a real chain and a real DA store."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from bytewise.protocol.encoding import from_json
from bytewise.protocol.receipt import SignedReceipt, verify_receipt
from bytewise.protocol.seal import Payload
from bytewise.protocol.units import unhex
from tests.operator_site import MODEL_NAME, Operator, running_operator_site, serving


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with running_operator_site(tmp_path_factory.mktemp("operator")) as site, serving(site):
        yield site


@pytest.fixture
def client(operator: Operator) -> Iterator[openai.OpenAI]:
    with operator.http() as http, openai.OpenAI(base_url=f"{operator.url}/v1", api_key="x", http_client=http) as api:
        yield api


def ask(client: openai.OpenAI, text: str, **knobs: Any) -> Any:
    return client.chat.completions.create(model=MODEL_NAME, messages=[{"role": "user", "content": text}], **knobs)


def test_an_answer_carries_a_receipt_and_all_that_opens_it(operator: Operator, client: openai.OpenAI) -> None:
    reply = ask(client, "What is a receipt?", max_tokens=12, temperature=0)
    extra = reply.model_extra
    assert reply.choices[0].message.content and reply.usage.completion_tokens == 12
    signed = from_json(SignedReceipt, extra["receipt"]["signed"])
    assert verify_receipt(operator.network.anchor_domain, signed) == unhex(extra["receipt"]["receipt_id"])
    payload = from_json(Payload, extra["opening"])
    assert payload.request.req_hash == signed.receipt.req_hash == unhex(extra["receipt"]["req_hash"])
    assert payload.output.tokens_hash == signed.receipt.tokens_hash
    assert extra["assurance"] == "simulated" and extra["eigendalink"] == signed.locator
    assert reply.system_fingerprint.endswith(":cpu:none")
    assert extra["determinism"]["profile"] == "exact-1"
