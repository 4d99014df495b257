"""What of the CUDA path can be shown without a GPU: its arithmetic, its fixed shapes, and that nothing stays on the processor."""

import pytest
import torch
from torch import Tensor

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.backend_selection import open_path
from bytewise.inference.cuda.runner import CUDA_BACKENDS, CudaBfloat16Backend, CudaFloat64Backend, CudaInt8Backend, DeviceRunner
from bytewise.inference.determinism import fixed
from bytewise.inference.dispatch_guard import guarded
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.exact.matmul import Backend, Float64Backend, backend_named
from bytewise.inference.exact.quantise import quantise
from bytewise.inference.known_answers import operations
from bytewise.inference.known_answers.operations import PROFILE_DIGEST
from bytewise.inference.torch_path import Runner
from bytewise.protocol.errors.actors import CannotExecute, NotExact

each_backend = pytest.mark.parametrize("backend", CUDA_BACKENDS, ids=lambda backend: backend.name)
BUCKET = 16


class ShortSums(CudaBfloat16Backend):
    """A unit that hands its sums over in 16 bits."""

    def multiply(self, left: Tensor, right: Tensor) -> Tensor:
        """Right for small sums only."""
        return super().multiply(left, right).to(torch.bfloat16).to(torch.float32)


@each_backend
def test_every_backend_gives_the_profiles_vectors_under_the_guard(backend: Backend) -> None:
    with fixed(1), guarded(True):
        assert operations.profile_digest(backend) == PROFILE_DIGEST


@each_backend
def test_every_backend_passes_the_known_answers_at_worst_operands(backend: Backend) -> None:
    assert operations.verify_products(backend, (8, 1040)) == backend.name


def test_unit_with_short_accumulators_is_skipped() -> None:
    with pytest.raises(NotExact, match="cuda-bfloat16"):
        operations.verify_products(ShortSums(), (64,))
    assert operations.first_exact((ShortSums(), CudaFloat64Backend())).name == "cuda-float64"


def test_the_int8_product_reads_padding_as_zero() -> None:
    backend = CudaInt8Backend()
    packed = backend.pack(torch.full((3, 5), 127, dtype=torch.int8))
    assert packed.shape == (5, 3) and packed.stride() == (1, 8)
    assert backend.product(torch.full((17, 5), -16383.0), packed).tolist() == [[-16383 * 127 * 5.0] * 3] * 17


def test_bfloat16_sums_in_float32_pass_the_guard_and_other_types_do_not() -> None:
    ones = torch.ones(4, 4, dtype=torch.bfloat16, device="meta")
    with pytest.raises(NotExact, match="float16"), guarded(True):
        torch.mm(ones.to(torch.float16), ones.to(torch.float16), out_dtype=torch.float32)


def test_cuda_path_without_a_device_cannot_execute(model: Artifact) -> None:
    if torch.cuda.is_available():
        assert open_path(model, 1, "cuda", "cuda-float64").name == "torch-cuda-float64"
    else:
        with pytest.raises(CannotExecute, match="CUDA"):
            open_path(model, 1, "cuda")
    with pytest.raises(CannotExecute, match="cuda-fp4"):
        backend_named("cuda-fp4", CUDA_BACKENDS)


@pytest.fixture(scope="module")
def plain(model: Artifact) -> Runner:
    return Runner(model, Float64Backend())


@pytest.fixture(scope="module")
def static(model: Artifact) -> DeviceRunner:
    return DeviceRunner(model, Float64Backend(), "cpu", BUCKET)


PROMPT, NEXT = list(range(40, 53)), [7, 200, 31, 5, 90, 91, 14, 3]


def fed(runner: Runner, prompt: list[int], tokens: list[int]) -> list[HeadRow]:
    with fixed(1):
        cache = runner.cache(1, 64)
        rows = runner.teacher_force(cache, [prompt], [len(prompt) - 1])[0]
        return rows + [runner.feed(cache, token, len(prompt) + i) for i, token in enumerate(tokens)]


def same(left: list[HeadRow], right: list[HeadRow]) -> bool:
    return all(
        (a.row, a.exponent) == (b.row, b.exponent) and a.logits is not None and b.logits is not None
        and a.logits.numpy().tobytes() == b.logits.numpy().tobytes()
        for a, b in zip(left, right, strict=True)
    )  # fmt: skip


@pytest.mark.parametrize("length", [1, 13, 15, 16, 31])
def test_decoding_in_fixed_shapes_gives_the_same_bytes(plain: Runner, static: DeviceRunner, length: int) -> None:
    prompt = list(range(60, 60 + length))
    assert same(fed(plain, prompt, NEXT), fed(static, prompt, NEXT))
    assert not same(fed(plain, prompt, NEXT), fed(static, [1, *prompt[1:]], NEXT))


def test_sequences_may_alternate_and_rewind(plain: Runner, static: DeviceRunner) -> None:
    found = {}
    for runner in (plain, static):
        with fixed(1):
            one, two = runner.cache(1, 64), runner.cache(1, 64)
            rows = [*runner.teacher_force(one, [PROMPT], [12])[0], *runner.teacher_force(two, [PROMPT[::-1]], [12])[0]]
            for i, token in enumerate(NEXT):
                rows += [runner.feed(one, token, 13 + i), runner.feed(two, token + 1, 13 + i)]
            # Back to a shorter text, and on with another token by prefill, so that the length is the old one again.
            one.crop(len(PROMPT))
            rows += runner.teacher_force(one, [[1] * len(NEXT)], [0])[0]
            rows.append(runner.feed(one, 9, 21))
            rows.append(runner.feed(two.select(0), 9, 21))
        found[runner] = rows
    assert same(found[plain], found[static])


def test_slot_without_a_token_has_no_weight_whatever_it_contains(static: DeviceRunner, plain: Runner) -> None:
    # The longer text leaves its keys behind in the memory that the shorter one is decoded in.
    fed(static, PROMPT, NEXT)
    assert same(fed(plain, PROMPT[:2], NEXT[:3]), fed(static, PROMPT[:2], NEXT[:3]))


def test_known_models_of_every_family_keep_golden_rows_in_fixed_shapes(static: DeviceRunner) -> None:
    with fixed(1):
        assert static.vectors() == PROFILE_DIGEST


def test_no_tensor_of_a_forward_pass_is_left_on_the_processor(model: Artifact) -> None:
    """On the `meta` device, which computes nothing, an operation with a tensor of another device is an error."""
    runner = DeviceRunner(model, CudaInt8Backend(), "meta", bucket=0)
    cache = runner.cache(1, 32)
    with torch.device("meta"), torch.inference_mode():
        tokens = torch.zeros((1, 20), dtype=torch.int64)
        hidden = runner._forward(cache, tokens, torch.arange(20)[None])
        logits = runner._head.of_rows(quantise(hidden[0], 14))
    assert logits.device.type == hidden.device.type == "meta"
    assert logits.shape == (20, model.manifest.architecture.vocabulary)
