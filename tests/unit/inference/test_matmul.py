"""Backends against Python integers, and the choice between them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bytewise.inference.backend_selection import fastest_first
from bytewise.inference.cuda.runner import CUDA_BACKENDS
from bytewise.inference.determinism import fixed
from bytewise.inference.exact.matmul import BACKENDS, MIN_DEPTH, Backend, Float64Backend
from bytewise.inference.known_answers import operations
from bytewise.inference.known_answers.operations import PROFILE_DIGEST
from bytewise.inference.native.backend import NativeBackend
from bytewise.inference.native.library import ThreadPool, kernels
from bytewise.protocol.errors.actors import CannotExecute, NotExact
from tests.fixtures.inference.saturating_backend import Saturating

NATIVE = tuple(NativeBackend(ThreadPool(kernel)) for kernel in kernels())
each_backend = pytest.mark.parametrize("backend", [*BACKENDS, *NATIVE, *CUDA_BACKENDS], ids=lambda backend: backend.name)


@each_backend
@settings(max_examples=12)
@given(data=st.data())
def test_products_of_any_operands_are_the_integers_of_python(backend: Backend, data: st.DataObject) -> None:
    depth, rows, columns = (data.draw(st.integers(least, most)) for least, most in ((MIN_DEPTH, 40), (1, 20), (1, 20)))
    left = data.draw(st.lists(st.lists(st.integers(-16383, 16383), min_size=depth, max_size=depth), min_size=rows, max_size=rows))
    right = data.draw(
        st.lists(st.lists(st.integers(-128, 127), min_size=depth, max_size=depth), min_size=columns, max_size=columns)
    )
    found = backend.product(torch.tensor(left, dtype=torch.float32), backend.pack(torch.tensor(right, dtype=torch.int8)))
    assert found.tolist() == [[sum(a * b for a, b in zip(row, column, strict=True)) for column in right] for row in left]


@pytest.mark.parametrize("backend", [*BACKENDS, *NATIVE], ids=lambda backend: backend.name)
def test_every_backend_passes_known_answers_and_vectors_on_this_machine(backend: Backend) -> None:
    with fixed(1):
        assert operations.verify_profile(backend) == PROFILE_DIGEST


def test_backends_are_ordered_by_measured_speed() -> None:
    """One that is made slow comes after one that is not; one that cannot multiply here at all comes last."""

    class Slow(Float64Backend):
        name = "slow"

        def product(self, values: Tensor, packed: Tensor) -> Tensor:
            for _ in range(30):
                result = super().product(values, packed)
            return result

    class MissingBackend(Float64Backend):
        name = "absent"

        def product(self, values: Tensor, packed: Tensor) -> Tensor:
            raise RuntimeError("no such instruction")

    with fixed(1):
        order = fastest_first([MissingBackend(), Slow(), Float64Backend()], 1)
    assert [backend.name for backend in order] == ["float64", "slow", "absent"]


def test_known_answers_of_elementwise_operations_pass_on_this_machine() -> None:
    assert operations.verify_elementwise() > 0


def test_saturating_backend_is_skipped() -> None:
    assert operations.first_exact((Saturating(), Float64Backend())).name == "float64"


def test_machine_without_an_exact_backend_cannot_execute() -> None:
    with pytest.raises(CannotExecute, match="saturating"):
        operations.first_exact((Saturating(),))


def test_saturating_backend_fails_the_profile_by_name() -> None:
    with pytest.raises(NotExact, match="saturating"):
        operations.verify_profile(Saturating())
