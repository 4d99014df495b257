"""Writes exact-1.json, the vectors of the arithmetic profile: `python -m tests.vectors.make_exact1`.

They never change: a change of one bit is a new profile (design section 6). `answers FOLDER` prints the small model's answers
on the backend that this machine chooses; tests run it under other instruction sets.
"""

import json
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import make_model
from bytewise.inference.determinism import fixed
from bytewise.inference.engine import ExactEngine
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.known_answers import operations
from bytewise.inference.known_answers.operations import integers
from bytewise.inference.sampling.sampler import draw, keep
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.records.request import REQUEST_VERSION, DecodePolicy, Request
from bytewise.protocol.units import U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Decimal, Digest
from tests.vectors import exact1_parts

FILE = Path(__file__).parent / "exact-1.json"
SMALL = {"layers": 2, "width": 64, "heads": 4, "key_value_heads": 2, "context": 256}
SEED = 7
POLICIES = (("0", "1", 0), ("0.8", "0.9", 0), ("1.25", "1", 40))
PROMPTS = (b"\x00", b"One answer, the same bytes everywhere.", bytes(range(64, 160)))


def sampler() -> list[dict[str, Any]]:
    """Kept sets and draws."""
    cases = []
    for i, (top_k, top_p) in enumerate(((0, "1"), (3, "1"), (0, "0.5"), (7, "0.9"), (0, "0.001"))):
        weights = [abs(n) for n in integers(f"weights-{i}", 12, 2**30)]
        key = digests.labelled(Label.SAMPLER, i)
        token = draw(keep(torch.tensor(weights), top_k, Fraction(top_p)), key)
        cases.append({"weights": weights, "top_k": top_k, "top_p": top_p, "key": key.hex(), "token": token})
    return cases


def small_model(folder: Path) -> Artifact:
    """The model of the vectors; made in `folder` if it is not there."""
    if not (folder / "artifact").exists():
        make_model(folder / "checkpoint", SEED, **SMALL)
        convert(folder / "checkpoint", folder / "artifact")
    return artifact.load(folder / "artifact")


def requests(model: Artifact) -> list[Request]:
    """Every prompt under every policy."""
    return [
        Request(
            REQUEST_VERSION, model.model_id, "vectors", ZERO_DIGEST, DecodePolicy(24, Decimal(t), Decimal(p), k, (257,)),
            U64(k + i), tuple(prompt), model.template_digest, model.tokenizer_digest, None, Digest(bytes(range(32))),
            U256(1), U64(1), ZERO_ADDRESS, None,
        )
        for i, prompt in enumerate(PROMPTS) for t, p, k in POLICIES
    ]  # fmt: skip


def answers(engine: ExactEngine) -> list[dict[str, Any]]:
    """Tokens, first and last leaf, and out_hash of each answer."""
    found = []
    for request in requests(engine.artifact):
        answer, decode = engine.generate(request), request.decode
        found.append({
            "prompt": bytes(request.prompt).hex(), "temperature": decode.temperature, "top_p": decode.top_p,
            "top_k": decode.top_k, "seed": request.seed, "tokens": bytes(answer.output.token_ids).hex(),
            "first_leaf": answer.leaves[0].hex(),
            "last_leaf": answer.leaves[-1].hex(), "out_hash": answer.out_hash.hex(),
        })  # fmt: skip
    return found


def vectors(folder: Path) -> dict[str, Any]:
    """The whole file; `folder` is for the small model."""
    model = small_model(folder)
    with fixed(1):
        head = {"profile": PROFILE_EXACT_1, "profile_digest": operations.profile_digest(Float64Backend()).hex()}
        parts = {
            **exact1_parts.elementwise(), "rotary": exact1_parts.rotary(), "attention": exact1_parts.attention(),
            "routing": exact1_parts.routing(), "families": exact1_parts.families(folder), "sampler": sampler(),
        }  # fmt: skip
    weights = digests.sha256((folder / "checkpoint" / "model.safetensors").read_bytes()).hex()
    made = {"seed": SEED, "shape": SMALL, "checkpoint": weights, "model_id": model.model_id.hex()}
    provenance = {"made_by": "tests/vectors/make_exact1.py", "checked_by": "tests/unit/inference/test_vectors.py"}
    return {**provenance, **head, **parts, "model": made, "answers": answers(ExactEngine(model, backend="float64"))}


def main() -> int:
    """Writes the file, or prints answers."""
    if len(sys.argv) == 3 and sys.argv[1] == "answers":
        engine = ExactEngine(small_model(Path(sys.argv[2])))
        print(json.dumps({"backend": engine.backend, "vectors": engine.vectors().hex(), "answers": answers(engine)}))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        FILE.write_text(json.dumps(vectors(Path(folder)), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
