"""What the bytes of exact-1 do not depend on (design section 6), over whole head rows; refuted for plain floats.

Every family, at odd lengths and past 97, 128, 256 and 1,024 positions. The reference is one sequence alone, in one forward
call, on one thread, in float64.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.backend_selection import AnyPath
from bytewise.inference.determinism import fixed
from bytewise.inference.engine import ExactEngine
from bytewise.inference.exact.matmul import BACKENDS, Float64Backend, backend_named
from bytewise.inference.native.backend import NativeBackend
from bytewise.inference.native.library import ThreadPool, kernels
from bytewise.inference.native.path import NativePath, missing_feature
from bytewise.inference.torch_path import Runner
from bytewise.protocol.records.trace import Verification
from bytewise.service.settings import child_environment
from tests.fixtures.inference.head_rows import LENGTH, SHORT, digest, forced, text, whole
from tests.fixtures.inference.models import policy, prompts, request, varied_requests
from tests.fixtures.inference.tiny import tiny
from tests.source import ROOT
from tests.vectors import make_exact1

FAMILIES = ("llama", "mistral", "qwen3", "gemma2", "mixtral")
SMALLER = {"max_position_embeddings": 2048, "num_hidden_layers": 1}
EDGES = (0, 95, 126, 254, 1022)
"""Where decode starts: short of every length at which a kernel or a block may change."""
FED = 5
RAGGED = (131, 1, 97, 257, 128)


class Law(NamedTuple):
    """A model, and what is true of its rows."""

    model: Artifact
    tokens: list[int]
    truth: list[bytes]


class Way(NamedTuple):
    """A path of a model, and how many positions its laws are tested on."""

    path: AnyPath
    length: int


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the models lie."""
    return tmp_path_factory.mktemp("laws")


@pytest.fixture(scope="module", params=FAMILIES)
def law(request: pytest.FixtureRequest, folder: Path) -> Law:
    """The law of one family: float64 on one thread, one sequence alone."""
    # Gemma's layers differ: every second one has a window.
    model = tiny(request.param, folder / request.param, **(SMALLER | {"num_hidden_layers": 1 + (request.param == "gemma2")}))
    tokens = text(request.param)
    with fixed(1):
        return Law(model, tokens, forced(Runner(model, Float64Backend()), tokens))


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    """What the engine sets for its jobs."""
    with fixed(1):
        yield


@pytest.fixture(scope="module", params=["torch", "torch with C", "native"])
def ways(law: Law, request: pytest.FixtureRequest) -> Iterator[list[Way]]:
    """The torch path at a few hundred positions, with C, too; every native kernel that has the family at all of them."""
    natives: list[NativePath] = []
    with fixed(1):
        if request.param == "torch":
            found: list[AnyPath] = [Runner(law.model, Float64Backend())]
        elif request.param == "torch with C":
            found = [Runner(law.model, NativeBackend(ThreadPool(kernel, 2))) for kernel in kernels()]
        elif missing_feature(law.model.manifest.architecture) is None:
            natives = [NativePath(law.model, kernel=kernel) for kernel in kernels()]
            found = [*natives]
        else:
            found = []
    yield [Way(path, LENGTH if request.param == "native" else SHORT) for path in found]
    for native in natives:
        native.close()


def test_positions_differ_from_each_other(law: Law) -> None:
    assert len(set(law.truth)) == LENGTH


def test_bytes_do_not_depend_on_the_chunks_of_prefill(law: Law, ways: list[Way]) -> None:
    for way in ways:
        for chunk in (97,) if way.length == SHORT else (7, 97, 256):
            assert forced(way.path, law.tokens[: way.length], chunk) == law.truth[: way.length]


def test_prefill_gives_the_bytes_of_decode(law: Law, ways: list[Way]) -> None:
    for way in ways:
        cache = way.path.cache(1, way.length)
        way.path.teacher_force(cache, [law.tokens[: way.length]], [way.length - 1], 256)
        for edge in reversed([edge for edge in EDGES if edge + FED <= way.length]):
            cache.crop(edge)
            fed = [way.path.feed(cache, law.tokens[i], i) for i in range(edge, edge + FED)]
            assert whole(fed) == law.truth[edge : edge + FED]


def test_bytes_do_not_depend_on_neighbours_or_on_the_position_in_the_batch(law: Law, ways: list[Way]) -> None:
    others = [law.tokens[:length] for length in RAGGED[:3]] + [text(str(length), length) for length in RAGGED[3:]]
    for way in ways:
        alone = [law.truth[:length] for length in RAGGED[:3]] + [forced(way.path, tokens) for tokens in others[3:]]
        for turn in (0, 3):
            turned, right = others[turn:] + others[:turn], alone[turn:] + alone[:turn]
            rows = way.path.teacher_force(way.path.cache(len(turned), max(RAGGED)), turned, [0] * len(turned), 64)
            assert [whole(each) for each in rows] == right


def test_bytes_do_not_depend_on_a_cached_prefix(law: Law, ways: list[Way]) -> None:
    """The cache held another conversation, of which the beginning is kept."""
    for way in ways:
        for shared in (97,) if way.length == SHORT else (1, 128, 1023):
            cache = way.path.cache(1, way.length + 5)
            other = [*law.tokens[:shared], *text("other", way.length - shared)]
            way.path.teacher_force(cache, [other], [way.length - 1], 256)
            cache.crop(shared)
            rows = way.path.teacher_force(cache, [law.tokens[shared : way.length]], [0], 256)[0]
            assert whole(rows) == law.truth[shared : way.length]


