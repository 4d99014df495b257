"""Trains the lighthouse model: a small Llama that writes like Python's documentation.

    apt-get download python3.11-doc
    python -m models.train --deb python3.11-doc_3.11.2-6+deb12u8_all.deb --out models/lighthouse --minutes 55

One core is enough. The learning rate follows the clock, so that a run ends well in the time it is given, on any machine; the
corpus, the tokenizer, the held-out pages and the order of samples are the same in each run, the weights are not.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import LlamaForCausalLM

from models import corpus, folder

LENGTH = 512
"""Number of tokens of a training window."""
BATCH = 2
PEAK_RATE, WARM_UP = 3e-3, 0.04
"""Peak of the learning rate, and the share of the time after which the rate reaches this peak."""
REPORT_EVERY = 20
SAVE_EVERY_S = 300.0
SEED = 1


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m models.train", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--deb", type=Path, required=True, help=f"the Debian package {corpus.PACKAGE}")
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint; files of the same name are replaced")
    parser.add_argument("--minutes", type=float, default=55.0, help="how long to train (default: 55)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: 1)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(SEED)
    say("reading the corpus")
    try:
        found = corpus.read(options.deb)
    except (OSError, ValueError) as error:
        sys.exit(f"{parser.prog}: {error}")
    run(found, options.out, options.minutes * 60)


def say(sentence: str) -> None:
    """Prints one line of progress on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {sentence}", file=sys.stderr, flush=True)


def run(found: corpus.Corpus, out: Path, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
    """Trains the tokenizer, trains the model for `seconds` of the clock, and writes checkpoint, held-out text and licence to
    `out`."""
    learnt, held = [page for page in found if not page.held_out], [page for page in found if page.held_out]
    tokenizer = folder.learn(page.text for page in learnt)
    stream = tokens(tokenizer, corpus.training_text(learnt))
    unseen = tokens(tokenizer, (page.text for page in held))
    say(f"{len(learnt)} pages to learn from, {len(stream)} tokens; {len(held)} pages held out, {len(unseen)} tokens")
    out.mkdir(parents=True, exist_ok=True)
    (out / "held-out.txt").write_text("\n\n".join(page.text for page in held) + "\n", encoding="utf-8")
    (out / "LICENCE").write_text(found.licence, encoding="utf-8")
    model = LlamaForCausalLM(folder.shape(tokenizer))
    train(model, stream, unseen, seconds, clock, lambda: folder.write(model, tokenizer, out))


def tokens(tokenizer: Tokenizer, texts: Iterator[str]) -> Tensor:
    """Returns the tokens of all texts as one row of token ids, int64 [N]."""
    encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return torch.tensor([token for each in encoded for token in each.ids])


def windows(stream: Tensor) -> Iterator[Tensor]:
    """Yields batches [BATCH, LENGTH + 1] without end. The last batch of a pass can have fewer rows. Each pass over the stream
    cuts it at other places and shuffles the pieces."""
    generator = torch.Generator().manual_seed(SEED)
    while True:
        shift = int(torch.randint(LENGTH, (1,), generator=generator))
        count = (len(stream) - shift - 1) // LENGTH
        starts = (shift + torch.randperm(count, generator=generator) * LENGTH).tolist()
        for first in range(0, count, BATCH):
            yield torch.stack([stream[start : start + LENGTH + 1] for start in starts[first : first + BATCH]])


def rate(share: float) -> float:
    """Returns the learning rate after this share of the time. The rate rises linearly to its peak, then falls to zero as half a
    cosine."""
    if share < WARM_UP:
        return PEAK_RATE * share / WARM_UP
    return PEAK_RATE * 0.5 * (1 + math.cos(math.pi * min(1.0, (share - WARM_UP) / (1 - WARM_UP))))


def loss_of(model: LlamaForCausalLM, batch: Tensor) -> Tensor:
    """Returns the mean negative log-likelihood of each next token, in nats."""
    logits = model(batch[:, :-1], use_cache=False).logits
    return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def held_out_loss(model: LlamaForCausalLM, unseen: Tensor) -> float:
    """Returns the mean loss on the first windows of the held-out text."""
    starts = range(0, min(len(unseen) - LENGTH, 32 * LENGTH), LENGTH)
    return fmean(float(loss_of(model, unseen[None, start : start + LENGTH + 1])) for start in starts)


def train(
    model: LlamaForCausalLM, stream: Tensor, unseen: Tensor, seconds: float, clock: Callable[[], float], save: Callable[[], None]
) -> None:
    """Trains with AdamW and clipped gradients until the time is over. Saves the model every `SAVE_EVERY_S` seconds, and at the
    end."""
    # Norm weights and other vectors do not decay.
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": plain, "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), fused=True)
    started = saved = clock()
    recent: list[float] = []
    for step, batch in enumerate(windows(stream)):
        share = (clock() - started) / seconds
        for group in optimiser.param_groups:
            group["lr"] = rate(share)
        loss = loss_of(model, batch)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        recent = [*recent[-REPORT_EVERY + 1 :], float(loss.detach())]
        over, now = share >= 1, clock()
        if step % REPORT_EVERY == 0 or over:
            speed = (step + 1) * BATCH * LENGTH / (now - started)
            left = max(0.0, seconds - (now - started))
            say(f"step {step} loss {sum(recent) / len(recent):.3f}, {speed:.0f} tokens/s, {left / 60:.1f} minutes left")
        if over or now - saved > SAVE_EVERY_S:
            save()
            saved = now
            say(f"saved; loss on held-out text {held_out_loss(model, unseen):.3f}")
        if over:
            return


if __name__ == "__main__":
    main()
