"""Generation against verification on this machine: a table over prompt and answer length, never one number (design section 6)."""

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bytewise.inference import artifact
from bytewise.inference.convert import convert
from bytewise.inference.determinism import environment
from bytewise.inference.engine import ExactEngine
from bytewise.inference.make import make_model
from bytewise.protocol.request import REQUEST_VERSION, DecodePolicy, Request
from bytewise.protocol.units import U64, U256, ZERO_ADDRESS, Decimal, Digest

PROMPTS = (16, 64, 256)
ANSWERS = (16, 64, 128)


def measure(engine: ExactEngine, request: Request) -> tuple[float, float]:
    """Seconds to generate the answer to a request, and to verify it by one pass."""
    start = time.perf_counter()
    generated = engine.generate(request)
    between = time.perf_counter()
    verification = engine.verify(request, generated.output, generated.out_hash)
    end = time.perf_counter()
    if verification.divergence is not None:
        raise SystemExit("the engine contradicts itself: a measurement of it means nothing")
    return between - start, end - between


def main() -> None:
    """Makes the small model (or takes an artifact), measures, prints the table."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--artifact", type=Path, help="artifact folder; without it the demo's small model is made")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.artifact or _small_model(Path(folder))
        model = artifact.load(path)
        engine = ExactEngine(model, threads=options.threads)
    table = Table(title=f"model {model.name}, backend {engine.backend}, {options.threads} thread(s)")
    for heading in ("prompt", "answer", "generate s", "verify s", "ratio", "tokens/s"):
        table.add_column(heading, justify="right")
    digest = environment(model).digest
    measure(engine, _request(model, digest, PROMPTS[0], ANSWERS[0]))  # the first run pays for warm-up
    for prompt in PROMPTS:
        for answer in ANSWERS:
            made, checked = measure(engine, _request(model, digest, prompt, answer))
            row = (f"{made:.3f}", f"{checked:.3f}", f"{made / checked:.1f}", f"{answer / made:.0f}")
            table.add_row(str(prompt), str(answer), *row)
    Console().print(table)


def _small_model(folder: Path) -> Path:
    make_model(folder / "checkpoint", 1)
    convert(folder / "checkpoint", folder / "artifact")
    return folder / "artifact"


def _request(model: artifact.Artifact, environment_digest: Digest, prompt: int, answer: int) -> Request:
    decode = DecodePolicy(answer, Decimal("0"), Decimal("1"), 0, ())
    return Request(
        version=REQUEST_VERSION, model_id=model.model_id, model_name=model.name, environment=environment_digest,
        decode=decode, seed=U64(0),
        prompt=tuple(32 + i % 90 for i in range(prompt)), template_digest=model.template_digest,
        tokenizer_digest=model.tokenizer_digest, prompt_commitments=None, nonce=Digest(bytes(32)), chain_id=U256(31337),
        expiry=U64(2**40), client=ZERO_ADDRESS, reply_key=None,
    )  # fmt: skip


if __name__ == "__main__":
    main()
