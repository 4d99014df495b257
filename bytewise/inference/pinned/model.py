"""The float path: transformers' own model, one sequence, fed in the same shapes when it generates and when it verifies.

The library is imported at first use: the other profile's engine need not wait for it.
"""

from typing import Any

import torch
from torch import Tensor

from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.pinned.checkpoint import PinnedArtifact
from bytewise.protocol import digests
from bytewise.protocol.errors import ArtifactMismatch

EXPONENT = 0
"""Of every trace leaf: a row of floats has none."""


class FloatModel:
    """The model of one artifact on one device."""

    def __init__(self, artifact: PinnedArtifact, device: str) -> None:
        """`ArtifactMismatch` if configuration and tensors are not those of one model."""
        self._device = torch.device(device)
        self._model = _build(artifact).to(self._device)

    def begin(self, prompt: tuple[int, ...]) -> tuple[Any, HeadRow]:
        """A new cache that holds the whole prompt, fed at once, and the row of its last position."""
        from transformers import DynamicCache

        cache = DynamicCache(config=self._model.config)
        return cache, self._feed(cache, prompt)

    def feed(self, cache: Any, token: int) -> HeadRow:
        """The row after one more token."""
        return self._feed(cache, (token,))

    def _feed(self, cache: Any, tokens: tuple[int, ...]) -> HeadRow:
        ids = torch.tensor([tokens], dtype=torch.int64, device=self._device)
        out = self._model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return head_row(out.logits[0, -1])


def head_row(logits: Tensor) -> HeadRow:
    """Logits [V] of any float type as float32, and the SHA-256 of their bytes (little-endian) as the row of the trace."""
    wide = logits.to(torch.float32).cpu().contiguous()
    row = digests.sha256(wide.numpy().astype("<f4").tobytes())
    return HeadRow(row, EXPONENT, wide if bool(torch.isfinite(wide).all()) else None)


def _build(artifact: PinnedArtifact) -> Any:
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
    from transformers.utils import logging

    tensors = artifact.tensors()
    kinds = {tensor.dtype for tensor in tensors.values()}
    if len(kinds) != 1 or not next(iter(kinds)).is_floating_point:
        raise ArtifactMismatch(artifact.name, f"tensors of types {', '.join(sorted(map(str, kinds)))}, wanted is one float type")
    logging.disable_progress_bar()
    try:
        config = AutoConfig.for_model(**artifact.config)
        kind = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
        model, loaded = kind.from_pretrained(
            None, config=config, state_dict=tensors, dtype=kinds.pop(), attn_implementation="eager", output_loading_info=True
        )
    except (StrictDataclassError, AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ArtifactMismatch(artifact.name, " ".join(str(error).split())[:200]) from None
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if loaded[what]:
            raise ArtifactMismatch(artifact.name, f"{what}: {sorted(map(str, loaded[what]))[0]}")
    return model.eval()
