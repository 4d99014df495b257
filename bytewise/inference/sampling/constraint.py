"""Rules about the text of an answer: a JSON schema that the answer satisfies, and stop strings that end the answer.

For a schema, llguidance decides which tokens may come next (docs/reference/exact-arithmetic.md, section 8). Its masks depend
only on the schema, the bytes of tokens, the tokens so far and the limits. The limits count steps, never time. The version of
llguidance is part of the profile, because another version may allow other tokens.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib.metadata import version
from math import isfinite, lcm
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from bytewise.inference.artifact.token_table import TokenTable
from bytewise.protocol.errors.actors import CannotExecute, NotExact

# Limits on the cost of compiling a JSON schema, counted in the document before the library reads it.

MOST_VALUES = 4096
"""Most values in a schema document: objects, lists, texts and numbers together."""
MOST_PROPERTIES = 512
"""Most entries of all `properties` together. An object's grammar grows with the square of its optional properties."""
MOST_PATTERN_PROPERTIES = 32
"""Most entries of all `patternProperties` together. The library proves each pair disjoint."""
MOST_MULTIPLE = 10_000
"""Largest least common multiple of all `multipleOf`, written without its decimal point and without the zeros at both ends. The
library builds an automaton with so many states."""
MOST_MERGED_PATTERNS = 8
"""Most patterns and formats in a document with merged schemas. The library may intersect each with all others."""
MOST_MERGES = 2**18
"""Limit for a document with merged schemas: the number of branches, times the square of (properties + 16)."""

BRANCHES = ("allOf", "anyOf", "oneOf")
ANNOTATIONS = frozenset(
    "title description default examples deprecated readOnly writeOnly $defs definitions $schema $id $comment".split()
)
"""Members of a schema that do not constrain the answer. The library does not merge a branch that has only such members beside
it."""


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
        """Counts a value and its content. A word in data (`const`, `default`) counts as a keyword too. This is rare and
        harmless."""
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
        # A property may be named multipleOf, and an integer may exceed every float.
        if isinstance(multiple, bool) or not isinstance(multiple, int | float):
            return
        if (isinstance(multiple, int) or isfinite(multiple)) and multiple > 0:
            self.multiples.add(Decimal(repr(multiple)))


def excess(schema: dict[str, Any]) -> str:
    """Returns a message with the limit that a schema exceeds. Returns an empty string if the schema may be compiled."""
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
        # Factors of ten cost nothing, so trailing zeros are not counted.
        whole //= 10
    return whole


if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

LIBRARY_VERSION = "1.9.1"
"""Version of llguidance that gives the masks of the profile."""

LIMITS: dict[str, Any] = {
    "max_items_in_row": 2_000, "initial_lexer_fuel": 1_000_000, "step_lexer_fuel": 200_000, "step_max_items": 50_000,
    "max_lexer_states": 50_000, "max_grammar_size": 500_000, "precompute_large_lexemes": True, "verbose_errors": False,
}  # fmt: skip
"""Limits of the work for one schema and one mask, in the library's own units. They are part of the profile."""

OPTIONS = "x-guidance"
"""Name of the member of a schema in which llguidance looks for its own options."""

COMPACT = {"whitespace_flexible": False}
"""Option that forbids white space between the tokens of JSON. White space has no meaning there, and a model could write it for
ever."""

UNFORCED = '%llguidance {"no_forcing": true}\nstart: @schema'
"""Grammar that allows every token that fits the text. Without it, the library tokenises text itself if the text has only one
continuation."""


MOST_REMEMBERED = 64
"""Number of schemas for which `Schemas.refusal` keeps its result."""


class Schemas:
    """Maker of constraints for one vocabulary. It loads the library at its first use."""

    def __init__(self, lexicon: TokenTable) -> None:
        self._lexicon = lexicon
        self._remembered = lru_cache(MOST_REMEMBERED)(self._refusal)

    def constraint(self, text: str) -> "Constraint":
        """Returns the constraint of one answer by a JSON schema. If the schema costs too much or the library refuses it, the
        constraint allows no token.

        The library compiles the schema anew each time. A copy of the library's matcher would share the lexer's states with the
        original. Then other answers could use up a part of this answer's limit.
        """
        from llguidance import LLMatcher, LLParserLimits

        try:
            grammar = _grammar(text)
        except (ValueError, ArithmeticError) as error:
            return Constraint(None, self._lexicon.vocabulary, f"schema: {error}")
        matcher = LLMatcher(self._tokens, grammar, log_level=0, limits=LLParserLimits(**LIMITS))
        return Constraint(matcher, self._lexicon.vocabulary, matcher.get_error())

    def refusal(self, text: str) -> str:
        """Returns the reason why a schema is refused, or an empty string if it is accepted.

        A schema is refused if it is not a JSON object, has the member `OPTIONS`, costs too much, is rejected by the library, or
        lets no token begin an answer. This class caches the results of the latest `MOST_REMEMBERED` schemas.
        """
        return self._remembered(text)

    def _refusal(self, text: str) -> str:
        constraint = self.constraint(text)
        return constraint.error or ("" if constraint.allowed is not None else "no token can begin an answer")

    @cached_property
    def _tokens(self) -> "LLTokenizer":
        from llguidance import LLTokenizer

        found = version("llguidance")
        if found != LIBRARY_VERSION:
            raise CannotExecute(f"llguidance {found}, the profile needs {LIBRARY_VERSION}")
        words: Any = _TokenTable(self._lexicon)
        return LLTokenizer(words, slices=LLTokenizer.json_slices())


