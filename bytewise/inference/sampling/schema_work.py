"""What compiling a JSON schema may cost: counted in the document, before the library reads it.

The library bounds the work of its lexer and of each mask, not that of merging schemas: without this, 21 bytes (`multipleOf` of
a large prime) or two hundred (forty patterns under `allOf`) kept it busy for minutes. What is counted depends on the
schema alone, so every machine refuses the same schemas; the numbers are part of the profile (`docs/exact-arithmetic.md`, 8).
"""

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import isfinite, lcm
from typing import Any

MOST_VALUES = 4096
"""Values of the document: objects, lists, texts, numbers."""
MOST_PROPERTIES = 512
"""Entries of all `properties`: an object's grammar grows with the square of those that it may leave out."""
MOST_PATTERN_PROPERTIES = 32
"""Entries of all `patternProperties`: each pair is proved disjoint."""
MOST_MULTIPLE = 10_000
"""Of the least common multiple of all `multipleOf`, as digits without zeros around them: an automaton has as many states."""
MOST_MERGED_PATTERNS = 8
"""Patterns and formats where schemas are merged: each may be intersected with all the others."""
MOST_MERGES = 2**18
"""Where schemas are merged: branches, times the square of properties + 16."""

BRANCHES = ("allOf", "anyOf", "oneOf")
ANNOTATIONS = frozenset(
    "title description default examples deprecated readOnly writeOnly $defs definitions $schema $id $comment".split()
)
"""Members that ask nothing of an answer: a branch beside them is merged with nothing."""


@dataclass(slots=True)
class _Counts:
    values: int = 0
    properties: int = 0
    pattern_properties: int = 0
    patterns: int = 0
    branches: int = 0
    merges: bool = False
    multiples: set[Decimal] = field(default_factory=set)

    def look(self, value: Any) -> None:
        """Counts a value and what is in it. A word in data (`const`, `default`) counts like a keyword: seldom, and harmless."""
        self.values += 1
        if isinstance(value, dict):
            self._look_at_schema(value)
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self.look(each)

    def _look_at_schema(self, schema: dict[str, Any]) -> None:
        self.properties += _size(schema.get("properties"))
        self.pattern_properties += _size(schema.get("patternProperties"))
        self.patterns += ("pattern" in schema) + ("format" in schema) + _size(schema.get("patternProperties"))
        branches = [_size(schema[name]) for name in BRANCHES if name in schema] + [1] * ("$ref" in schema)
        self.branches += sum(branches)
        beside = len(schema.keys() - ANNOTATIONS) > 1
        self.merges |= (bool(branches) and beside) or _size(schema.get("allOf")) > 1
        multiple = schema.get("multipleOf")
        # A property may be called multipleOf, and an integer may be beyond every float.
        if isinstance(multiple, bool) or not isinstance(multiple, int | float):
            return
        if (isinstance(multiple, int) or isfinite(multiple)) and multiple > 0:
            self.multiples.add(Decimal(repr(multiple)))


def excess(schema: dict[str, Any]) -> str:
    """Which of the limits a schema exceeds; empty for one that may be compiled."""
    counts = _Counts()
    counts.look(schema)
    for what, count, most in (
        ("values", counts.values, MOST_VALUES),
        ("properties", counts.properties, MOST_PROPERTIES),
        ("patternProperties", counts.pattern_properties, MOST_PATTERN_PROPERTIES),
        ("as common multiple", _states(counts.multiples), MOST_MULTIPLE),
        ("merged patterns and formats", counts.patterns * counts.merges, MOST_MERGED_PATTERNS),
        ("merged properties", counts.branches * (counts.properties + 16) ** 2 * counts.merges, MOST_MERGES),
    ):
        if count > most:
            return f"too costly: more than {most} {what}"
    return ""


def _size(value: Any) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _states(multiples: set[Decimal]) -> int:
    places = max((-int(each.as_tuple().exponent) for each in multiples), default=0)
    scale = Fraction(10) ** max(places, 0)
    whole = lcm(*(int(Fraction(each) * scale) for each in multiples))
    while whole % 10 == 0:
        # Tens cost nothing: zeros at the end are read, not counted.
        whole //= 10
    return whole
