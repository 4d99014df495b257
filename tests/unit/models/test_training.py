"""The training loop and what it leaves: a checkpoint that transformers loads and our converter converts."""

import itertools
import json
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from bytewise.inference.convert.make import SPECIAL_TOKENS
from models import corpus, folder, train
from models.corpus import Corpus, Page, Section


def test_tokenizer_is_reproducible_and_encodes_every_byte() -> None:
    texts = ["the thing that the thing does", "another thing\nentirely — é"] * 20
    first, second = (folder.learn(texts, 300) for _ in range(2))
    assert first.to_str() == second.to_str()
    assert [first.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS)))
    ids = first.encode("\x00 漢 thing<|end|>", add_special_tokens=False).ids
    assert ids[-1] == 1 and first.decode(ids, skip_special_tokens=True) == "\x00 漢 thing"


def test_windows_cover_the_stream_once_in_each_pass() -> None:
    stream = torch.arange(40 * train.LENGTH + 7)
    per_pass = -(-39 // train.BATCH)
    batches = list(itertools.islice(train.windows(stream), 2 * per_pass))
    for one in (batches[:per_pass], batches[per_pass:]):
        starts = sorted(int(window[0]) for batch in one for window in batch)
        assert [b - a for a, b in itertools.pairwise(starts)] == [train.LENGTH] * (len(starts) - 1)
        assert len(starts) >= 39
    assert all(torch.equal(window, window[0] + torch.arange(train.LENGTH + 1)) for batch in batches for window in batch)


def test_rate_rises_falls_and_ends_at_zero() -> None:
    shares = [i / 100 for i in range(101)]
    rates = [train.rate(share) for share in shares]
    top = rates.index(max(rates))
    assert rates[0] == 0 and max(rates) == pytest.approx(train.PEAK_RATE) and rates[-1] == pytest.approx(0)
    assert rates[:top] == sorted(rates[:top]) and rates[top:] == sorted(rates[top:], reverse=True)
    assert train.rate(1.7) == pytest.approx(0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "out"
    pages = tuple(
        Page(f"page-{i}", (Section(f"Title page-{i}", ["One two three four five six seven. " * 12]),)) for i in range(80)
    )
    # A clock that ticks when it is looked at: the same number of steps on every machine.
    ticks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "LENGTH", 16)
        torch.manual_seed(1)
        train.run(Corpus(pages, "Do as you like."), out, 80.0, lambda: float(next(ticks)))
    return out


def test_short_run_leaves_a_complete_checkpoint(trained: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(trained, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(trained)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert json.loads((trained / "config.json").read_text())["vocab_size"] == len(tokenizer)
    assert (trained / "LICENCE").read_text() == "Do as you like."
    held = (trained / "held-out.txt").read_text()
    assert held and all(f"Title page-{i}\n" in held for i in range(80) if Page(f"page-{i}", ()).held_out)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "five"}], tokenize=False, add_generation_prompt=True)
    assert corpus.conversation("x", "y").startswith("<|begin|><|user|>") and prompt == "<|begin|><|user|>five<|end|><|assistant|>"
    assert not list(trained.glob(".*"))


def test_training_reduces_the_loss(trained: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(trained, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(trained)
    ids = torch.tensor(
        [tokenizer("One two three four five six seven. One two three four", add_special_tokens=False)["input_ids"]]
    )
    fresh = LlamaForCausalLM(folder.shape(tokenizer.backend_tokenizer))
    with torch.no_grad():
        assert float(train.loss_of(model, ids)) < 0.8 * float(train.loss_of(fresh, ids))