@pytest.mark.parametrize("name", [backend.name for backend in BACKENDS if backend.name != "float64"])
def test_bytes_do_not_depend_on_the_backend(law: Law, name: str) -> None:
    # Past the 128 positions where the chunks of attention end; the known models have every family on every backend.
    if law.model.manifest.architecture.family in ("llama", "gemma2"):
        assert forced(Runner(law.model, backend_named(name)), law.tokens[:SHORT]) == law.truth[:SHORT]


def test_bytes_do_not_depend_on_the_number_of_threads(law: Law) -> None:
    with fixed(2):
        assert forced(Runner(law.model, Float64Backend()), law.tokens[:SHORT]) == law.truth[:SHORT]
        if kernels() and missing_feature(law.model.manifest.architecture) is None:
            native = NativePath(law.model, threads=2)
            assert forced(native, law.tokens) == law.truth
            native.close()


SETTINGS = {
    "no vectors": {
        "ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
    },
    # Where a processor has VNNI, oneDNN's int8 kernel saturates under this: the known answers drop it, and the bytes stay.
    "AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "2"},
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_bytes_do_not_depend_on_cpu_detection_of_libraries(folder: Path, name: str) -> None:
    """Processes of their own: these variables are read when a library is loaded."""
    models = {}
    for family in ("mistral", "gemma2"):
        path = folder / f"isa-{family}"
        models[path.name] = artifact.load(path / "artifact") if path.exists() else tiny(family, path, **SMALLER)
    right = {name: digest(forced(Runner(model, Float64Backend()), text(name, SHORT))) for name, model in models.items()}
    make_exact1.small_model(folder / "vectors")
    paths = [str(folder / "vectors"), *(str(model.path) for model in models.values())]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fixtures.inference.head_rows", *paths], cwd=ROOT, env=child_environment(SETTINGS[name]),
        capture_output=True, timeout=240, check=False, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["digests"] == right
    assert found["answers"] == json.loads(make_exact1.FILE.read_text())["answers"]


# --- the engine ---


def test_answers_are_the_same_decoded_alone_and_judged_in_a_batch(model: Artifact, engine: ExactEngine) -> None:
    asked = varied_requests(model, 24, 8)
    claims = [(each, answer.output, answer.out_hash) for each in asked for answer in [engine.generate(each)]]
    assert len({output.token_ids for _, output, _ in claims}) > 20
    for batch in (1, 12):
        results = [engine.verify_many(claims[i : i + batch]) for i in range(0, len(claims), batch)]
        assert all(isinstance(result, Verification) and result.divergence is None for group in results for result in group)
    other = engine.second_backend()
    assert other.backend != engine.backend
    assert all(isinstance(result, Verification) and result.divergence is None for result in other.verify_many(claims))


def test_conversation_continued_in_its_cache_equals_a_fresh_computation(model: Artifact, engine: ExactEngine) -> None:
    reusing, taken = ExactEngine(model, reuse_prefix=True), []
    prefix = reusing._prefix
    assert prefix is not None
    prompt = prompts(24)[-1]
    for turn in range(4):
        asked = request(model, prompt, policy(9, "0.9"), seed=turn)
        kept = prefix._kept
        taken.append(0 if kept is None else len(kept[1]))
        assert reusing.generate(asked) == engine.generate(asked)
        answer = engine.generate(asked).output.token_ids
        # The next prompt repeats the conversation, as a chat does; the last one only begins like it.
        prompt = [*prompt, *answer, 10 + turn] if turn < 2 else [*prompt[:5], 1, 2, 3]
    assert taken[0] == 0 < taken[1] < taken[2], "the cache was kept and grew"


def test_bytes_do_not_depend_on_what_was_computed_before(model: Artifact, engine: ExactEngine) -> None:
    long = request(model, prompts(24)[-1] * 4, policy(20, "0.9"))
    assert ExactEngine(model, guard=True).generate(long) == engine.generate(long)


# --- controls ---


def float_model(model: Artifact) -> LlamaForCausalLM:
    """The checkpoint of the artifact as transformers itself runs it in float32."""
    checkpoint = model.path.parent / "checkpoint"
    return LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="eager").eval()


def test_plain_floats_fail_the_law_that_exact_arithmetic_keeps(model: Artifact) -> None:
    floats, differing = float_model(model), 0
    for prompt in prompts(20):
        whole_prompt = floats(torch.tensor([prompt])).logits[0]
        cache, rows = None, []
        for token in prompt:
            step = floats(torch.tensor([[token]]), past_key_values=cache, use_cache=True)
            cache = step.past_key_values
            rows.append(step.logits[0, 0])
        differing += int((torch.stack(rows) != whole_prompt).any(-1).sum())
    assert differing > 0


def test_exact_arithmetic_is_close_to_the_float_model(model: Artifact) -> None:
    floats, runner = float_model(model), Runner(model, Float64Backend())
    signal = noise = 0.0
    for prompt in prompts(24):
        reference = floats(torch.tensor([prompt])).logits[0]
        rows = runner.teacher_force(runner.cache(1, len(prompt)), [prompt], [0])[0]
        exact = torch.stack([row.logits for row in rows if row.logits is not None])
        signal += float((reference * reference).sum())
        noise += float(((exact - reference) ** 2).sum())
    # Weights of 8 bits per channel: about 30 dB on random models (arithmetic review, section 2).
    assert signal > 300 * noise
