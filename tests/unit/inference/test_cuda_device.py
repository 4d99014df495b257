"""The golden hashes on a CUDA device. Runs where BYTEWISE_GPU is set, and then a missing device is a failure.

The process must be started with CUBLAS_WORKSPACE_CONFIG=:4096:8, as every process that computes on CUDA.
"""

import pytest
import torch

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.cuda.runner import CUDA_BACKENDS, DeviceRunner, open_cuda
from bytewise.inference.determinism import fixed
from bytewise.inference.engine import ExactEngine
from bytewise.inference.exact.matmul import Backend
from bytewise.inference.known_answers.operations import PROFILE_DIGEST
from bytewise.service.settings import library_variables
from tests.fixtures.inference.models import varied_requests

if not library_variables(("BYTEWISE_GPU",)):
    pytest.skip("BYTEWISE_GPU is not set: no GPU to run on", allow_module_level=True)

each_backend = pytest.mark.parametrize("backend", CUDA_BACKENDS, ids=lambda backend: backend.name)


def test_cuda_device_is_present() -> None:
    assert torch.cuda.is_available()


@each_backend
def test_every_backend_gives_the_golden_hashes_of_vectors_and_known_models(model: Artifact, backend: Backend) -> None:
    with fixed(1):
        assert open_cuda(model, backend.name).vectors() == PROFILE_DIGEST


@each_backend
@pytest.mark.parametrize("bucket", [0, 16, 256], ids=["no graph", "small graphs", "one graph"])
def test_complete_model_has_the_rows_of_the_processor(model: Artifact, backend: Backend, bucket: int) -> None:
    tokens, rows = list(range(40, 73)), []
    for runner in (DeviceRunner(model, backend, "cpu", 0), DeviceRunner(model, backend, "cuda", bucket)):
        with fixed(1):
            cache = runner.cache(1, 64)
            found = runner.teacher_force(cache, [tokens[:13]], [0], 5)[0]
            found += [runner.feed(cache, token, 13 + i) for i, token in enumerate(tokens[13:])]
        rows.append([(row.row, row.exponent, row.logits is not None and row.logits.numpy().tobytes()) for row in found])
    assert rows[0] == rows[1]


def test_answers_verify_across_processor_and_card_in_both_directions(model: Artifact) -> None:
    card, processor = ExactEngine(model, path="cuda"), ExactEngine(model)
    for request in varied_requests(model, 8, 12):
        answer = processor.generate(request)
        assert card.generate(request) == answer
        assert card.verify(request, answer.output, answer.out_hash).divergence is None
        assert processor.verify(request, answer.output, answer.out_hash).divergence is None


def test_a_divergence_on_the_card_is_confirmed_by_the_processor(model: Artifact) -> None:
    card = ExactEngine(model, path="cuda")
    request = varied_requests(model, 1, 12)[0]
    answer = card.generate(request)
    found = card.verify(request, answer.output, PROFILE_DIGEST)
    assert found.divergence is not None and card.confirm(request, found) is found
