"""The answer to a client: a `chat.completion` with the paper's Table 6 members, the signed receipt, and the opening.

The operator makes the answer. A client makes it again from checked data, and compares the two member by member.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from bytewise.protocol.encoding import to_json
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import SignedReceipt
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.seal import Payload
from bytewise.protocol.units import MAX_SAFE_INTEGER, Digest, hex0x

COMPLETION_PREFIX = "chatcmpl-"
"""Prefix of a completion's id; 32 hex digits of its receipt's id follow."""


class AnswerTokenizer(Protocol):
    """The methods of the artifact's tokenizer that the text of an answer needs."""

    def text(self, token_ids: tuple[int, ...], stop_strings: tuple[str, ...] = ()) -> str:
        """Returns the text of the tokens, up to the first stop string."""
        ...

    def written(self, token_ids: tuple[int, ...]) -> bytes:
        """Returns the bytes of the tokens."""
        ...


def completion(
    receipt_id: Digest,
    signed: SignedReceipt,
    payload: Payload,
    environment: Environment,
    tokenizer: AnswerTokenizer,
    assurance: str,
) -> dict[str, Any]:
    """Returns the whole answer as plain JSON data (OpenAI "chat completion object"; paper section 7.1, Table 6)."""
    request, output = payload.request, payload.output
    tokens = shown_tokens(request, output)
    answer = public_members(receipt_id, signed, environment, assurance) | opened_members(payload, environment)
    (choice,) = answer["choices"]
    choice["message"]["content"] = tokenizer.text(tokens, request.decode.stop_strings)
    choice["logprobs"] = (
        None if output.logprobs is None else {"content": _logprobs(output, len(tokens), tokenizer), "refusal": None}
    )
    return answer


def opened_members(payload: Payload, environment: Environment) -> dict[str, Any]:
    """Returns the members of an answer that its opening determines without the model's tokenizer: all but text and logprobs."""
    message = {"role": "assistant", "refusal": None}
    return {
        "model": payload.request.model_name,
        "choices": [{"index": 0, "message": message, "finish_reason": payload.output.finish_reason}],
        "usage": _usage(payload.output),
        "determinism": _determinism(payload.request, environment),
        "opening": to_json(payload),
    }


def public_members(receipt_id: Digest, signed: SignedReceipt, environment: Environment, assurance: str) -> dict[str, Any]:
    """Returns the members of an answer that its receipt and the chain alone determine, as plain JSON data."""
    receipt = signed.receipt
    return {
        "id": COMPLETION_PREFIX + receipt_id.hex()[:32],
        "object": "chat.completion",
        "created": receipt.issued_at,
        "system_fingerprint": fingerprint(environment),
        "receipt": receipt_members(receipt_id, signed),
        "eigendalink": signed.locator,
        "assurance": assurance,
    }


def fingerprint(environment: Environment) -> str:
    """Returns container digest, GPU architecture and driver as one text (paper, Table 6)."""
    return f"{hex0x(environment.container)}:{environment.gpu_arch}:{environment.driver}"


def several(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns one answer with the choices of several answers.

    The member `usage` counts the prompt once and the tokens of all answers. All other members are those of the first answer. The
    additional member `answers` lists each answer in full.
    """
    choices = [{**answer["choices"][0], "index": i} for i, answer in enumerate(answers)]
    prompt, new = answers[0]["usage"]["prompt_tokens"], sum(answer["usage"]["completion_tokens"] for answer in answers)
    usage = {"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new}
    return {**answers[0], "choices": choices, "usage": usage, "answers": list(answers)}


def shown_tokens(request: Request, output: Output) -> tuple[int, ...]:
    """Returns the tokens of an answer, without the stop token that ended it."""
    tokens = output.token_ids
    return tokens[:-1] if tokens and tokens[-1] in request.decode.stop_tokens else tokens


def receipt_members(identifier: Digest, signed: SignedReceipt) -> dict[str, Any]:
    """Returns the members of an answer about its receipt, as plain JSON data."""
    receipt = signed.receipt
    return {
        "receipt_id": hex0x(identifier),
        "req_hash": hex0x(receipt.req_hash),
        "out_hash": hex0x(receipt.out_hash),
        "tokens_hash": hex0x(receipt.tokens_hash),
        "sig": hex0x(signed.signature),
        "signed": to_json(signed),
    }


def _logprobs(output: Output, shown: int, tokenizer: AnswerTokenizer) -> list[dict[str, Any]]:
    def entry(token: int, logprob: str) -> dict[str, Any]:
        raw = tokenizer.written((token,))
        return {"token": raw.decode("utf-8", "replace"), "logprob": float(logprob), "bytes": list(raw)}

    return [
        {**entry(token, each.chosen), "top_logprobs": [entry(*best) for best in each.top]}
        for token, each in zip(output.token_ids[:shown], output.logprobs or (), strict=False)
    ]


def _usage(output: Output) -> dict[str, int]:
    total = output.prompt_tokens + output.completion_tokens
    return {"prompt_tokens": output.prompt_tokens, "completion_tokens": output.completion_tokens, "total_tokens": total}


def _determinism(request: Request, environment: Environment) -> dict[str, Any]:
    # The replay recipe: the data that a re-execution needs besides artifact and opening.
    return {
        "seed": request.seed if request.seed <= MAX_SAFE_INTEGER else str(request.seed),
        "profile": environment.profile,
        "environment": hex0x(request.environment),
        "model_id": hex0x(request.model_id),
        "decode": to_json(request.decode),
        "template_digest": hex0x(request.template_digest),
        "tokenizer_digest": hex0x(request.tokenizer_digest),
        "gpu_arch": environment.gpu_arch,
        "driver": environment.driver,
        "libraries": {each.name: each.version for each in environment.libraries},
        "engine_flags": list(environment.engine_flags),
    }
