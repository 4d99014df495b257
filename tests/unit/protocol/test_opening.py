"""Case 2 of the vote function: each defect of the record has its code, and the first in order is the vote (design section 9)."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.catalogue import CLASSES
from bytewise.protocol.errors.records import (
    ClientSignatureBad,
    Defect,
    OutsideLimits,
    PlaintextNotCanonical,
    RequestDiffers,
    RequestExpired,
    RequestHashMismatch,
    TokensHashMismatch,
)
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.request import DecodePolicy, Request
from bytewise.protocol.records.seal import (
    BUCKETS,
    Payload,
    client_digest,
    pad,
    seal_context,
    unpad,
    verify_limits,
    verify_opening,
)
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import U64, U256, Blob, Decimal, Digest
from tests.fixtures.builders import ANCHOR, CHAIN_ID, DISPUTES, GREEDY, NOW, World, signer, word
from tests.fixtures.record_strategies import record

WORLD = World()
REQUEST = WORLD.request()
GENERATED = WORLD.engine.generate(REQUEST)
PAYLOAD = WORLD.payload(REQUEST, GENERATED.output)
RECEIPT = WORLD.receipt(1, REQUEST, GENERATED)


def opened(payload: Payload, receipt: Receipt = RECEIPT, anchored_at: int = NOW) -> Payload:
    return verify_opening(receipt, word("receipt"), pad(payload), WORLD.environment, anchored_at)


def of(request: Request, **changes: Any) -> tuple[Payload, Receipt]:
    """An otherwise honest payload and receipt for a request, with some receipt fields changed."""
    generated = WORLD.engine.generate(request)
    return WORLD.payload(request, generated.output), WORLD.receipt(1, request, generated, **changes)


def test_a_request_may_expire_at_the_second_of_its_anchoring() -> None:
    assert opened(PAYLOAD, anchored_at=REQUEST.expiry) == PAYLOAD
    with pytest.raises(RequestExpired):
        opened(PAYLOAD, anchored_at=REQUEST.expiry + 1)


ORDER: list[tuple[type[Defect], dict[str, Any], dict[str, Any]]] = [
    # defect, changes of the receipt, changes of the request: each case also has every later defect that can be combined
    (RequestHashMismatch, {"req_hash": word("other"), "tokens_hash": word("other")}, {"expiry": U64(NOW - 1)}),
    (TokensHashMismatch, {"tokens_hash": word("other")}, {"expiry": U64(NOW - 1), "client": signer("eve").address}),
    (ClientSignatureBad, {"model_id": word("other")}, {"expiry": U64(NOW - 1), "client": signer("eve").address}),
    (RequestDiffers, {"model_id": word("other")}, {"expiry": U64(NOW - 1), "prompt": (0,) * 300}),
    (OutsideLimits, {}, {"expiry": U64(NOW - 1), "prompt": (0,) * 300}),
    (RequestExpired, {}, {"expiry": U64(NOW - 1)}),
]


@pytest.mark.parametrize(("defect", "receipt", "request_"), ORDER, ids=lambda value: getattr(value, "__name__", ""))
def test_first_of_several_defects_in_order_is_named(
    defect: type[Defect], receipt: dict[str, Any], request_: dict[str, Any]
) -> None:
    payload, described = of(WORLD.request(**request_), **receipt)
    with pytest.raises(Defect) as found:
        opened(payload, described)
    assert type(found.value) is defect


def test_codes_of_defects_ascend_in_the_order_of_their_checks() -> None:
    defects = [each for each in CLASSES.values() if issubclass(each, Defect) and each is not Defect]
    assert [each.code for each in sorted(defects, key=lambda each: each.rule)] == list(range(1, 10))
    assert [defect.code for defect, _, _ in ORDER] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("request_", "receipt"),
    [({}, {"model_id": word("other")}), ({}, {"environment": word("other")}), ({"chain_id": U256(1)}, {})],
)
def test_request_for_another_model_environment_or_chain_differs(request_: dict[str, Any], receipt: dict[str, Any]) -> None:
    payload, described = of(WORLD.request(**request_), **receipt)
    with pytest.raises(RequestDiffers):
        opened(payload, described)


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": tuple(range(241))},
        {"prompt": (257,)},
        {"decode": dataclasses.replace(GREEDY, max_new_tokens=65)},
        {"model_name": "x" * 4096},
    ],
    ids=["context", "vocabulary", "new tokens", "bytes"],
)
def test_each_limit_of_the_environment_is_enforced(changes: dict[str, Any]) -> None:
    payload, receipt = of(WORLD.request(**changes))
    with pytest.raises(OutsideLimits):
        opened(payload, receipt)


def test_request_exactly_at_the_limits_is_accepted() -> None:
    full = WORLD.request(prompt=(256,) * 192, decode=dataclasses.replace(GREEDY, max_new_tokens=64))
    assert verify_limits(full, WORLD.environment) == full


def test_a_client_signature_for_another_request_or_chain_is_bad() -> None:
    for digest in (client_digest(word("other"), CHAIN_ID), client_digest(REQUEST.req_hash, CHAIN_ID + 1)):
        payload = dataclasses.replace(PAYLOAD, client_signature=WORLD.client.sign(digest))
        with pytest.raises(ClientSignatureBad):
            opened(payload)


# --- plaintext and padding ---


def test_receipt_plaintext_size_reveals_nothing_within_a_bucket() -> None:
    assert {len(pad(WORLD.payload(WORLD.request(i), GENERATED.output))) for i in range(1, 40)} == {BUCKETS[0]}


@given(record(Payload))
@settings(deadline=None, max_examples=30)
def test_padded_payload_is_restored(payload: Payload) -> None:
    assert unpad(pad(payload)) == payload


def test_payload_that_just_fits_is_sealed_and_one_byte_more_is_refused() -> None:
    spare = BUCKETS[0] - 4 - len(encode(dataclasses.replace(PAYLOAD, client_signature=Blob(b""))))
    fits = dataclasses.replace(PAYLOAD, client_signature=Blob(bytes(spare // 2)))
    beyond = dataclasses.replace(PAYLOAD, client_signature=Blob(bytes(spare // 2 + 1)))
    assert (len(pad(fits)), len(pad(beyond))) == (BUCKETS[0], BUCKETS[1])
    assert unpad(pad(fits)) == fits and unpad(pad(beyond)) == beyond


def test_a_payload_above_the_largest_bucket_is_refused_before_it_is_sealed() -> None:
    with pytest.raises(PlaintextNotCanonical):
        pad(dataclasses.replace(PAYLOAD, client_signature=Blob(bytes(BUCKETS[-1] // 2))))


RAW = encode(PAYLOAD)
BAD_PLAINTEXTS = {
    "empty": b"",
    "shorter than its length": b"\0\0",
    "no bucket": pad(PAYLOAD) + b"\0",
    "larger bucket than needed": pad(PAYLOAD).ljust(BUCKETS[1], b"\0"),
    "padding that is not zero": pad(PAYLOAD)[:-1] + b"\1",
    "length beyond the end": (2**32 - 1).to_bytes(4) + pad(PAYLOAD)[4:],
    "length too short": (len(RAW) - 1).to_bytes(4) + pad(PAYLOAD)[4:],
    "length too long": (len(RAW) + 1).to_bytes(4) + pad(PAYLOAD)[4:],
    "blank inside": ((len(RAW) + 1).to_bytes(4) + b" " + RAW).ljust(BUCKETS[0], b"\0"),
    "other record": (len(encode(REQUEST)).to_bytes(4) + encode(REQUEST)).ljust(BUCKETS[0], b"\0"),
    "all zero": bytes(BUCKETS[0]),
    "deep nesting": (4000).to_bytes(4) + b"[" * 4000 + bytes(92),
}


@pytest.mark.parametrize("name", BAD_PLAINTEXTS)
def test_plaintext_no_encoder_would_write_is_not_canonical(name: str) -> None:
    with pytest.raises(PlaintextNotCanonical) as found:
        verify_opening(RECEIPT, word("receipt"), BAD_PLAINTEXTS[name], WORLD.environment, NOW)
    assert found.value.code == 3 and word("receipt").hex() in str(found.value)


@given(st.binary(max_size=200), st.integers(0, 250))
def test_arbitrary_plaintext_is_a_payload_or_a_defect(body: bytes, length: int) -> None:
    plaintext = (length.to_bytes(4) + body).ljust(BUCKETS[0], b"\0")
    with pytest.raises(PlaintextNotCanonical):
        verify_opening(RECEIPT, word("receipt"), plaintext, WORLD.environment, NOW)


def test_request_with_an_impossible_parameter_is_a_defect_and_no_crash() -> None:
    raw = RAW.replace(b'"temperature":"0"', b'"temperature":"-1"')
    with pytest.raises(PlaintextNotCanonical):
        verify_opening(RECEIPT, word("r"), (len(raw).to_bytes(4) + raw).ljust(BUCKETS[0], b"\0"), WORLD.environment, NOW)


# --- seal context ---


def test_seal_context_binds_all_fields_but_the_envelope_hash() -> None:
    context = seal_context(ANCHOR, RECEIPT)
    assert seal_context(ANCHOR, dataclasses.replace(RECEIPT, envelope_hash=word("e"))) == context
    assert seal_context(DISPUTES, RECEIPT) != context
    assert seal_context(Domain(CHAIN_ID + 1, ANCHOR.contract), RECEIPT) != context
    for field in dataclasses.fields(Receipt):
        if field.name != "envelope_hash":
            changed = dataclasses.replace(RECEIPT, **{field.name: _other(getattr(RECEIPT, field.name))})
            assert seal_context(ANCHOR, changed) != context, field.name


def _other(value: Any) -> Any:
    if isinstance(value, bytes):
        return Digest(bytes(b ^ 1 for b in value))
    return value + 1 if isinstance(value, int) else signer("other").address


def test_decode_policy_has_its_exact_fractions() -> None:
    policy = DecodePolicy(1, Decimal("0.8"), Decimal("0.9"), 0, ())
    assert policy.temperature_fraction * 5 == 4 and policy.top_p_fraction * 10 == 9
