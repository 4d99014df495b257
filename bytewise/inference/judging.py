"""How a claim is judged: which of its tokens can be fed, and how far the true answer follows them (design section 6)."""

from collections.abc import Sequence

from bytewise.inference.answer import Answer
from bytewise.inference.paths import HeadRow
from bytewise.protocol.request import Output, Request


def believable(request: Request, claimed: Output, vocabulary: int) -> tuple[int, ...]:
    """The claimed tokens that can be fed: no more than the limit, none outside the vocabulary, none after a stop."""
    tokens = claimed.token_ids[: request.decode.max_new_tokens]
    for i, token in enumerate(tokens):
        if token >= vocabulary:
            return tokens[:i]
        if token in request.decode.stop_tokens:
            return tokens[: i + 1]
    return tokens


def follow(answer: Answer, tokens: tuple[int, ...], rows: Sequence[HeadRow]) -> Answer:
    """The answer grown over the teacher-forced rows for as long as it chooses the claimed tokens, and one token further."""
    for position, row in enumerate(rows):
        answer.add(row)
        if answer.reason or position >= len(tokens) or answer.steps[-1].token != tokens[position]:
            break
    return answer
