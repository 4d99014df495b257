"""The checkpoint that is shipped: what it says of itself is so, and rounding costs as little as is claimed."""

import json
import math

import pytest
import torch
from transformers import LlamaForCausalLM

from bench import perplexity
from bytewise.inference.convert import checkpoint
from bytewise.inference.convert.make import CHAT_TEMPLATE, SPECIAL_TOKENS
from models.corpus import PACKAGE, PACKAGE_SHA256

FOLDER = perplexity.MODEL


def test_the_folder_is_a_checkpoint_that_the_product_reads() -> None:
    found = checkpoint.read(FOLDER)
    tokens = json.loads((FOLDER / "tokenizer.json").read_text())["added_tokens"]
    assert found.tied and found.architecture.family == "llama"
    assert [token["content"] for token in tokens] == list(SPECIAL_TOKENS)
    assert (found.begin_token, found.stop_tokens) == (tokens[0]["id"], (tokens[1]["id"],))
    assert (FOLDER / "chat_template.jinja").read_text() == CHAT_TEMPLATE


def test_source_and_licence_of_the_corpus_are_beside_it() -> None:
    readme = (FOLDER / "README.md").read_text()
    assert PACKAGE in readme and PACKAGE_SHA256 in readme
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in (FOLDER / "LICENCE").read_text()


@pytest.fixture(scope="module")
def windows() -> list[list[int]]:
    """Two of them, from different pages: the whole text is `make bench-perplexity`."""
    return list(perplexity.held_out())[10::60]


@pytest.fixture(scope="module")
def exact(windows: list[list[int]]) -> perplexity.Score:
    return perplexity.score(perplexity.floats(torch.float32), windows)


def test_lighthouse_model_learned_and_has_the_stated_size(exact: perplexity.Score) -> None:
    model = LlamaForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    assert 3.0e6 < sum(parameter.numel() for parameter in model.parameters()) < 3.3e6
    assert math.exp(exact.loss) < model.config.vocab_size / 40


@pytest.mark.parametrize("bits", [8, 16])
def test_rounding_costs_less_than_the_limit(bits: int, windows: list[list[int]], exact: perplexity.Score) -> None:
    rounded = perplexity.score(perplexity.ours(bits), windows)
    assert rounded.loss != exact.loss
    assert abs(math.expm1(rounded.loss - exact.loss)) < perplexity.BARS[f"w{bits}"]
