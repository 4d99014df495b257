"""What the chat API understands, and that everything else is refused by name."""

from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from bytewise.protocol.errors.actors import BadRequest, NotExact, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from serving.openai import parse_json, read_chat_request
from serving.refusals import Busy, Code, Late, failure, refusal

GOOD: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def refused(body: Any) -> str:
    """Parameter that the refusal names."""
    with pytest.raises(BadRequest) as caught:
        read_chat_request(body)
    return str(caught.value.values[0])


def test_the_least_request_gets_openai_defaults() -> None:
    ask = read_chat_request(GOOD)
    assert (ask.temperature, ask.top_p, ask.top_k, ask.seed, ask.max_new_tokens) == ("1", "1", 0, None, None)
    assert ask.messages == (("user", "hello"),)
    assert (ask.choices, ask.min_p, ask.repetition_penalty) == (1, "0", "1")
    assert (ask.presence_penalty, ask.frequency_penalty) == ("0", "0")
    assert (ask.logit_bias, ask.stop_strings, ask.logprobs, ask.grammar) == ((), (), None, None)


def test_every_parameter_reaches_the_request() -> None:
    text = b'{"model":"m","messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],'
    ask = read_chat_request(
        parse_json(text + b'"max_completion_tokens":7,"temperature":0.80,"top_p":9e-1,"top_k":40,"seed":12,"user":"u"}')
    )
    assert ask.messages == (("system", "ab"),)
    assert (ask.max_new_tokens, ask.temperature, ask.top_p, ask.top_k, ask.seed) == (7, "0.8", "0.9", 40, 12)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 1), ("stream", False), ("logprobs", False), ("frequency_penalty", 0), ("logit_bias", {}), ("stop", []),
        ("stop", None), ("response_format", {"type": "text"}), ("tools", None), ("store", False), ("seed", None),
        ("max_tokens", None), ("min_p", 0), ("repetition_penalty", 1), ("top_logprobs", None), ("presence_penalty", 0),
    ],
)  # fmt: skip
def test_parameter_with_its_neutral_value_is_omitted(name: str, value: object) -> None:
    assert read_chat_request(GOOD | {name: value}) == read_chat_request(GOOD)


def test_a_penalty_written_as_a_fraction_of_zero_is_neutral() -> None:
    assert read_chat_request(GOOD | {"presence_penalty": parse_json(b"0.0")}) == read_chat_request(GOOD)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stream", True), ("stream", 0), ("stream", "no"), ("n", 0), ("n", 9), ("n", True), ("n", "1"), ("stop", [""]),
        ("stop", ""), ("stop", 5), ("stop", ["x", 5]), ("stop", list("abcdefghijklmnopq")), ("stop", "x" * 257), ("logprobs", 1),
        ("top_logprobs", 3), ("logit_bias", []), ("logit_bias", {str(i): 1 for i in range(1025)}), ("frequency_penalty", 2.5),
        ("presence_penalty", -3), ("presence_penalty", "1"), ("min_p", -1), ("min_p", 2), ("repetition_penalty", 0),
        ("repetition_penalty", 101), ("tools", []), ("tool_choice", "none"), ("functions", []), ("best_of", 1), ("suffix", "x"),
        ("response_format", "json"), ("response_format", {"type": "grammar"}), ("response_format", {"type": "text", "x": 1}),
        ("stream_options", {"include_usage": True}), ("store", True), ("reasoning_effort", "low"), ("anything", 1),
        ("temperature", "0.7"), ("temperature", -1), ("temperature", 3), ("temperature", True), ("temperature", [1]),
        ("top_p", 0), ("top_p", 2), ("top_p", "1"), ("top_k", -1), ("top_k", True), ("seed", -1), ("seed", 2**63), ("seed", "7"),
        ("max_tokens", 0), ("max_tokens", -5), ("max_tokens", "9"), ("max_completion_tokens", 2**40), ("user", 5),
        ("model", ""), ("model", 7), ("messages", []), ("messages", {}), ("messages", "hi"),
    ],
)  # fmt: skip
def test_unsupported_parameter_is_refused_by_name(name: str, value: object) -> None:
    assert refused(GOOD | {name: value}) == name


