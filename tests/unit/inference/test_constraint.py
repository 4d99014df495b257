"""Masks of JSON schemas: what they allow, what is refused, and that nothing but schema, tokens and limits decides them."""

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

from bytewise.inference.sampling import constraint
from bytewise.inference.sampling.constraint import Constraint, Schemas
from bytewise.protocol.errors.actors import CannotExecute, NotExact
from bytewise.service.settings import child_environment
from tests.fixtures.inference.mask_digest import END, LISTS, NESTED, PERSON, SCHEMAS, WORDS, masks_digest, walk
from tests.fixtures.inference.token_tables import token_table
from tests.source import ROOT


def obeys(schema: str, value: Any) -> bool:
    """Whether a value satisfies one of the schemas above."""
    if schema == PERSON:
        short = isinstance(value["name"], str) and len(value["name"]) <= 6
        return list(value) == ["name", "age"] and short and 0 <= value["age"] <= 150
    if schema == LISTS:
        return 1 <= len(value) <= 4 and all(each in (True, False, "yes", "no", None, 17) for each in value)
    return isinstance(value, int) or all(obeys(schema, each) for each in value)


@pytest.mark.parametrize("schema", [PERSON, LISTS, NESTED])
def test_text_that_obeys_the_masks_satisfies_the_schema(schema: str) -> None:
    complete = 0
    for i in range(20):
        found = SCHEMAS.constraint(schema)
        tokens = walk(found, f"walk-{i}", 120)
        if found.accepts:
            text = SCHEMAS._lexicon.write(token for token in tokens if token != END).decode()
            assert obeys(schema, json.loads(text)), text
            # No white space between JSON's tokens.
            assert text.startswith('{"name":"') and '","age":' in text if schema == PERSON else " " not in text
            complete += 1
    assert complete >= 5


@pytest.mark.parametrize("schema", [PERSON, LISTS])
def test_token_is_allowed_if_its_bytes_are_allowed_one_by_one(schema: str) -> None:
    single = Schemas(token_table())
    for i in range(2):
        tokens = walk(SCHEMAS.constraint(schema), f"words-{i}", 7, ())
        for end in range(len(tokens)):
            found = replayed(SCHEMAS, schema, tokens[:end])
            for token, piece in enumerate(SCHEMAS._lexicon.pieces):
                allowed = found.allowed is not None and bool(found.allowed[token])
                if len(piece) == 1:
                    continue
                before = SCHEMAS._lexicon.write(tokens[:end])
                assert allowed == (bool(piece) and fits(single, schema, before, piece)), (before, piece)


def fits(single: Schemas, schema: str, before: bytes, piece: bytes) -> bool:
    """Whether bytes can follow others, by a vocabulary of single bytes."""
    found = replayed(single, schema, list(before))
    for byte in piece:
        if found.allowed is None or not found.allowed[byte]:
            return False
        found.add(byte)
    return True


def replayed(schemas: Schemas, schema: str, tokens: list[int]) -> Constraint:
    """A constraint after some tokens."""
    found = schemas.constraint(schema)
    for token in tokens:
        found.add(token)
    return found


def test_control_tokens_and_ids_without_a_token_are_never_allowed() -> None:
    found = SCHEMAS.constraint('{"type":"string"}')
    for byte in b'"':
        found.add(byte)
    assert found.allowed is not None and bool(found.allowed[ord("x")])
    assert not found.allowed[256:264].any() and not found.allowed[-3:].any()


def test_stop_tokens_are_allowed_only_where_the_text_may_end() -> None:
    found = SCHEMAS.constraint('{"type":"integer"}')
    assert not found.accepts and not bool(found.choices((END,))[END])  # type: ignore[index]
    found.add(ord("7"))
    assert found.accepts and not found.complete
    choices = found.choices((END, 10**6))
    assert choices is not None and bool(choices[END]) and bool(choices[ord("1")]) and not bool(choices[ord(",")])
    assert found.choices(()) is found.allowed


def test_a_complete_text_can_only_end() -> None:
    found = SCHEMAS.constraint('{"const":true}')
    for byte in b"true":
        assert not found.complete
        found.add(byte)
    assert found.complete and found.choices(()) is None
    assert found.choices((END,)).nonzero().tolist() == [[END]]  # type: ignore[union-attr]


