"""The committed figures say what was measured: every key follows from the seconds beside it."""

import statistics
from collections.abc import Mapping
from typing import Any

import pytest

from bench import machine, summary
from bench.engines import BFLOAT16, FLOAT32, LLAMACPP, NATIVE, TORCH
from bench.models import LARGE, SMALL
from bench.page import PAGE, committed, written

COMMITTED = committed()


@pytest.fixture(scope="module", params=COMMITTED)
def results(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """The figures of one instruction set."""
    return COMMITTED[request.param]


def test_each_file_has_the_figures_of_its_own_instruction_set() -> None:
    assert COMMITTED.keys() >= {"avx2", "avx512-vnni"}
    for name, found in COMMITTED.items():
        assert machine.instruction_set(found["machine"]["instructions"]) == name
    assert (machine.instruction_set(["avx2", "avx512f", "avx512_vnni", "amx_int8"]), machine.instruction_set([])) == (
        "amx",
        "other",
    )


def test_both_models_were_measured_in_full(results: Mapping[str, Any]) -> None:
    assert list(results["models"]) == [SMALL.name, LARGE.name]
    assert results["effort"]["rounds"] >= 3
    if results["machine"].get("clock") == "processor":  # beside other work: the keys alone
        assert results["machine"]["threads"] == 1 and not results["effort"]["growth"]
        return
    assert results["machine"]["threads"] == 2 and max(results["effort"]["growth"]) == 4096
    assert [row["answer"] for row in results["models"][SMALL.name]["growth"]] == results["effort"]["growth"]
    for model in results["models"].values():
        assert len(model["table"]) == 2 * len(results["effort"]["table"]) ** 2


def test_the_published_keys_are_those_of_the_worse_model(results: Mapping[str, Any]) -> None:
    keys = summary.worst({name: model["keys"] for name, model in results["models"].items()})
    assert {name: results[name] for name in keys} == keys
    assert {"ppl_delta_w8", "ppl_delta_w16"} <= results.keys()


def test_targets_are_judged_by_the_published_keys(results: Mapping[str, Any]) -> None:
    assert results["targets"] == summary.targets({name: results[name] for name in summary.TARGETS | summary.CEILINGS})


@pytest.mark.parametrize(
    ("key", "what", "ours", "theirs"),
    [
        ("generate_over_hf_fp32", "answer", NATIVE, FLOAT32),
        ("generate_over_hf_bf16", "answer", NATIVE, BFLOAT16),
        ("generate_over_llamacpp_q8", "answer", NATIVE, LLAMACPP),
        ("verify_over_llamacpp_prefill", "judged", NATIVE, LLAMACPP),
        ("verify_over_hf_prefill", "judged", NATIVE, FLOAT32),
        ("verify_over_hf_bf16_prefill", "judged", NATIVE, BFLOAT16),
        ("torch_path_over_hf_fp32", "answer", TORCH, FLOAT32),
    ],
)
def test_ratio_follows_from_the_seconds(results: Mapping[str, Any], key: str, what: str, ours: str, theirs: str) -> None:
    for model in results["models"].values():
        seconds = model["seconds"][what]
        if theirs not in seconds:  # what was measured before bfloat16 was
            assert results["machine"]["date"] < "2026-11-23" and key not in model["keys"]
            continue
        divided = statistics.median(b / a for a, b in zip(seconds[ours], seconds[theirs], strict=True))
        assert model["keys"][key] == pytest.approx(divided, rel=2e-3)


def test_page_matches_the_measurements(results: Mapping[str, Any]) -> None:
    page = PAGE.read_text()
    assert written(page, COMMITTED) == page, "python -m bench.page writes the tables again"
    assert results["machine"]["date"] in page


def test_a_page_without_a_part_is_refused() -> None:
    with pytest.raises(ValueError, match="no part growth"):
        written(PAGE.read_text().replace("<!-- growth -->", ""), COMMITTED)
