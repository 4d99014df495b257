"""What the client gets: a `chat.completion` with the paper's Table 6 members, the signed receipt, and the opening to keep."""

from typing import Any

from bytewise.protocol.encoding import to_json
from bytewise.protocol.environment import Environment
from bytewise.protocol.receipt import SignedReceipt
from bytewise.protocol.request import Output, Request
from bytewise.protocol.seal import Payload
from bytewise.protocol.units import MAX_SAFE_INTEGER, Digest, hex0x


def completion(
    receipt_id: Digest, signed: SignedReceipt, payload: Payload, environment: Environment, text: str, assurance: str
) -> dict[str, Any]:
    """The whole answer, plain JSON data (OpenAI "chat completion object"; paper section 7.1, Table 6)."""
    request, output, receipt = payload.request, payload.output, signed.receipt
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": output.finish_reason}
    return {
        "id": "chatcmpl-" + receipt_id.hex()[:32],
        "object": "chat.completion",
        "created": receipt.issued_at,
        "model": request.model_name,
        "choices": [choice],
        "usage": _usage(output),
        "system_fingerprint": fingerprint(environment),
        "determinism": _determinism(request, environment),
        "receipt": {
            "receipt_id": hex0x(receipt_id),
            "req_hash": hex0x(receipt.req_hash),
            "out_hash": hex0x(receipt.out_hash),
            "tokens_hash": hex0x(receipt.tokens_hash),
            "sig": hex0x(signed.signature),
            "signed": to_json(signed),
        },
        "eigendalink": signed.locator,
        "assurance": assurance,
        "opening": to_json(payload),
    }


def fingerprint(environment: Environment) -> str:
    """Container digest, GPU architecture and driver (paper, Table 6)."""
    return f"{hex0x(environment.container)}:{environment.gpu_arch}:{environment.driver}"


def shown_text(output: Output, text_of: Any) -> str:
    """Text of an answer, without the stop token that ended it."""
    tokens = output.token_ids[:-1] if output.finish_reason == "stop" else output.token_ids
    return str(text_of(tokens))


def _usage(output: Output) -> dict[str, int]:
    total = output.prompt_tokens + output.completion_tokens
    return {"prompt_tokens": output.prompt_tokens, "completion_tokens": output.completion_tokens, "total_tokens": total}


def _determinism(request: Request, environment: Environment) -> dict[str, Any]:
    # The replay recipe: with the artifact and the opening this is all that a re-execution needs.
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
