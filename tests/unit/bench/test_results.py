"""The committed figures say what was measured: every key follows from the seconds beside it."""

import json
import statistics
from typing import Any

import pytest

from bench import summary
from bench.engines import BFLOAT16, FLOAT32, LLAMACPP, NATIVE, TORCH
from bench.inference import RESULTS
from bench.models import LARGE, SMALL
from bench.page import PAGE, written


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return found


def test_both_models_were_measured_whole(results: dict[str, Any]) -> None:
    assert list(results["models"]) == [SMALL.name, LARGE.name]
    assert results["machine"]["threads"] == 2
    assert results["effort"]["rounds"] >= 3 and max(results["effort"]["growth"]) == 4096
    assert [row["answer"] for row in results["models"][SMALL.name]["growth"]] == results["effort"]["growth"]
    for model in results["models"].values():
        assert len(model["table"]) == 2 * len(results["effort"]["table"]) ** 2


def test_the_published_keys_are_those_of_the_worse_model(results: dict[str, Any]) -> None:
    keys = summary.worst({name: model["keys"] for name, model in results["models"].items()})
    assert {name: results[name] for name in keys} == keys
    assert {"ppl_delta_w8", "ppl_delta_w16"} <= results.keys()


def test_targets_are_judged_by_the_published_keys(results: dict[str, Any]) -> None:
    assert results["targets"] == summary.targets({name: results[name] for name in summary.TARGETS | summary.CEILINGS})


@pytest.mark.parametrize(
    ("key", "what", "ours", "theirs"),
    [
        ("generate_over_hf_fp32", "answer", NATIVE, FLOAT32),
        ("generate_over_hf_bf16", "answer", NATIVE, BFLOAT16),
        ("generate_over_llamacpp_q8", "answer", NATIVE, LLAMACPP),
        ("verify_over_llamacpp_prefill", "judged", NATIVE, LLAMACPP),
        ("verify_over_hf_prefill", "judged", NATIVE, FLOAT32),
        ("torch_path_over_hf_fp32", "answer", TORCH, FLOAT32),
    ],
)
def test_a_ratio_is_what_the_seconds_say(results: dict[str, Any], key: str, what: str, ours: str, theirs: str) -> None:
    for model in results["models"].values():
        seconds = model["seconds"][what]
        divided = statistics.median(b / a for a, b in zip(seconds[ours], seconds[theirs], strict=True))
        assert model["keys"][key] == pytest.approx(divided, rel=2e-3)


def test_the_page_says_what_was_measured(results: dict[str, Any]) -> None:
    page = PAGE.read_text()
    assert written(page, results) == page, "python -m bench.page writes the tables again"
    assert f"measured on {results['machine']['date']}" in page


def test_a_page_without_a_part_is_refused(results: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no part growth"):
        written(PAGE.read_text().replace("<!-- growth -->", ""), results)