class Constraint:
    """Constraint of one answer by a schema. It knows which tokens may come next."""

    allowed: Tensor | None
    """Tokens that may come next, bool [V]. None if there is no such token."""
    accepts: bool
    """Whether the text so far is complete. A stop token may then end it."""
    error: str
    """Error of the library, or the limit that was reached. Empty if there is none."""

    def __init__(self, matcher: "LLMatcher | None", vocabulary: int, error: str) -> None:
        self._matcher, self._vocabulary = matcher, vocabulary
        self.allowed, self.accepts, self.error = None, False, error
        if matcher is not None and not error:
            self._look(matcher)

    @property
    def complete(self) -> bool:
        """True if the text is complete and no token can be added to it."""
        return self.accepts and self.allowed is None

    def choices(self, stop_tokens: Sequence[int]) -> Tensor | None:
        """Returns the allowed tokens. If the text may end here, they include the stop tokens. Returns None if no token is
        left."""
        ends = [token for token in stop_tokens if token < self._vocabulary] if self.accepts else []
        if not ends:
            return self.allowed
        choices = torch.zeros(self._vocabulary, dtype=torch.bool) if self.allowed is None else self.allowed.clone()
        choices.numpy()[ends] = True
        return choices

    def add(self, token: int) -> None:
        """Adds an allowed token to the answer. Raises `NotExact` if the schema was refused."""
        if self._matcher is None:
            raise NotExact("a token under a schema that was refused")
        self._matcher.consume_token(token)
        self._look(self._matcher)

    def _look(self, matcher: "LLMatcher") -> None:
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
        self.error = matcher.get_error()
        mask = bits[: self._vocabulary].astype(np.bool_)
        self.allowed = torch.from_numpy(mask) if mask.any() and not self.error else None
        self.accepts = bool(bits[self._vocabulary]) and not self.error


class _TokenTable:
    """The vocabulary in the library's form: the bytes of each token by id, then an end token that no model has."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, lexicon: TokenTable) -> None:
        self.eos_token_id = lexicon.vocabulary
        self.tokens = [*lexicon.pieces, b"<end>"]
        control = sorted(token for token in lexicon.control if token < lexicon.vocabulary)
        self.special_token_ids = [*control, self.eos_token_id]

    def __call__(self, text: str) -> NoReturn:
        # The library would ask for the tokens of forced text; `UNFORCED` turns that off.
        raise NotExact(f"the grammar asked for tokens of {len(text)} characters")


def _grammar(text: str) -> str:
    # Encode the schema as JSON instead of inserting its text, so that nothing in it can become a part of the grammar around it.
    schema = json.loads(text)
    if not isinstance(schema, dict):
        raise ValueError("not an object")
    if OPTIONS in schema:
        raise ValueError(f"{OPTIONS} is not supported")
    costly = excess(schema)
    if costly:
        raise ValueError(costly)
    named = {"name": "schema", "json_schema": {**schema, OPTIONS: COMPACT}}
    return json.dumps({"grammars": [{"lark_grammar": UNFORCED}, named]})


# Stop strings. An answer ends at the token that completes a stop string. Bytes are compared, whatever the token boundaries.


class StopStrings:
    """Search for stop strings in the bytes of one answer, while the answer grows."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._stops = [text.encode() for text in texts]
        self._kept = max(map(len, self._stops), default=1) - 1
        self._tail = b""

    def add(self, piece: bytes) -> bool:
        """Adds the bytes of one token, and returns whether the answer now contains a stop string."""
        seen = self._tail + piece
        self._tail = seen[-self._kept :] if self._kept else b""
        return any(stop in seen for stop in self._stops)


def before_stop(raw: bytes, texts: Sequence[str]) -> bytes:
    """Returns the bytes of an answer before its first stop string, or all bytes if there is none."""
    found = [at for at in (raw.find(text.encode()) for text in texts) if at >= 0]
    return raw[: min(found)] if found else raw
