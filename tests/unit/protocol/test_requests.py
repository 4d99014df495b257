"""A request or answer that exists is valid: no constructor path leads around the rules (design section 4)."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol import units
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import BadRequest
from bytewise.protocol.errors.branches import Bug, BytewiseError, Fault, Unavailable
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.request import (
    MAX_LOGPROBS,
    DecodePolicy,
    Request,
    TokenLogprobs,
    choice_seed,
    execution_hash,
    output_for,
)
from bytewise.protocol.records.seal import BUCKETS
from bytewise.protocol.units import U64, Decimal, Digest, decimal, fraction
from tests.fixtures.builders import GREEDY, World, word
from tests.fixtures.record_strategies import decimals, record

WORLD = World()


@pytest.mark.parametrize(
    "change",
    [
        {"max_new_tokens": 0}, {"max_new_tokens": -1}, {"max_new_tokens": 2**20 + 1}, {"max_new_tokens": True},
        {"max_new_tokens": 16.0}, {"max_new_tokens": "16"}, {"temperature": "-0.1"}, {"temperature": "100.1"},
        {"temperature": "warm"}, {"top_p": "0"}, {"top_p": "1.1"}, {"top_p": "-1"}, {"top_k": -1}, {"top_k": 2**20 + 1},
        {"stop_tokens": (2, 1)}, {"stop_tokens": (1, 1)}, {"stop_tokens": (-1,)}, {"stop_tokens": (2**31,)},
        {"stop_tokens": (1, "2")}, {"stop_tokens": tuple(range(1025))}, {"top_k": True}, {"min_p": "-0.1"}, {"min_p": "1.1"},
        {"repetition_penalty": "0"}, {"repetition_penalty": "0.009"}, {"repetition_penalty": "100.1"},
        {"presence_penalty": "2.1"}, {"frequency_penalty": "-2.1"}, {"logit_bias": ((2, "1"), (1, "1"))},
        {"logit_bias": ((1, "1"), (1, "2"))}, {"logit_bias": ((-1, "1"),)}, {"logit_bias": ((1, "100.1"),)},
        {"logit_bias": tuple((i, "1") for i in range(1025))}, {"stop_strings": ("b", "a")}, {"stop_strings": ("a", "a")},
        {"stop_strings": ("",)}, {"stop_strings": ("é" * 129,)}, {"stop_strings": ("\ud800",)},
        {"stop_strings": tuple("abcdefghijklmnopq")}, {"logprobs": -1}, {"logprobs": 21},
        {"logprobs": 20, "max_new_tokens": 1561}, {"grammar": ""}, {"grammar": " " * (2**16 + 1)}, {"grammar": "[" * 33},
        {"grammar": "\udc00"},
    ],
    ids=str,
)  # fmt: skip
def test_sampling_parameter_outside_its_range_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(MalformedValue):
        dataclasses.replace(GREEDY, **change)


@pytest.mark.parametrize(
    "change", [{"version": 1}, {"prompt": ()}, {"prompt": (-1,)}, {"prompt": (True,)}, {"prompt": (2**31,)}], ids=str
)
def test_a_request_that_cannot_be_run_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(MalformedValue):
        WORLD.request(**change)


@pytest.mark.parametrize(
    "change", [{"finish_reason": "tired"}, {"completion_tokens": 3}, {"token_ids": (2**31,) * 16}, {"logprobs": ()}], ids=str
)
def test_an_output_that_contradicts_itself_is_refused(change: dict[str, Any]) -> None:
    output = WORLD.engine.generate(WORLD.request()).output
    with pytest.raises(MalformedValue):
        dataclasses.replace(output, **change)


@given(record(Request), st.data())
def test_every_field_is_in_the_request_hash(request_: Request, data: st.DataObject) -> None:
    other = data.draw(record(Request))
    name = data.draw(st.sampled_from([field.name for field in dataclasses.fields(Request)]))
    changed = dataclasses.replace(request_, **{name: getattr(other, name)})
    assert (changed.req_hash == request_.req_hash) == (changed == request_)


def test_the_answer_is_blinded_by_the_requests_nonce() -> None:
    one, two = WORLD.request(nonce=word("one")), WORLD.request(nonce=word("two"))
    assert output_for(one, (1,), "stop").blind != output_for(two, (1,), "stop").blind
    assert output_for(one, (1,), "stop").blind != one.nonce


def test_every_choice_has_its_own_seed_that_a_client_can_send_back() -> None:
    assert choice_seed(U64(2**63), 0) == 2**63
    seeds = [choice_seed(U64(seed), choice) for seed in (0, 1) for choice in range(1, 6)]
    assert len(set(seeds)) == 10 and max(seeds) < 2**53 and min(seeds) > 2**40


@pytest.mark.parametrize("top", [0, 20])
def test_the_largest_answer_with_logprobs_fits_the_largest_bucket(top: int) -> None:
    worst = units.decimal("-40.123456")
    one = TokenLogprobs(worst, ((2**31 - 1, worst),) * top)
    count = MAX_LOGPROBS // (top + 1)
    output = output_for(WORLD.request(), (2**31 - 1,) * count, "length", (one,) * count)
    assert len(encode(output)) + 2**18 < BUCKETS[-1]


def test_the_execution_hash_ignores_the_nonce_and_covers_what_is_computed() -> None:
    base = execution_hash(word("m"), "exact-1", GREEDY, (1, 2))
    assert execution_hash(word("n"), "exact-1", GREEDY, (1, 2)) != base
    assert execution_hash(word("m"), "pinned-1", GREEDY, (1, 2)) != base
    assert execution_hash(word("m"), "exact-1", dataclasses.replace(GREEDY, top_k=1), (1, 2)) != base
    assert execution_hash(word("m"), "exact-1", GREEDY, (12,)) != base


@given(decimals, decimals)
def test_two_canonical_decimals_of_one_fraction_are_one_text(left: Decimal, right: Decimal) -> None:
    assert decimal(left) == left and (fraction(left) == fraction(right)) == (left == right)


@pytest.mark.parametrize("text", ["", "a" * 33, "ü", "cpu\0"])
def test_a_short_text_is_1_to_32_ascii_characters(text: str) -> None:
    with pytest.raises(MalformedValue):
        units.short_text(text)
    assert units.short_text("cpu") == b"cpu".ljust(32, b"\0")


@pytest.mark.parametrize("text", ["0x1", "0xGG", "12", "0x" + "AB", "0x12\n", ""])
def test_hex_has_one_accepted_form(text: str) -> None:
    with pytest.raises(MalformedValue):
        units.unhex(text)


def test_a_quantity_outside_its_bits_is_refused() -> None:
    assert units.bounded(255, 8) == 255
    for value in (-1, 256):
        with pytest.raises(MalformedValue):
            units.bounded(value, 8)
    with pytest.raises(MalformedValue):
        units.digest(b"short")


def test_every_error_has_one_branch_a_rule_and_a_message_with_its_values() -> None:
    def descend(cls: type[BytewiseError]) -> list[type[BytewiseError]]:
        return [cls, *(leaf for child in cls.__subclasses__() for leaf in descend(child))]

    for cls in descend(BytewiseError):
        if cls.rule:
            assert sum(issubclass(cls, branch) for branch in (Fault, Unavailable, Bug)) == 1, cls
            assert str(cls("first", "second")).startswith(f"[{cls.rule}] ")
    assert BadRequest("prompt", "too long").values == ("prompt", "too long")


def test_policy_of_any_values_is_valid_or_refused() -> None:
    assert DecodePolicy(2**20, Decimal("100"), Decimal("1"), 2**20, (0, 2**31 - 1)).max_new_tokens == 2**20
    assert U64(1) == 1 and len(Digest(bytes(32))) == 32
