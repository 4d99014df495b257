"""What a schema may cost: hostile ones are refused before the library sees them, ordinary ones are not."""

import json
from typing import Any

import pytest

from bytewise.inference.sampling import constraint
from bytewise.inference.sampling.constraint import Schemas
from tests.fixtures.inference.token_tables import token_table

SCHEMAS = Schemas(token_table())

PRIMES = {"type": "integer", "allOf": [{"multipleOf": each} for each in (97, 89, 83)]}
COSTLY: dict[str, dict[str, Any]] = {
    "large prime": {"multipleOf": 999983}, "its digits": {"type": "number", "multipleOf": 0.999983}, "primes together": PRIMES,
    "patterns in common": {"type": "string", "allOf": [{"pattern": f"a.{{{i}}}b"} for i in range(40)]},
    "patterns of names": {"type": "object", "patternProperties": {f"^a{i}[bc]*$": {} for i in range(300)}},
    "properties": {"type": "object", "properties": {f"p{i}": {} for i in range(4000)}},
    "merged properties": {"properties": {f"p{i}": {} for i in range(128)}, "anyOf": [{"required": [f"p{i}"]} for i in range(64)]},
    "merged references": {
        "$defs": {"a": {"properties": {f"p{i}": {} for i in range(200)}}},
        "anyOf": [{"allOf": [{"$ref": "#/$defs/a"}, {"properties": {f"q{i}": {}}}]} for i in range(50)],
    },
    "values": {"const": [{"a": i} for i in range(3000)]},
}  # fmt: skip
"""Each kept the library busy for half a second to many minutes."""


@pytest.mark.parametrize("name", COSTLY)
def test_a_schema_that_costs_too_much_never_reaches_the_library(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("llguidance.LLMatcher", None)
    found = SCHEMAS.constraint(json.dumps(COSTLY[name]))
    assert found.error.startswith("schema: too costly: more than") and found.choices((257,)) is None


ORDINARY: dict[str, dict[str, Any]] = {
    "many fields": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(400)}},
    "optional references": {
        "$defs": {"a": {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(40)}}},
        "type": "object",
        "properties": {f"f{i}": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}], "default": None} for i in range(60)},
    },
    "a union of kinds": {"anyOf": [{"properties": {"kind": {"const": i}}, "required": ["kind"]} for i in range(100)]},
    "money": {"type": "object", "properties": {"a": {"multipleOf": 0.01}, "b": {"multipleOf": 0.05}, "c": {"multipleOf": 1000}}},
    "a pattern and a length": {"type": "string", "allOf": [{"pattern": "^[a-z]+$"}, {"maxLength": 9}]},
}


@pytest.mark.parametrize("name", ORDINARY)
def test_common_schemas_are_within_the_cost_limit(name: str) -> None:
    assert SCHEMAS.refusal(json.dumps(ORDINARY[name])) == ""


def at_limit(limit: str, more: int) -> dict[str, Any]:
    """A schema that just fits a limit; with one `more` it does not."""
    if limit == "values":
        return {"enum": [*range(constraint.MOST_VALUES - 2 + more)]}
    if limit == "properties":
        return {"properties": {f"p{i}": {} for i in range(constraint.MOST_PROPERTIES + more)}}
    if limit == "patternProperties":
        return {"patternProperties": {f"^a{i}$": {} for i in range(constraint.MOST_PATTERN_PROPERTIES + more)}}
    if limit == "common multiple":
        return {"multipleOf": 9999 + 2 * more}
    if limit == "merged patterns":
        return {"allOf": [{"pattern": str(i)} for i in range(constraint.MOST_MERGED_PATTERNS + more)]}
    # 64 branches, (48 + 16)² properties: exactly 2^18.
    return {"properties": {f"p{i}": {} for i in range(48 + more)}, "anyOf": [{"title": "a"}] * 64}


@pytest.mark.parametrize(
    "limit", ["values", "properties", "patternProperties", "common multiple", "merged patterns", "merged properties"]
)
def test_cost_limit_is_that_of_the_profile(limit: str) -> None:
    assert constraint.excess(at_limit(limit, 0)) == ""
    assert limit in constraint.excess(at_limit(limit, 1))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"multipleOf": True}}, {"multipleOf": True}, {"default": {"multipleOf": False}},
        {"multipleOf": int("1" + "0" * 400)}, {"multipleOf": 10**400 + 1}, {"multipleOf": -(10**400)}, {"multipleOf": 5e-324},
    ],
)  # fmt: skip
def test_impossible_multiple_does_not_stop_the_cost_count(schema: dict[str, Any]) -> None:
    assert bool(constraint.excess(schema)) == (schema.get("multipleOf") == 10**400 + 1)
    assert isinstance(SCHEMAS.refusal(json.dumps(schema)), str)