def test_decode_policy_keeps_the_clients_decimals() -> None:
    text = (
        b'"n":3,"min_p":5e-2,"repetition_penalty":1.10,"presence_penalty":-0.50,"frequency_penalty":2,"stop":["b","a","b"],'
        b'"logit_bias":{"7":-100,"3":0.250},"logprobs":true,"top_logprobs":5}'
    )
    ask = read_chat_request(parse_json(b'{"model":"m","messages":[{"role":"user","content":"a"}],' + text))
    assert (ask.choices, ask.min_p, ask.repetition_penalty) == (3, "0.05", "1.1")
    assert (ask.presence_penalty, ask.frequency_penalty, ask.stop_strings) == ("-0.5", "2", ("a", "b"))
    assert (ask.logit_bias, ask.logprobs) == (((3, "0.25"), (7, "-100")), 5)
    assert read_chat_request(GOOD | {"stop": "end", "logprobs": True}).stop_strings == ("end",)
    assert read_chat_request(GOOD | {"logprobs": True}).logprobs == 0


def test_a_schema_keeps_its_order_and_its_numbers() -> None:
    schema = b'{"type":"object","properties":{"z":{"minimum":0.10},"a":{"enum":["\\u00e9",true,null,-3]}}}'
    wrapper = b'{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":' + schema + b"}}"
    ask = read_chat_request(
        parse_json(b'{"model":"m","messages":[{"role":"user","content":"a"}],"response_format":' + wrapper + b"}")
    )
    assert ask.grammar == '{"type":"object","properties":{"z":{"minimum":0.10},"a":{"enum":["é",true,null,-3]}}}'
    assert read_chat_request(GOOD | {"response_format": {"type": "json_object"}}).grammar == '{"type":"object"}'


@pytest.mark.parametrize(
    ("knob", "where"),
    [
        ({"logit_bias": {"05": 1}}, "logit_bias.05"), ({"logit_bias": {"-1": 1}}, "logit_bias.-1"),
        ({"logit_bias": {"2147483648": 1}}, "logit_bias.2147483648"), ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"logit_bias": {"5": "1"}}, "logit_bias.5"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}, "response_format.json_schema.schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": "x" * 65536}}}},
            "response_format.json_schema.schema",
        ),
    ],
)  # fmt: skip
def test_structured_parameter_is_refused_by_its_part(knob: dict[str, Any], where: str) -> None:
    assert refused(GOOD | knob) == where


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"zzz": 1}, "unknown_parameter"), ({"tools": [{}]}, "unsupported_parameter"), ({"stream": True}, "unsupported_value"),
        ({"model": None}, "missing_required_parameter"), ({"messages": None}, "missing_required_parameter"),
        ({"messages": [{"content": "x"}]}, "missing_required_parameter"), ({"model": 7}, "invalid_type"),
        ({"messages": "hi"}, "invalid_type"), ({"messages": ["hi"]}, "invalid_type"), ({"messages": []}, "invalid_value"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "unsupported_value"), ({"seed": "7"}, "invalid_type"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "unsupported_value"), ({"seed": -1}, None),
        ({"messages": [{"role": "user", "content": "x", "name": "bob"}]}, "unsupported_parameter"), ({"n": 9}, None),
        ({"temperature": "1"}, "invalid_type"), ({"temperature": 3}, None), ({"stop": 5}, "invalid_type"), ({"stop": ""}, None),
        ({"logprobs": 1}, "invalid_type"), ({"logit_bias": []}, "invalid_type"), ({"user": 5}, "invalid_type"),
    ],
)  # fmt: skip
def test_refusal_has_the_openai_error_code(change: dict[str, Any], code: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        read_chat_request(GOOD | change)
    said = refusal(caught.value)
    assert said is not None and said.status == 400
    error = said.body["error"]
    assert error["code"] == (code or "invalid_value") and error["type"] == "invalid_request_error" and error["param"]


def test_official_client_parameters_are_distinguished_from_unknown_ones() -> None:
    for name in {*CompletionCreateParamsBase.__annotations__, "stream"} - {"model", "messages"}:
        try:
            read_chat_request(GOOD | {name: "anything"})
        except BadRequest as error:
            assert error.values[2:] != (Code.UNKNOWN,), name


@pytest.mark.parametrize(
    ("error", "status", "kind", "code", "again"),
    [
        (Busy("queue", "16 requests are waiting"), 429, "rate_limit_error", "rate_limit_exceeded", True),
        (Late("answer", "not within 600 s"), 503, "service_unavailable_error", "server_is_overloaded", True),
        (TryAgain("chain", "no fresh block was read"), 503, "service_unavailable_error", "unavailable", True),
        (BadRequest("body", "not valid JSON"), 400, "invalid_request_error", None, False),
        (BadRequest("n", "must be from 1 to 8"), 400, "invalid_request_error", "invalid_value", False),
        (BadRequest("messages", "too long", Code.CONTEXT), 400, "invalid_request_error", "context_length_exceeded", False),
        (
            BadRequest("Idempotency-Key", "another", Code.KEY_REUSED), 422, "invalid_request_error", "idempotency_key_reused",
            False,
        ),
    ],
)  # fmt: skip
def test_official_client_reads_every_refusal_and_retries_where_useful(
    error: BytewiseError, status: int, kind: str, code: str | None, again: bool
) -> None:
    said, asked = refusal(error), []
    assert said is not None

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers["x-stainless-retry-count"])
        return httpx2.Response(said.status, json=said.body, headers=said.headers | {"retry-after": "0.001"} if again else {})

    http = httpx2.Client(transport=httpx2.MockTransport(answer), timeout=60.0)
    with openai.OpenAI(base_url="http://x/v1", api_key="x", http_client=http, max_retries=1, timeout=60.0) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(**GOOD)
    assert (caught.value.status_code, caught.value.type, caught.value.code) == (status, kind, code)
    assert asked == (["0", "1"] if again else ["0"]) and ("retry-after" in said.headers) == again