def test_properties_come_in_the_order_of_the_schema() -> None:
    schema = '{"type":"object","properties":{"z":{"const":1},"a":{"const":2}},"required":["a","z"],"additionalProperties":false}'
    found = SCHEMAS.constraint(schema)
    assert SCHEMAS._lexicon.write(walk(found, "order", 40, ())) == b'{"z":1,"a":2}'


REFUSED = {
    "no JSON": "{", "two values": "{}{}", "list": "[]", "true": "true", "own options": '{"x-guidance":{"lenient":true}}',
    "unknown keyword": '{"if":{"type":"string"}}', "contradiction": '{"type":"string","minLength":2,"maxLength":1}',
    "nothing": '{"enum":[]}', "remote": '{"$ref":"https://example.org/s"}', "file": '{"$ref":"file:///etc/hostname"}',
    "endless": '{"$ref":"#"}', "back reference": '{"type":"string","pattern":"(a)\\\\1"}', "not a number": '{"minimum":NaN}',
    "too costly": '{"type":"integer","multipleOf":999999937}', "long digits": '{"const":' + "1" * 5000 + "}",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_schema_that_cannot_be_obeyed_is_refused_with_a_reason(name: str) -> None:
    found = SCHEMAS.constraint(REFUSED[name])
    assert found.error and found.choices((END,)) is None and not found.complete
    assert SCHEMAS.refusal(REFUSED[name]) == found.error


def test_refused_schema_accepts_no_token() -> None:
    with pytest.raises(NotExact):
        SCHEMAS.constraint("{").add(65)


def test_schema_that_grows_too_costly_allows_nothing_more() -> None:
    many = json.dumps({"type": "object", "properties": {f"p{i}": {} for i in range(510)}})
    found = SCHEMAS.constraint(many)
    assert not found.error
    found.add(ord("{"))
    assert found.error and found.choices((END,)) is None and not found.accepts


def test_slices_are_only_an_optimisation(monkeypatch: pytest.MonkeyPatch) -> None:
    from llguidance import LLTokenizer

    plain = Schemas(token_table(tuple(WORDS), room=3))
    monkeypatch.setattr(LLTokenizer, "json_slices", staticmethod(list))
    for schema in (PERSON, LISTS, '{"type":"string"}'):
        tokens = walk(plain.constraint(schema), "slices", 15, ())
        for end in range(len(tokens)):
            with_slices, without = (replayed(each, schema, tokens[:end]).allowed for each in (SCHEMAS, plain))
            assert with_slices is not None and without is not None and torch.equal(with_slices, without)


def test_another_version_of_the_library_cannot_execute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint, "version", lambda name: "1.9.0")
    with pytest.raises(CannotExecute, match=r"llguidance 1\.9\.0"):
        Schemas(token_table()).constraint("{}")


def test_masks_are_the_same_in_every_process() -> None:
    command = [sys.executable, "-c", "from tests.fixtures.inference.mask_digest import masks_digest; print(masks_digest())"]
    variables = {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1"}
    ended = subprocess.run(
        command, cwd=ROOT, env=child_environment(variables), capture_output=True, timeout=120, check=True, text=True
    )
    assert ended.stdout.strip() == masks_digest()


def test_each_answer_has_the_full_library_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other answers by the same schema used up of them is not missing to the next one."""
    monkeypatch.setitem(constraint.LIMITS, "max_lexer_states", 120)
    schema, used, ended = '{"type":"string","pattern":"^(.*a.{10}b)$"}', Schemas(token_table(tuple(WORDS))), []
    for i in range(6):
        found, fresh = (each.constraint(schema) for each in (used, Schemas(token_table(tuple(WORDS)))))
        tokens = walk(found, f"again-{i}", 80)
        assert (tokens, found.error) == (walk(fresh, f"again-{i}", 80), fresh.error)
        ended.append(bool(tokens) and "too many states" in found.error)
    assert any(ended)


def test_refused_schemas_are_cached_in_bounded_number() -> None:
    asked: list[str] = []

    class Counting(Schemas):
        def constraint(self, text: str) -> Constraint:
            asked.append(text)
            return super().constraint(text)

    schemas = Counting(token_table())
    texts = [f'{{"enum":[{i}]}}' for i in range(constraint.MOST_REMEMBERED + 1)]
    assert [schemas.refusal(text) for text in texts[:2] * 2] == [""] * 4 and asked == texts[:2]
    assert schemas.refusal("{") == schemas.refusal("{") != "" and asked == [*texts[:2], "{"]
    for text in texts:
        schemas.refusal(text)
    schemas.refusal(texts[0])
    assert asked.count(texts[0]) == 2
