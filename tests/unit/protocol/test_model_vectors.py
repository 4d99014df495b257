"""Questions of a model's vectors follow from the model alone; any other answer has another digest and a name."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol import encoding
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.records.model_vectors import KINDS, VectorAnswer, Vectors, questions
from bytewise.protocol.units import ZERO_DIGEST, Digest
from tests.fixtures.chain.devnet import word

TRUE = Vectors(
    PROFILE_EXACT_1, word("profile"), word("model"), ZERO_DIGEST,
    tuple(VectorAnswer(word("tokens", i), word("trace", i)) for i in range(6)),
)  # fmt: skip
WORDS = st.sampled_from([word(i) for i in range(3)])
ANSWERS = st.lists(st.builds(VectorAnswer, WORDS, WORDS), max_size=7).map(tuple)
VECTORS = st.builds(Vectors, st.sampled_from(["exact-1", "pinned-1"]), WORDS, WORDS, WORDS, ANSWERS)


@given(one=VECTORS, other=VECTORS)
def test_vectors_differ_by_name_exactly_where_their_digests_do(one: Vectors, other: Vectors) -> None:
    assert bool(one.differences(other)) == (one.digest != other.digest)
    assert one.differences(one) == () and encoding.decode(Vectors, encoding.encode(one)) == one


@given(
    place=st.integers(0, 5), field=st.sampled_from(["tokens_hash", "trace_root"]), byte=st.integers(0, 31), bit=st.integers(0, 7)
)
def test_one_bit_of_one_answer_is_named(place: int, field: str, byte: int, bit: int) -> None:
    said = getattr(TRUE.answers[place], field)
    wrong = Digest(said[:byte] + bytes([said[byte] ^ 1 << bit]) + said[byte + 1 :])
    changes: dict[str, Any] = {field: wrong}
    answers = tuple(replace(each, **changes) if i == place else each for i, each in enumerate(TRUE.answers))
    (line,) = TRUE.differences(replace(TRUE, answers=answers))
    what = {"tokens_hash": "other tokens", "trace_root": "another computation"}[field]
    assert line == f"vector {place + 1} ({list(KINDS)[place]}): {what}"


@given(vocabulary=st.integers(1, 200_000), context=st.integers(2, 4_000), name=st.integers(0, 9))
def test_every_model_can_be_asked_all_questions(vocabulary: int, context: int, name: int) -> None:
    asked = questions(word("model", name), ZERO_DIGEST, vocabulary, context)
    assert len(asked) == len(KINDS) == len(set(asked))
    for each in asked:
        assert max(each.prompt) < vocabulary and len(each.prompt) + each.decode.max_new_tokens <= context
    assert not set(asked) & set(questions(word("model", name + 1), ZERO_DIGEST, vocabulary, context))


def test_questions_reach_every_way_of_choosing_a_token() -> None:
    asked = [each.decode for each in questions(word("model"), ZERO_DIGEST, 512, 512)]
    assert {each.temperature == "0" for each in asked} == {True, False} and any(each.logprobs is not None for each in asked)
    assert any(each.penalises for each in asked) and any(each.top_k for each in asked)
    assert any(each.min_p != "0" for each in asked) and any(each.top_p != "1" for each in asked)
