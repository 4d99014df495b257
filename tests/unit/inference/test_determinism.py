"""The switches: set, verified, put back; and the recorded environment."""

import pytest
import torch

from bytewise.inference.artifact import Artifact
from bytewise.inference.determinism import environment, fixed, verify_switches
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.environment import Environment
from bytewise.protocol.errors import NotExact


def switches() -> tuple[object, ...]:
    """What `fixed` touches."""
    return (
        torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
        torch.is_inference_mode_enabled(),
    )  # fmt: skip


def test_switches_are_put_back_also_after_an_error() -> None:
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


def test_environment_is_canonical_and_the_same_each_time(model: Artifact) -> None:
    first, second = environment(model), environment(model)
    assert first.digest == second.digest
    assert decode(Environment, encode(first)) == first
    assert (first.profile, first.gpu_arch, first.limits.vocabulary, first.limits.max_context) == ("exact-1", "cpu", 264, 256)
    assert [each.name for each in first.libraries] == sorted(each.name for each in first.libraries)
    assert list(first.engine_flags) == sorted(first.engine_flags)
    assert environment(model, max_new_tokens=8).limits.max_new_tokens == 8
