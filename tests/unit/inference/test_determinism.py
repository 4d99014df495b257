"""The switches: set, verified, put back; and the recorded environment."""

import contextlib
import ctypes
import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.convert.bound import verify_bound
from bytewise.inference.convert.convert import convert
from bytewise.inference.determinism import environment, fixed, verify_switches
from bytewise.inference.engine import ExactEngine
from bytewise.inference.native.library import kernels
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import NotExact
from bytewise.protocol.records.environment import Environment
from tests.fixtures.inference.models import policy, request
from tests.fixtures.inference.tiny import write_checkpoint

MODES = {
    "rounding upwards": 0x4000, "rounding downwards": 0x2000, "rounding towards zero": 0x6000,
    "results that are flushed": 0x8000, "operands that are flushed": 0x0040,
}  # fmt: skip
"""Bits of the register MXCSR, which every thread has its own of."""

MXCSR = 7
"""Its place, in words, in the 32 bytes that fegetenv writes on x86-64."""


@contextlib.contextmanager
def mode(name: str) -> Iterator[None]:
    """Floats of this thread, and of threads that it starts, as another library may have set them."""
    before, now = (ctypes.c_uint32 * 8)(), (ctypes.c_uint32 * 8)()
    libm = ctypes.CDLL("libm.so.6")
    assert libm.fegetenv(before) == 0 == libm.fegetenv(now)
    now[MXCSR] |= MODES[name]
    assert libm.fesetenv(now) == 0
    try:
        yield
    finally:
        assert libm.fesetenv(before) == 0


needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="modes of floats are set through a register of x86-64")


def switches() -> tuple[object, ...]:
    """What `fixed` touches."""
    return (
        torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
        torch.is_inference_mode_enabled(),
    )  # fmt: skip


def test_switches_are_restored_after_an_error() -> None:
    before = switches()
    with pytest.raises(KeyError), fixed(2):
        assert switches() == (2, True, "highest", True)
        raise KeyError
    assert switches() == before


def test_engine_refuses_to_run_under_a_flipped_switch() -> None:
    with fixed(1):
        assert verify_switches(1) == 1
        with pytest.raises(NotExact, match="thread count"):
            verify_switches(2)
    with pytest.raises(NotExact, match="autocast"), torch.autocast("cpu"), fixed(1):
        pass
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(NotExact, match="default dtype"), fixed(1):
            pass
    finally:
        torch.set_default_dtype(torch.float32)


@needs_x86
@pytest.mark.parametrize("path", ["torch", *["native"][: len(kernels())]])
def test_engine_refuses_a_request_in_a_thread_with_other_float_modes(path: str, model: Artifact) -> None:
    engine, asked = ExactEngine(model, path=path), request(model, b"rounded", policy(4, "0.8"))
    truth = engine.generate(asked)
    claim = (asked, truth.output, truth.out_hash)
    for name in MODES:
        for use in (lambda: engine.generate(asked), lambda: engine.verify(*claim), engine.vectors):
            with mode(name), pytest.raises(NotExact, match=r"switch rounding and denormals"):
                use()
        assert engine.generate(asked) == truth, name
        assert engine.verify(*claim).divergence is None, name
    engine.close()


@needs_x86
def test_conversion_and_proof_refuse_a_thread_with_other_float_modes(model: Artifact, tmp_path: Path) -> None:
    """Another bound would be another model id, and would accuse an artifact that is right."""
    write_checkpoint("llama", tmp_path / "checkpoint")
    for name in MODES:
        for use in (lambda: convert(tmp_path / "checkpoint", tmp_path / "artifact"), lambda: verify_bound(model)):
            with mode(name), pytest.raises(NotExact, match=r"switch rounding and denormals"):
                use()
        assert not (tmp_path / "artifact").exists(), name


@needs_x86
@pytest.mark.parametrize("name", MODES)
def test_one_helper_thread_with_other_float_modes_is_found(name: str) -> None:
    def work() -> None:
        numbers = torch.ones(2**20)
        torch.set_num_threads(2)
        numbers.add(1)
        torch.set_num_threads(3)
        with mode(name):
            # The library keeps its helpers: the third begins here, and stays as it began.
            numbers.add(1)
        with pytest.raises(NotExact, match=r"switch rounding and denormals"), fixed(3):
            pass
        # A smaller team ends the helpers that it does not need.
        with fixed(2):
            pass

    # Helpers belong to the thread that they help, and end with it.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_environment_is_canonical_and_the_same_each_time(model: Artifact) -> None:
    first, second = environment(model), environment(model)
    assert first.digest == second.digest
    assert decode(Environment, encode(first)) == first
    assert (first.profile, first.gpu_arch, first.limits.vocabulary, first.limits.max_context) == ("exact-1", "cpu", 264, 256)
    assert [each.name for each in first.libraries] == sorted(each.name for each in first.libraries)
    assert list(first.engine_flags) == sorted(first.engine_flags)
    assert environment(model, max_new_tokens=8).limits.max_new_tokens == 8
