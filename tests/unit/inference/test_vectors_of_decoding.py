"""The vectors of section 8: they have not changed, and the second implementation reads them the same way."""

import json
import struct
from fractions import Fraction
from typing import Any

import pytest

from bytewise.protocol.encoding import from_json
from bytewise.protocol.records.request import DecodePolicy
from bytewise.protocol.units import U64
from tests.fixtures.builders import World
from tests.reference.engine import decoding
from tests.vectors import make_decoding

GOLDEN: dict[str, Any] = json.loads(make_decoding.FILE.read_text())
WRITTEN = [b"", b'{"a":', b"true", b"false", b"}", b"[", b"]", b",", b"1", b"0", b" ", b"ab", b"b", b"\xc3", b"\xa9", b""]


def test_vectors_of_decoding_have_not_changed() -> None:
    assert make_decoding.vectors() == GOLDEN


def test_vectors_of_decoding_cover_every_end_and_every_parameter() -> None:
    assert {case["finish_reason"] for case in GOLDEN["cases"]} == {"stop", "length", "error"}
    off = GOLDEN["cases"][0]["decode"]
    turned = {name for case in GOLDEN["cases"] for name, value in case["decode"].items() if value != off[name]}
    assert turned == off.keys() - {"max_new_tokens"}
    assert len({json.dumps(case["token_ids"]) for case in GOLDEN["cases"]}) > len(GOLDEN["cases"]) // 2


@pytest.mark.parametrize("number", [i for i, case in enumerate(GOLDEN["cases"]) if case["decode"]["grammar"] is None])
def test_the_second_implementation_gives_the_vectors(number: int) -> None:
    case = GOLDEN["cases"][number]
    rows = [[Fraction(struct.unpack(">f", bytes.fromhex(x))[0]) for x in row] for row in GOLDEN["rows"]]
    policy = from_json(DecodePolicy, case["decode"])
    request = World().request(decode=policy, prompt=tuple(GOLDEN["prompt"]), seed=U64(int(case["seed"])))
    found = decoding.answer(request, bytes.fromhex(GOLDEN["execution_hash"]), rows, WRITTEN)
    assert (found.tokens, found.reason) == (case["token_ids"], case["finish_reason"])
    if policy.logprobs is not None:
        wanted = [(each["chosen"], [(token, value) for token, value in each["top"]]) for each in case["logprobs"]]
        assert found.logprobs == wanted
