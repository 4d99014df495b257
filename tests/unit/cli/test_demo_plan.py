"""The demo's questions and its second model: what the facts at the end silently rely on."""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load
from tokenizers import Tokenizer

from adversaries.thinner_model import thin, without
from bytewise.inference.convert import checkpoint
from bytewise.protocol.court.param_law import violations
from cli.demo.facts import MIN_TOKENS, QUESTIONS, SAMPLED
from cli.demo.plan import PARAMS, TERMS, pace_of, questions, terms_at
from cli.demo.processes import slowdown
from tests.source import ROOT

LIGHTHOUSE = ROOT / "models" / "lighthouse"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(LIGHTHOUSE / "tokenizer.json"))


def test_every_question_has_enough_tokens(tokenizer: Tokenizer) -> None:
    asked = questions("canary-0123456789abcdef")
    assert len(asked) == QUESTIONS and sum(question.temperature > 0 for question in asked) == SAMPLED
    assert [q.text for q in asked if len(tokenizer.encode(q.text, add_special_tokens=False).ids) < MIN_TOKENS] == []


def test_canary_is_a_token_run_of_the_prompt_as_the_memory_search_expects(tokenizer: Tokenizer) -> None:
    for _ in range(20):
        canary = f"canary-{secrets.token_hex(8)}"
        prompt = tokenizer.encode(questions(canary)[0].text, add_special_tokens=False).ids
        row = tokenizer.encode(f" {canary}", add_special_tokens=False).ids
        assert any(prompt[at : at + len(row)] == row for at in range(len(prompt))), canary


def test_thinner_model_lacks_exactly_its_last_layer(tmp_path: Path) -> None:
    thin(LIGHTHOUSE, tmp_path / "thin")
    whole, thinner = (load((path / "model.safetensors").read_bytes()) for path in (LIGHTHOUSE, tmp_path / "thin"))
    layers = checkpoint.read(LIGHTHOUSE).architecture.layers
    assert checkpoint.read(tmp_path / "thin").architecture.layers == layers - 1
    assert thinner and thinner.keys() == {name for name in whole if not name.startswith(f"model.layers.{layers - 1}.")}
    assert all(torch.equal(thinner[name], whole[name]) for name in thinner)
    assert (tmp_path / "thin" / "tokenizer.json").read_bytes() == (LIGHTHOUSE / "tokenizer.json").read_bytes()


def test_truncated_weights_file_stays_unreadable() -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(8)
    assert load(without(data, "b"))["a"].tolist() == [0, 0]
    with pytest.raises(SafetensorError):
        load(without(data[:-1], "b"))


@pytest.mark.parametrize("measured", [1.0, 1.6, 1.61, 2.5, 4.99, 5.0, 100.0])
def test_deadlines_grow_with_the_slowdown_within_the_law_of_parameters(measured: float) -> None:
    times = terms_at(pace_of(measured)).params.times
    assert violations(terms_at(pace_of(measured)).params, is_test_chain=True) == ()
    assert times.window == round(PARAMS.times.window * (1 if measured <= 1.6 else min(measured, 5)))
    assert (times.airgap, times.appeal_time) == (PARAMS.times.airgap, PARAMS.times.appeal_time)
    assert (terms_at(pace_of(measured)) == TERMS) is (measured <= 1.6)


def test_slowdown_grows_with_processes_that_spin() -> None:
    """Three times as many processes as cores compute beside the probe: each core then has four that share it."""
    alone = min(slowdown() for _ in range(3))
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * (os.cpu_count() or 1))]
    try:
        beside = max(slowdown() for _ in range(3))
    finally:
        for each in spinning:
            each.kill()
            each.wait(10)
    assert 1 <= alone < beside
