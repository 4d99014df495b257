"""The only forward loop of the torch path. It turns tokens into head rows, for one sequence or a ragged batch, in chunks of any
size."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from bytewise.inference import memory
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.exact.cache import ExactCache, TokenCache
from bytewise.inference.exact.matmul import Backend, FusedBackend
from bytewise.inference.exact.quantise import ACTIVATION_BITS, NOT_FINITE, Rows, quantise
from bytewise.inference.known_answers import known_models, operations
from bytewise.inference.model import build
from bytewise.protocol.errors.actors import NotExact
from bytewise.protocol.units import Digest

CHUNK = 256
"""Most tokens of one forward call. This limit bounds the memory of the attention scores. No byte depends on it."""


class Runner:
    """Torch path: the model of one artifact on one backend."""

    chunk = CHUNK

    def __init__(self, artifact: Artifact, backend: Backend, device: str = "cpu") -> None:
        self.backend = backend
        self.name = f"torch-{backend.name}"
        self.shape = artifact.manifest.architecture
        self.own_threads = isinstance(backend, FusedBackend)
        self._model, self._head = build(artifact, backend, device)
        if device == "cpu":
            # On other devices, reading the numbers would wait for the device at every layer.
            for index, layer in enumerate(self._model.layers):
                layer.register_forward_hook(_bounded(index, artifact.manifest.bound))

    def cache(self, batch: int, capacity: int) -> TokenCache:
        """Returns an empty cache with room for `capacity` tokens of each of `batch` sequences."""
        shape = self.shape
        attending = self.backend.cache(shape, batch, capacity) if isinstance(self.backend, FusedBackend) else None
        return attending or ExactCache(shape.layers, batch, shape.key_value_heads, shape.head_width, capacity)

    def cache_bytes(self, batch: int, capacity: int) -> int:
        """Returns the size in bytes of the cache that `cache` would make."""
        shape = self.shape
        attending = self.backend.cache_bytes(shape, batch, capacity) if isinstance(self.backend, FusedBackend) else None
        return attending or ExactCache.bytes_of(shape.layers, batch, shape.key_value_heads, shape.head_width, capacity)

    def memory(self) -> int:
        """Returns the size in bytes of the memory in which caches are allocated."""
        return memory.of_machine()

    def feed(self, cache: TokenCache, token: int, position: int, logits: bool = True) -> HeadRow:
        """Decodes one step: feeds one more token of one sequence, and returns the head row. The row always keeps its logits."""
        hidden = self._forward(cache, torch.tensor([[token]]), torch.tensor([[position]]))
        return self.head(hidden[0])[0]

    def teacher_force(
        self, cache: TokenCache, sequences: Sequence[Sequence[int]], keep: Sequence[int], chunk: int = CHUNK, logits: bool = True
    ) -> list[list[HeadRow]]:
        """Appends the sequences to the cache (prefill), and returns the head rows of each from its index `keep[i]` on. Shorter
        sequences are padded on the right."""
        longest, first = max(len(sequence) for sequence in sequences), cache.length
        tokens = torch.zeros((len(sequences), longest), dtype=torch.int64)
        # Padding comes after every real token of its sequence, so no token sees it.
        positions = torch.arange(first, first + longest).expand(len(sequences), longest)
        for i, sequence in enumerate(sequences):
            tokens[i, : len(sequence)] = torch.tensor(sequence, dtype=torch.int64)
        rows: list[list[HeadRow]] = [[] for _ in sequences]
        for start in range(0, longest, chunk):
            stop = min(start + chunk, longest)
            hidden = self._forward(cache, tokens[:, start:stop], positions[:, start:stop])
            for i, sequence in enumerate(sequences):
                kept, end = max(keep[i] - start, 0), min(len(sequence), stop) - start
                if kept < end:
                    rows[i].extend(self.head(hidden[i, kept:end]))
        return rows

    def head(self, hidden: Tensor) -> list[HeadRow]:
        """Quantises outputs [M, D] of the final norm, multiplies them with the output head, and returns the head rows."""
        rows = quantise(hidden, ACTIVATION_BITS)
        return head_rows(rows, self._head.of_rows(rows))

    def vectors(self) -> Digest:
        """Runs the known-answer tests and the profile's golden vectors on this backend, and returns the digest of these
        vectors. Raises `NotExact`, which names the difference."""
        found = operations.verify_profile(self.backend)
        known_models.verify(lambda known: Runner(known, self.backend), lambda _: True)
        return found

    def close(self) -> None:
        """Does nothing, because this path holds only memory."""

    def _forward(self, cache: TokenCache, tokens: Tensor, positions: Tensor) -> Tensor:
        # No mask is needed: a slot is a position, and attention knows for each layer what its last slots see.
        hidden: Tensor = self._model(
            input_ids=tokens, position_ids=positions, past_key_values=cache, use_cache=True
        ).last_hidden_state
        cache.advance(tokens.shape[1])
        return hidden


def head_rows(rows: Rows, logits: Tensor) -> list[HeadRow]:
    """Returns head rows for the input [M, D] and output [M, V] of the output head, on any device. Logits are copied to the
    processor, because sampling runs there."""
    said = logits.cpu()
    finite = torch.isfinite(said).all(-1).tolist()
    exponents = rows.exponent.squeeze(-1).tolist()
    integers = rows.values.to(torch.int16).cpu().numpy().astype("<i2")
    return [
        HeadRow(integers[i].tobytes(), exponents[i], said[i] if finite[i] and exponents[i] != NOT_FINITE else None)
        for i in range(len(exponents))
    ]


def _bounded(layer: int, bound: int) -> Callable[[Any, Any, Tensor], None]:
    def check(module: Any, inputs: Any, residual: Tensor) -> None:
        largest = int((residual.abs().amax().view(torch.int32) >> 23).item())
        if bound < largest < NOT_FINITE:
            raise NotExact(f"layer {layer} with E = {largest}, proven to be at most {bound}")

    return check
