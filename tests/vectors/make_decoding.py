"""Writes decoding.json, the vectors of section 8 of the profile: `python tests/vectors/make_decoding.py`.

Each case: rows of logits (float32 as bits), a decode policy, and the answer that follows. The vocabulary is in the file.
"""

import json
import struct
import sys
from pathlib import Path
from typing import Any

import torch

from bytewise.inference.answer import AnswerBuilder, TokenTexts
from bytewise.inference.determinism import fixed
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.known_answers.operations import integers
from bytewise.protocol.encoding import from_json, to_json
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.records.request import DecodePolicy, Request
from bytewise.protocol.units import U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Decimal

FILE = Path(__file__).parent / "decoding.json"
NAMES = ["<end>", '{"a":', "true", "false", "}", "[", "]", ",", "1", "0", "\u0120", "ab", "b", "\u00c3", "\u00a9", "<|x|>"]
"""Tokens by id: control tokens first and last, then names in the byte-level alphabet (U+0120 is a space, then two bytes of é)."""
TOKENIZER = {
    "added_tokens": [{"id": i, "content": NAMES[i], "special": True} for i in (0, len(NAMES) - 1)],
    "model": {"type": "BPE", "vocab": {name: i for i, name in enumerate(NAMES)}, "merges": []},
    "decoder": {"type": "ByteLevel"},
}
ROWS = [[n / 2.0**20 for n in integers(f"decoding-{row}", len(NAMES), 2**23)] for row in range(8)]
PROMPT = (2, 8, 11)
OBJECT = '{"type":"object","properties":{"a":{"type":["boolean","array"]}},"required":["a"],"additionalProperties":false}'
CASES: list[dict[str, Any]] = [
    {}, {"temperature": "1"}, {"temperature": "0.7", "top_k": 3}, {"temperature": "2.5", "top_p": "0.8"},
    {"temperature": "4", "min_p": "0.2"}, {"temperature": "3", "top_k": 9, "top_p": "0.95", "min_p": "0.05"},
    {"repetition_penalty": "1.3"}, {"repetition_penalty": "0.75", "temperature": "1.1"}, {"presence_penalty": "1.9"},
    {"frequency_penalty": "-1.3", "temperature": "5"}, {"logit_bias": [[3, "4.1"], [9, "-100"], [99, "100"]], "temperature": "1"},
    {"stop_tokens": [13]}, {"stop_strings": ["b", "\u00e9"], "temperature": "3"}, {"logprobs": 4, "temperature": "1.5"},
    {"logprobs": 0}, {"grammar": OBJECT}, {"grammar": OBJECT, "temperature": "6"}, {"grammar": OBJECT, "stop_tokens": [0]},
    {"grammar": '{"type":"array","items":{"enum":[0,1,10]}}', "stop_tokens": [0], "temperature": "9"}, {"grammar": "{"},
    {"grammar": OBJECT, "logit_bias": [[1, "-100"], [2, "-100"]], "frequency_penalty": "2", "logprobs": 1},
]  # fmt: skip


def bits(row: list[float]) -> list[str]:
    """float32 values as the hexadecimal of their bits."""
    return [struct.pack(">f", value).hex() for value in row]


def answered(knobs: dict[str, Any], seed: int) -> dict[str, Any]:
    """One case with its answer over the rows."""
    off = DecodePolicy(len(ROWS), Decimal("0"), Decimal("1"), 0, ())
    policy = from_json(DecodePolicy, to_json(off) | knobs)
    request = Request(
        version=2, model_id=ZERO_DIGEST, model_name="vectors", environment=ZERO_DIGEST, decode=policy, seed=U64(seed),
        prompt=PROMPT,
        template_digest=ZERO_DIGEST, tokenizer_digest=ZERO_DIGEST, prompt_commitments=None, nonce=ZERO_DIGEST, chain_id=U256(1),
        expiry=U64(1), client=ZERO_ADDRESS, reply_key=None,
    )  # fmt: skip
    answer = AnswerBuilder(request, ZERO_DIGEST, TokenTexts(json.dumps(TOKENIZER).encode(), len(NAMES)))
    for row in ROWS:
        if answer.reason is None:
            answer.add(HeadRow(b"", 100, torch.tensor(row)))
    output = to_json(answer.finish().output)
    kept = {name: output[name] for name in ("token_ids", "finish_reason", "logprobs")}
    return {"decode": to_json(policy), "seed": str(seed), **kept}


def vectors() -> dict[str, Any]:
    """The whole file."""
    with fixed(1):
        cases = [answered(knobs, seed) for seed, knobs in enumerate(CASES)]
    provenance = {"made_by": "tests/vectors/make_decoding.py", "checked_by": "tests/unit/inference/test_vectors_of_decoding.py"}
    fixed_parts = {
        "profile": PROFILE_EXACT_1,
        "tokenizer": TOKENIZER,
        "prompt": list(PROMPT),
        "execution_hash": ZERO_DIGEST.hex(),
    }
    return {**provenance, **fixed_parts, "rows": [bits(row) for row in ROWS], "cases": cases}


def main() -> int:
    """Writes the file."""
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