def test_own_failure_is_no_refusal() -> None:
    assert refusal(NotExact("row")) is None and failure().body["error"]["code"] == "server_error"


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_a_missing_member_is_named(missing: str) -> None:
    assert refused({name: value for name, value in GOOD.items() if name != missing}) == missing


@pytest.mark.parametrize(
    ("message", "where"),
    [
        ("hi", "messages[0]"), (None, "messages[0]"), ({"role": "user"}, "messages[0].content"),
        ({"role": "tool", "content": "x"}, "messages[0].role"), ({"role": ["user"], "content": "x"}, "messages[0].role"),
        ({"role": "user", "content": 5}, "messages[0].content"), ({"role": "user", "content": ["x"]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}, "messages[0].content[0]"),
        ({"role": "user", "content": "x", "name": "bob"}, "messages[0].name"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "messages[0].tool_calls"),
    ],
)  # fmt: skip
def test_malformed_message_is_named_by_position(message: object, where: str) -> None:
    assert refused(GOOD | {"messages": [message]}) == where


def test_two_different_limits_are_refused() -> None:
    assert refused(GOOD | {"max_tokens": 5, "max_completion_tokens": 6}) == "max_tokens"
    assert read_chat_request(GOOD | {"max_tokens": 5, "max_completion_tokens": 5}).max_new_tokens == 5


def test_chat_request_does_not_print_its_plaintext() -> None:
    assert "hello" not in repr(read_chat_request(GOOD))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KNOBS = st.sampled_from(
    "model messages n stop seed temperature top_p min_p stream logit_bias logprobs response_format tools zzz".split()
)


@given(JSON | st.dictionaries(KNOBS, JSON, max_size=4).map(lambda extra: GOOD | extra))
def test_any_body_becomes_a_request_or_a_named_refusal(body: Any) -> None:
    try:
        read_chat_request(body)
    except BadRequest as error:
        assert isinstance(error.values[0], str)
