"""Runs `transformers` as a peer: `python -m bench.peer_transformers CHECKPOINT DTYPE THREADS`, DTYPE float32 or bfloat16."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from bench.worker import Claim, serve


class Transformers:
    """A checkpoint in the model and the cache of `transformers`. It does not use `generate()`, because its bookkeeping costs
    time."""

    def __init__(self, path: Path, dtype: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.name = f"transformers {transformers.__version__} {dtype}"
        self._model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype)).eval()

    def _feed(self, tokens: Sequence[int], cache: Any) -> Tensor:
        # Returns the logits of the last token only.
        ids = torch.tensor([list(tokens)])
        result: Tensor = self._model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]
        return result

    def generate(self, prompt: Sequence[int], count: int) -> list[int]:
        """Generates `count` tokens greedily."""
        cache = transformers.DynamicCache(config=self._model.config)
        with torch.inference_mode():
            tokens = [int(self._feed(prompt, cache).argmax())]
            while len(tokens) < count:
                tokens.append(int(self._feed(tokens[-1:], cache).argmax()))
        return tokens

    def prepare(self, claims: Sequence[Claim]) -> None:
        """Does nothing, because a prefill does not depend on an answer."""

    def judge(self, claims: Sequence[Claim], together: bool) -> None:
        """Prefills as many tokens as a verifier feeds: prompt and answer without its last token."""
        assert not together, "one sequence at a time"
        for prompt, count in claims:
            self.logits([*prompt, *[prompt[0]] * (count - 1)])

    def logits(self, tokens: Sequence[int]) -> Sequence[float]:
        """Returns the logits after the last token."""
        with torch.inference_mode():
            values: list[float] = self._feed(tokens, transformers.DynamicCache(config=self._model.config)).tolist()
        return values


def main(arguments: list[str]) -> None:
    """Serves the peer to the parent process."""
    path, dtype, threads = arguments
    serve(lambda: Transformers(Path(path), dtype, int(threads)))


if __name__ == "__main__":
    main(sys.argv[1:])
