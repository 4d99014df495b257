"""What the bytes of exact-1 do not depend on (design section 6): tested over 200 prompts, and refuted for plain floats."""

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from bytewise.inference.artifact import Artifact
from bytewise.inference.engine import Claim, ExactEngine
from bytewise.inference.matmul import BACKENDS, Float64Backend
from bytewise.inference.runner import Runner
from tests.unit.inference.models import policy, prompts, request, varied_requests

PROMPTS = 200
NEW = 8
BATCH = 20


@pytest.fixture(scope="module")
def claims(model: Artifact, engine: ExactEngine) -> list[Claim]:
    """200 answers that were decoded token by token, each sequence alone, on one thread."""
    answers = [(each, engine.generate(each)) for each in varied_requests(model, PROMPTS, NEW)]
    return [(each, answer.output, answer.out_hash) for each, answer in answers]


def all_equal(engine: ExactEngine, claims: list[Claim], batch: int) -> bool:
    """Whether each claim, decoded elsewhere, is byte for byte what this engine's teacher-forced pass gives, trace included."""
    results = [engine.verify_many(claims[i : i + batch]) for i in range(0, len(claims), batch)]
    return all(result.divergence is None for group in results for result in group)


def test_prefill_gives_the_bytes_of_decode(engine: ExactEngine, claims: list[Claim]) -> None:
    assert all_equal(engine, claims, 1)


def test_answers_differ_from_each_other(claims: list[Claim]) -> None:
    assert len({output.token_ids for _, output, _ in claims}) > PROMPTS * 9 // 10
    assert len({token for _, output, _ in claims for token in output.token_ids}) > 80


@pytest.mark.parametrize("chunk", [1, 5, 16])
def test_bytes_do_not_depend_on_the_chunks_of_prefill(model: Artifact, claims: list[Claim], chunk: int) -> None:
    assert all_equal(ExactEngine(model, chunk=chunk), claims, BATCH)


def test_bytes_do_not_depend_on_the_number_of_threads(model: Artifact, claims: list[Claim]) -> None:
    assert all_equal(ExactEngine(model, threads=2), claims, BATCH)


@pytest.mark.parametrize("backend", [backend.name for backend in BACKENDS])
def test_bytes_do_not_depend_on_the_backend(model: Artifact, claims: list[Claim], backend: str) -> None:
    engine = ExactEngine(model, backend=backend)
    assert engine.backend == backend
    assert all_equal(engine, claims, BATCH)
    for each, output, out_hash in claims[::25]:
        again = engine.generate(each)
        assert (again.output, again.out_hash) == (output, out_hash)


def test_bytes_do_not_depend_on_neighbours_or_on_the_position_in_the_batch(engine: ExactEngine, claims: list[Claim]) -> None:
    alone = [engine.verify(*claim) for claim in claims[:12]]
    for rotation in (1, 5, 11):
        turned = claims[rotation:12] + claims[:rotation]
        together = engine.verify_many(turned)
        assert together == alone[rotation:] + alone[:rotation]


def test_bytes_do_not_depend_on_what_was_computed_before(model: Artifact, engine: ExactEngine) -> None:
    long = request(model, prompts(24)[-1] * 4, policy(20, "0.9"))
    assert ExactEngine(model, guard=True).generate(long) == engine.generate(long)


def float_model(model: Artifact) -> LlamaForCausalLM:
    """The checkpoint of the artifact as transformers itself runs it in float32."""
    checkpoint = model.path.parent / "checkpoint"
    return LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="eager").eval()


def test_plain_floats_fail_the_law_that_exact_arithmetic_keeps(model: Artifact) -> None:
    floats, differing = float_model(model), 0
    with torch.inference_mode():
        for prompt in prompts(PROMPTS):
            whole = floats(torch.tensor([prompt])).logits[0]
            cache, rows = None, []
            for token in prompt:
                step = floats(torch.tensor([[token]]), past_key_values=cache, use_cache=True)
                cache = step.past_key_values
                rows.append(step.logits[0, 0])
            differing += int((torch.stack(rows) != whole).any(-1).sum())
    assert differing > 0


def test_exact_arithmetic_is_close_to_the_float_model(model: Artifact) -> None:
    floats, runner = float_model(model), Runner(model, Float64Backend())
    signal = noise = 0.0
    with torch.inference_mode():
        for prompt in prompts(24):
            reference = floats(torch.tensor([prompt])).logits[0]
            rows = runner.teacher_force(runner.cache(1, len(prompt)), [prompt], [0])[0]
            exact = torch.stack([row.logits for row in rows if row.logits is not None])
            signal += float((reference * reference).sum())
            noise += float(((exact - reference) ** 2).sum())
    # Weights of 8 bits per channel: about 30 dB on random models (arithmetic review, section 2).
    assert signal > 300 * noise
