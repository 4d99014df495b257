"""The published keys: which model counts, what is a target, what the roof is made of."""

import pytest

from bench import summary
from bench.engines import BFLOAT16, FLOAT32, LLAMACPP, NATIVE, TORCH, TORCH_ALONE
from bench.models import SMALL, Shape
from bench.rounds import Samples
from bench.summary import Measured
from bench.table import bounds
from bench.workload import UNJUDGED

ISSUE_KEYS = {
    "generate_over_hf_fp32", "generate_over_hf_bf16", "generate_over_llamacpp_q8", "verify_over_llamacpp_prefill",
    "verify_over_hf_prefill", "verify_over_hf_bf16_prefill", "verify_over_generate_256", "batched_verify_gain_8",
    "memory_over_artifact", "torch_path_over_hf_fp32",
}  # fmt: skip
"""What must be published, with the two losses of perplexity."""


def measured() -> Measured:
    def seconds(**each: float) -> Samples:
        names = {"ours": NATIVE, "torch": TORCH, "alone": TORCH_ALONE, "llama": LLAMACPP, "fp32": FLOAT32, "bf16": BFLOAT16}
        return {names[name]: [value] for name, value in each.items()}

    return Measured(
        first=seconds(ours=0.1, torch=0.5, alone=0.9, llama=0.1, fp32=1, bf16=2),
        answer=seconds(ours=1.1, torch=4.5, alone=11, llama=2.2, fp32=11, bf16=22),
        judged=seconds(ours=0.5, torch=2, llama=1, fp32=3, bf16=0.25),
        long=seconds(ours=4),
        batches=[{"together": [1.0], "one by one": [1.5]}, {"together": [2.0], "one by one": [2.0]}],
        memory={NATIVE: 121, FLOAT32: 400},
        artifact_bytes=100,
        cache_bytes=10,
    )


def test_every_key_of_the_issue_is_larger_than_one_where_we_are_ahead() -> None:
    keys = summary.ratios(measured())
    assert keys.keys() >= ISSUE_KEYS
    expected = {
        "generate_over_hf_fp32": 10, "generate_over_hf_bf16": 20, "generate_over_llamacpp_q8": 2, "decode_over_llamacpp_q8": 2.1,
        "verify_over_llamacpp_prefill": 2, "verify_over_hf_prefill": 6, "verify_over_hf_bf16_prefill": 0.5,
        "verify_over_generate_256": 8, "batched_verify_gain_8": 1.5, "memory_over_artifact": 1.1,
        "torch_path_over_hf_fp32": 2.444,
    }  # fmt: skip
    assert {name: keys[name] for name in expected} == expected


def test_the_worse_model_counts_also_where_less_is_better() -> None:
    keys = {name: 2.0 for name in summary.TARGETS}
    small, large = keys | {"memory_over_artifact": 1.1}, keys | {"memory_over_artifact": 1.4, "generate_over_hf_fp32": 9.0}
    merged = summary.worst({"small": small, "large": large})
    assert (merged["memory_over_artifact"], merged["generate_over_hf_fp32"]) == (1.4, 2.0)
    found = summary.targets(merged)
    assert not found["memory_over_artifact"]["met"]
    assert not found["generate_over_hf_fp32"]["met"]
    assert found["generate_over_llamacpp_q8"]["met"]


def test_speeds_are_tokens_of_decoding_and_of_one_pass() -> None:
    speed = summary.speeds(measured(), answer=64, judged=287)
    assert speed[NATIVE] == {"decode": 63.0, "one_pass": 574.0}
    assert speed[BFLOAT16]["one_pass"] == 1148.0
    assert BFLOAT16 not in UNJUDGED and "one_pass" not in speed[TORCH_ALONE]


def test_each_size_of_claim_has_its_gain() -> None:
    assert [row["gain"] for row in summary.gains(measured(), [(4, 1), (8, 8)])] == [1.5, 1.0]


def test_the_roof_of_one_token_is_all_weights_once() -> None:
    roof = {"bytes_per_second": 1.0, "multiplications_per_second": 1e18}
    two, three = (bounds(SMALL, roof, 32, answer)["generate"] for answer in (2, 3))
    cache = SMALL.cache_bytes_per_token
    assert three - two == pytest.approx(SMALL.body + SMALL.head + cache * 34, rel=1e-6)


def test_pass_bound_counts_weights_per_token_and_head_per_answer_token() -> None:
    shape = Shape("tiny", 2, 8, 16, 2, 1, 10, 64)
    roof = {"bytes_per_second": 1e18, "multiplications_per_second": 1.0}
    # Five tokens go in: q and o 64 each, k and v 32 each, three of 128; 1+2+3+4+5 pairs of tokens, 8 wide, twice.
    body, attention, head = 2 * (64 + 64 + 32 + 32 + 3 * 128), 2 * 2 * 8 * 15, 80
    assert bounds(shape, roof, 3, 3)["verify"] == 5 * body + attention + 3 * head
